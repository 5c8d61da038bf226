import GatedDeltaTypes
import Testing

@testable import KernelReferences
@testable import MetalBackend

#if os(Linux)
  import CEmulator
  import Glibc
  @testable import Metal

  typealias EmulatedSettings = EmulatedDevice.Settings

  /// Failures on a GPU, and the time at which the program learns of them.
  @Suite(.enabled(if: Devices.haveKernels, "there is no translated shader library"))
  struct FailureTests {
    /// out = 2 x.
    func doubling(_ backend: any Backend, _ x: Float = 1) throws -> (op: Op, out: TensorView) {
      var maker = Maker(backend, seed: 1)
      let (input, weight) = (
        try maker.tensor(.f32, tokens: 1, dim: 1, strided: false),
        try maker.tensor(.f32, tokens: 1, dim: 1, strided: false)
      )
      let out = try maker.tensor(.f32, tokens: 1, dim: 1, strided: false)
      input.memory.write(x, .f32, 0)
      weight.memory.write(2, .f32, 0)
      out.memory.write(0, .f32, 0)
      return (.linear(Linear(rows: 1, inFeatures: 1, outFeatures: 1, x: input, weight: weight, out: out)), out)
    }

    func norm(_ backend: any Backend) throws -> Op {
      var maker = Maker(backend, seed: 2)
      return try maker.norm()
    }

    @Test func whatCannotBeEncodedRunsNothing() throws {
      // Projections compile, norms do not.
      let device = try Devices.emulated(.init()) { functions in
        functions.pipeline_create = { name, constants, count, error in
          guard let name, String(cString: name).hasPrefix("gd_project_"), let made = RealLibrary.create else {
            error?.pointee = strdup("gd_norm: the compiler is out of order")
            return nil
          }
          return made(name, constants, count, error)
        }
      }
      let backend = try MetalBackend(device: device)
      let first = try doubling(backend)
      let failure = try #require(backend.run(first.op, try norm(backend)))
      #expect(failure.code == .device && failure.received.contains("the compiler is out of order"))
      #expect(failure.expected.contains("gd_norm_") && first.out.memory.read(.f32, 0) == 0)
      // The queue continues.
      #expect(backend.run(first.op) == nil && first.out.memory.read(.f32, 0) == 2)
    }

    @Test func aFaultBelongsToItsSubmission() throws {
      let backend = try MetalBackend(device: Devices.emulated())
      let queue = try #require(backend.queue as? EmulatedQueue)
      let (a, b) = (try doubling(backend), try doubling(backend, 4))
      queue.failNext(.pageFault)
      let (first, second) = (TestSubmission([a.op]), TestSubmission([b.op]))
      backend.submit(first)
      backend.submit(second)
      #expect(second.wait() == nil && b.out.memory.read(.f32, 0) == 8)
      let failure = try #require(first.wait())
      #expect(failure.code == .device && failure.expected == "the GPU to finish")
      #expect(throws: Never.self) { try backend.check(a.op) }
    }

    @Test(arguments: [
      (MTLCommandBufferError.Code.outOfMemory, Failure.Code.outOfMemory, "memory for the GPU's work"),
      (.timeout, .device, "the GPU to finish within the system's limit of time"),
      (.internal, .device, "the GPU to finish"),
    ])
    func whatTheGPUReportsIsTyped(_ code: MTLCommandBufferError.Code, _ wanted: Failure.Code, _ words: String) throws {
      let backend = try MetalBackend(device: Devices.emulated())
      try #require(backend.queue as? EmulatedQueue).failNext(code)
      let failure = try #require(backend.run(try doubling(backend).op))
      #expect(failure.code == wanted && failure.expected == words)
    }

    @Test(arguments: [MTLCommandBufferError.Code.accessRevoked, .notPermitted])
    func aLostDeviceStaysLost(_ code: MTLCommandBufferError.Code) throws {
      let backend = try MetalBackend(device: Devices.emulated())
      let op = try doubling(backend).op
      try #require(backend.queue as? EmulatedQueue).failNext(code)
      #expect(backend.run(op)?.code == .device)
      for _ in 0..<2 {
        let failure = try #require(backend.run(op))
        #expect(failure.code == .device && failure.argument == "device")
        #expect { try backend.check(op) } throws: { ($0 as? Failure)?.argument == "device" }
      }
      // A new backend is not affected.
      let next = try MetalBackend(device: Devices.emulated())
      #expect(next.run(try doubling(next).op) == nil)
    }

    @Test func theFirstFailureOfASplitSubmissionIsItsFailure() throws {
      let backend = try MetalBackend(device: Devices.emulated())
      backend.workLimit.fix(1)
      let queue = try #require(backend.queue as? EmulatedQueue)
      let ops = try (0..<3).map { _ in try doubling(backend) }
      queue.failNext(.timeout)
      queue.failNext(.internal)
      let submission = TestSubmission(ops.map(\.op))
      backend.submit(submission)
      #expect(submission.wait()?.expected == "the GPU to finish within the system's limit of time")
      #expect(ops[2].out.memory.read(.f32, 0) == 2)
    }

    /// A queue holds 512 command buffers; a submission may take more.
    @Test(.timeLimit(.minutes(2))) func moreCommandBuffersThanAQueueHolds() throws {
      let backend = try MetalBackend(device: Devices.emulated())
      backend.workLimit.fix(1)
      let (op, out) = try doubling(backend, 3)
      let submission = TestSubmission(Array(repeating: op, count: MetalBackend.commandBufferLimit + 90))
      backend.submit(submission)
      #expect(submission.wait() == nil && out.memory.read(.f32, 0) == 6)
      #expect(backend.run(op) == nil)
    }

    /// One that cannot be encoded is found before the first of them runs.
    @Test func manyCommandBuffersAreRehearsed() throws {
      var settings = EmulatedSettings()
      settings.maxThreads = ["gd_norm": 96]
      let backend = try MetalBackend(device: Devices.emulated(settings))
      backend.workLimit.fix(1)
      let (op, out) = try doubling(backend, 3)
      let before = out.memory.read(.f32, 0)
      var maker = Maker(backend, seed: 1)
      var ops = Array(repeating: op, count: MetalBackend.heldCommandBuffers + 10)
      ops.append(try maker.op(2))
      let submission = TestSubmission(ops)
      backend.submit(submission)
      #expect(submission.wait()?.received == "at most 96")
      #expect(out.memory.read(.f32, 0) == before)
    }

    @Test func aGPUThatIsTooSmall() throws {
      var settings = EmulatedSettings()
      settings.maxThreads = ["gd_project": 96]
      let backend = try MetalBackend(device: Devices.emulated(settings))
      let failure = try #require(backend.run(try doubling(backend).op))
      #expect(failure.code == .device && failure.received == "at most 96")
      #expect(failure.expected == "a GPU that runs gd_project_f32_f32 with 128 threads")
    }

    @Test func moreSubmissionsThanCommandBuffers() throws {
      var settings = EmulatedSettings()
      settings.delay = 20
      let backend = try MetalBackend(device: Devices.emulated(settings))
      let (op, out) = try doubling(backend, 3)
      let submissions = (0..<(MetalBackend.commandBufferLimit + 50)).map { _ in TestSubmission([op]) }
      for submission in submissions { backend.submit(submission) }
      #expect(submissions.allSatisfy { $0.wait() == nil } && out.memory.read(.f32, 0) == 6)
    }

    /// The submission holds its memory until the end: no other reference is needed.
    @Test func memoryThatIsLetGoOfInFlight() throws {
      var settings = EmulatedSettings()
      settings.delay = 500
      let backend = try MetalBackend(device: Devices.emulated(settings))
      func submit() throws -> TestSubmission {
        var maker = Maker(backend, seed: 5)
        let submission = TestSubmission(try (0..<4).map { try maker.op($0) })
        backend.submit(submission)
        return submission
      }
      let pending = try (0..<8).map { _ in try submit() }
      #expect(pending.allSatisfy { $0.wait() == nil })
    }

    @Test func memoryThatCannotBeWrapped() throws {
      let backend = try MetalBackend(device: Devices.emulated())
      let memory = try backend.allocate(byteCount: 3 * 16384)
      for (pointer, bytes) in [
        (memory.pointer + 4096, 16384), (memory.pointer, 16384 + 1), (memory.pointer, 0),
      ] {
        #expect { try backend.wrap(pointer: pointer, byteCount: bytes) } throws: { error in
          (error as? Failure)?.code == .invalidArgument && (error as? Failure)?.argument == "pointer"
        }
      }
      #expect(try backend.allocate(byteCount: 0).byteCount == 0)
      #expect { try backend.allocate(byteCount: 5 << 30) } throws: { ($0 as? Failure)?.code == .outOfMemory }
    }
  }
#endif
