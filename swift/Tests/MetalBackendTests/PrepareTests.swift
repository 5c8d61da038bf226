import GatedDeltaTypes
import Testing

@testable import KernelReferences
@testable import MetalBackend

#if os(Linux)
  import CEmulator
  import Glibc
  import Synchronization
  @testable import Metal

  /// Pipelines made, and whether the next ones fail, of all devices that count.
  private let made = Atomic<Int>(0)
  private let fails = Atomic<Bool>(false)
  private let libraries = Atomic<Int>(0)

  @Suite(.enabled(if: Devices.haveKernels, "there is no translated shader library"), .serialized)
  struct PrepareTests {
    func counted() throws -> MetalBackend {
      let device = try Devices.emulated(.init()) { functions in
        functions.pipeline_create = { name, constants, count, error in
          made.wrappingAdd(1, ordering: .relaxed)
          if fails.load(ordering: .relaxed) {
            error?.pointee = strdup("the compiler is out of order")
            return nil
          }
          return RealLibrary.create?(name, constants, count, error)
        }
      }
      return try MetalBackend(device: device)
    }

    /// The result of preparing the ops.
    func prepare(_ backend: MetalBackend, _ ops: [Op]) -> Failure? {
      let outcome = TestSubmission(ops)
      backend.prepare(outcome.ops) { outcome.finish($0) }
      return outcome.wait()
    }

    /// Ops of every kind: once prepared, running them compiles nothing.
    @Test func whatIsPreparedIsCompiled() throws {
      let backend = try counted()
      for seed in 0..<12 as Range<UInt64> {
        var maker = Maker(backend, seed: seed)
        let ops = try (0..<8).map { try maker.op($0) }
        #expect(prepare(backend, ops) == nil)
        let before = made.load(ordering: .relaxed)
        #expect(before > 0)
        for op in ops { #expect(backend.run(op) == nil) }
        #expect(made.load(ordering: .relaxed) == before)
      }
    }

    func countingTexts() throws -> EmulatedDevice {
      libraries.store(0, ordering: .relaxed)
      return try Devices.emulated(.init()) { functions in
        functions.source = {
          libraries.wrappingAdd(1, ordering: .relaxed)
          return RealLibrary.source?()
        }
      }
    }

    /// The text of a shader file is compiled when one of its kernels is needed, once, even if one thread prepares while
    /// another runs.
    @Test func aTextIsCompiledOnceAndWhenItIsNeeded() throws {
      let backend = try MetalBackend(device: countingTexts())
      #expect(libraries.load(ordering: .relaxed) == 0)
      var first = Maker(backend, seed: 1)
      for _ in 0..<3 { #expect(backend.run(try first.norm()) == nil) }
      #expect(libraries.load(ordering: .relaxed) == 1)
      var maker = Maker(backend, seed: 7)
      let ops = try (0..<Maker.kinds).map { try maker.op($0) }
      let outcomes = ops.map { op in
        let outcome = TestSubmission([op])
        backend.prepare(outcome.ops) { outcome.finish($0) }
        return outcome
      }
      for op in ops { #expect(backend.run(op) == nil) }
      #expect(outcomes.allSatisfy { $0.wait() == nil })
      // Norms, and of the others each file once.
      let files = Set(backend.pipelines.kernels.map(\.family.file))
      #expect(files.count > 5 && libraries.load(ordering: .relaxed) == files.count)
    }

    /// With a compiled library no text is compiled; one that the system refuses is as none.
    @Test(arguments: [true, false]) func aCompiledLibraryIsUsed(_ isWhole: Bool) throws {
      let device = try countingTexts()
      let text = String(cString: try #require(RealLibrary.source?()))
      let bytes = EmulatedDevice.metallib(of: isWhole ? text : "of another build")
      let backend = try bytes.withUnsafeBytes { bytes in
        try MetalBackend(device: device, pipelines: Pipelines(device: device, metallib: bytes))
      }
      var maker = Maker(backend, seed: 1)
      for kind in 0..<4 { #expect(backend.run(try maker.op(kind)) == nil) }
      // The one that was offered, or that and the text of each file.
      let files = Set(backend.pipelines.kernels.map(\.family.file))
      #expect(libraries.load(ordering: .relaxed) == (isWhole ? 1 : 1 + files.count))
    }

    @Test func nothingRuns() throws {
      let backend = try counted()
      var maker = Maker(backend, seed: 3)
      let (x, weight) = (
        try maker.tensor(.f32, tokens: 1, dim: 1, strided: false),
        try maker.tensor(.f32, tokens: 1, dim: 1, strided: false)
      )
      let out = try maker.tensor(.f32, tokens: 1, dim: 1, strided: false)
      out.memory.write(5, .f32, 0)
      #expect(prepare(backend, [.linear(Linear(rows: 1, inFeatures: 1, outFeatures: 1, x: x, weight: weight, out: out))]) == nil)
      #expect(out.memory.read(.f32, 0) == 5)
    }

    @Test func whatDoesNotCompileIsTold() throws {
      let backend = try counted()
      var maker = Maker(backend, seed: 4)
      let op = try maker.norm()
      fails.store(true, ordering: .relaxed)
      let failure = prepare(backend, [op])
      fails.store(false, ordering: .relaxed)
      #expect(failure?.op == "anOp" && failure?.received.contains("the compiler is out of order") == true)
      #expect(prepare(backend, [op]) == nil && backend.run(op) == nil)
    }
  }
#endif
