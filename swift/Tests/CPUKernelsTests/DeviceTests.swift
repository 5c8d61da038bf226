import CPUKernels
import GatedDeltaTypes
import Synchronization
import Testing
import Threading

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

@testable import CPUBackend
@testable import KernelReferences

@Suite struct DeviceTests {
  @Test func itSaysWhatItIs() throws {
    let device = try CPUBackend.open(threads: 0)
    #expect(device.description.backend == .cpu && !device.description.emulated)
    #expect(device.description.threads == Processor.usableCores)
    #expect(instructionSets.contains(device.description.isa))
    #expect(!device.description.name.isEmpty && device.description.name.utf8.count < 128)
    device.close()
  }

  @Test func whatItCannotDoIsRefused() throws {
    #expect { try CPUBackend.kernels(named: "avx1024") } throws: { error in
      let failure = error as? Failure
      return failure?.code == .unsupported && failure?.argument == "GATED_DELTA_ISA" && failure?.received == "avx1024"
    }
    let foreign = instructionSets.contains("neon") ? "avx2" : "neon"
    #expect(throws: Failure.self) { try CPUBackend.kernels(named: foreign) }
    #expect(throws: Failure.self) { try CPUBackend.open(threads: -1) }
    let device = try CPUBackend.open(threads: 1)
    defer { device.close() }
    var random = Random(seed: 1)
    let one = try DeltaCase(.inPlace([2]), &random)
    for algorithm in Algorithm.allCases {
      try device.check(.gatedDelta(one.op.with(algorithm: algorithm), one.sequences))
    }
  }

  @Test func memoryIsZeroedAlignedAndBorrowedWithoutACopy() throws {
    let device = try CPUBackend.open(threads: 1)
    defer { device.close() }
    for bytes in [0, 1, 100, 16384, 16385, 3 << 20] {
      let memory = try device.allocate(byteCount: bytes)
      #expect(UInt(bitPattern: memory.pointer) % 16384 == 0 && memory.byteCount == bytes && !memory.isWrapped)
      #expect(UnsafeRawBufferPointer(start: memory.pointer, count: bytes).allSatisfy { $0 == 0 })
    }
    #expect { _ = try device.allocate(byteCount: Int.max) } throws: { ($0 as? Failure)?.code == .outOfMemory }
    #expect { _ = try device.allocate(byteCount: 1 << 60) } throws: { ($0 as? Failure)?.code == .outOfMemory }
    let own = try device.allocate(byteCount: 4096)
    let wrapped = try device.wrap(pointer: own.pointer + 64, byteCount: 128)
    #expect(wrapped.pointer == own.pointer + 64 && wrapped.isWrapped && wrapped.byteCount == 128)
    #expect { _ = try device.wrap(pointer: own.pointer + 8, byteCount: 8) } throws: {
      ($0 as? Failure)?.code == .invalidArgument && ($0 as? Failure)?.argument == "pointer"
    }
  }

  /// x becomes x + 1 by a linear op on (x, 1).
  private func increment(_ x: TestTensor, _ out: TestTensor, _ weight: TestTensor) -> Op {
    .linear(Linear(rows: 1, inFeatures: 2, outFeatures: 2, x: x.view, weight: weight.view, out: out.view))
  }

  private func counter() throws -> (TestTensor, TestTensor, TestTensor) {
    let weight = try TestTensor(.f32, tokens: 2, dim: 2)
    for (i, value) in [Float(1), 1, 0, 1].enumerated() { weight[raw: i] = value }
    let a = try TestTensor(.f32, tokens: 1, dim: 2)
    a[raw: 1] = 1
    return (a, try TestTensor(.f32, tokens: 1, dim: 2), weight)
  }

  @Test func submissionsRunInOrderWithoutBeingWaitedFor() throws {
    let device = try device(instructionSets[0], threads: 2)
    let (a, b, weight) = try counter()
    let submissions = (0..<300).map { _ in TestSubmission([increment(a, b, weight), increment(b, a, weight)]) }
    for submission in submissions { device.submit(submission) }
    let end = Clock.now + 20_000_000_000
    while submissions.last?.finishedCount == 0 && Clock.now < end { usleep(100) }
    #expect(submissions.allSatisfy { $0.finishedCount == 1 && $0.failure == nil })
    #expect(a[raw: 0] == 600)
    // After the thread has gone to sleep it still wakes.
    usleep(150_000)
    let late = TestSubmission([increment(a, b, weight)])
    device.submit(late)
    while late.finishedCount == 0 && Clock.now < end { usleep(100) }
    #expect(late.finishedCount == 1 && b[raw: 0] == 601)
    device.close()
  }

  @Test func aWaiterRunsWhatItWaitsFor() throws {
    let device = try device(instructionSets[0])
    let (a, b, weight) = try counter()
    for _ in 0..<500 { try device.run([increment(a, b, weight), increment(b, a, weight)]) }
    #expect(a[raw: 0] == 1000)
    device.close()
  }

  /// Each submission adds one after the next, so that one is always waiting.
  @Test func aQueueThatNeverRunsEmptyHoldsOnToNothing() throws {
    let device = try device(instructionSets[0])
    let links = Links(on: device, count: 2000)
    for _ in 0..<2 { links.add() }
    let end = Clock.now + 20_000_000_000
    while links.finished.load(ordering: .acquiring) < 2000 && Clock.now < end { usleep(100) }
    #expect(links.finished.load(ordering: .acquiring) == 2000)
    #expect(links.most.load(ordering: .acquiring) < 10)
    device.close()
  }

  private final class Links: Sendable {
    let device: CPUDevice
    let left: Atomic<Int>
    let alive = Atomic<Int>(0)
    let most = Atomic<Int>(0)
    let finished = Atomic<Int>(0)

    init(on device: CPUDevice, count: Int) {
      self.device = device
      left = Atomic(count)
    }

    func add() {
      guard left.subtract(1, ordering: .relaxed).newValue >= 0 else { return }
      device.submit(Link(self))
    }

    private final class Link: Submission {
      let ticket: UInt64 = 1
      let ops: [EncodedOp] = []
      private let links: Links

      init(_ links: Links) {
        self.links = links
        links.most.max(links.alive.add(1, ordering: .relaxed).newValue, ordering: .relaxed)
      }

      deinit { links.alive.subtract(1, ordering: .relaxed) }

      func finish(_ failure: Failure?) {
        links.add()
        links.finished.add(1, ordering: .releasing)
      }
    }
  }

  /// Several devices at once, as several Workers open them: they share one pool, and results do not depend on which of
  /// them holds it.
  @Test func devicesOfSeveralThreadsShareThePool() throws {
    var random = Random(seed: 77)
    let expected = try DeltaCase(.inPlace([9, 4, 17], outType: .f32), &random)
    try device(instructionSets[0]).run([.gatedDelta(expected.op, expected.sequences)])
    let bytes = expected.out.bytes
    let right = SharedCount()
    onThreads(4) {
      do {
        let device = try device(instructionSets[0], threads: 4)
        for _ in 0..<40 {
          var random = Random(seed: 77)
          let one = try DeltaCase(.inPlace([9, 4, 17], outType: .f32), &random)
          try device.run([.gatedDelta(one.op, one.sequences)])
          if one.out.bytes == bytes { right.add() }
        }
        device.close()
      } catch {}
    }
    #expect(right.now == 160)
  }

  /// A caller that flushes denormals to zero gets the same bits, and keeps its own mode.
  @Test(arguments: instructionSets) func theCallersFloatModeDoesNotMatter(_ isa: String) throws {
    #if arch(x86_64)
      let flushing: UInt64 = 0x9fc0
    #else
      let flushing: UInt64 = 1 << 24
    #endif
    let device = try device(isa)
    defer { device.close() }
    let x = try TestTensor(.f32, tokens: 1, dim: 16)
    let weight = try TestTensor(.f32, tokens: 1, dim: 16)
    let out = try TestTensor(.f32, tokens: 1, dim: 1)
    x[raw: 3] = 0x1p-100
    weight[raw: 3] = 0x1p-40
    let op = Linear(rows: 1, inFeatures: 16, outFeatures: 1, x: x.view, weight: weight.view, out: out.view)
    let submission = TestSubmission([.linear(op)])
    let before = gd_cpu_float_environment_enter()
    gd_cpu_float_environment_leave(flushing)
    device.submit(submission)
    device.assist(submission)
    let mode = gd_cpu_float_environment_enter()
    gd_cpu_float_environment_leave(before)
    while submission.finishedCount == 0 { gd_cpu_pause() }
    #expect(mode & ~0x3f == flushing & ~0x3f)
    #expect(out[raw: 0] == 0x1p-140)
  }

  /// A function with types: the compiler takes seconds to infer them from the constants.
  private func values(_ constants: Int...) -> [UInt32] { constants.map(UInt32.init) }

  @Test func theKernelsOptionsAreTheOps() {
    #expect(DType.allCases.prefix(3).map(\.rawValue) == values(GD_CPU_F32, GD_CPU_F16, GD_CPU_BF16))
    #expect(
      GateForm.allCases.map(\.rawValue)
        == values(GD_CPU_GATE_DECAY, GD_CPU_GATE_LOG, GD_CPU_GATE_NEG_LOG, GD_CPU_GATE_RAW, GD_CPU_GATE_RAW_SSM, GD_CPU_GATE_RAW_BOUNDED))
    #expect(GateDims.allCases.map(\.rawValue) == values(GD_CPU_GATE_PER_HEAD, GD_CPU_GATE_PER_KEY))
    #expect(
      BetaForm.allCases.map(\.rawValue)
        == values(GD_CPU_BETA_GIVEN, GD_CPU_BETA_SIGMOID, GD_CPU_BETA_TWICE_SIGMOID))
    #expect(HeadMap.allCases.map(\.rawValue) == values(GD_CPU_HEADS_BLOCK, GD_CPU_HEADS_TILED))
    #expect(
      QKNorm.allCases.map(\.rawValue)
        == values(GD_CPU_NORM_NONE, GD_CPU_NORM_L2, GD_CPU_NORM_L2_MAX, GD_CPU_NORM_RMS))
    #expect(
      Activation.allCases.map(\.rawValue)
        == values(GD_CPU_ACTIVATION_NONE, GD_CPU_ACTIVATION_SILU, GD_CPU_ACTIVATION_SIGMOID))
    #expect(NormOrder.allCases.map(\.rawValue) == values(GD_CPU_NORM_THEN_GATE, GD_CPU_GATE_THEN_NORM))
  }
}
