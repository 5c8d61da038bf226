import CPUKernels
import GatedDeltaTypes
import Testing
import Threading

@testable import CPUBackend
@testable import KernelReferences

/// Work that ends before it is done.
@Suite struct StopTests {
  /// A linear op of one item with this many rows of equal work, whose inputs overlap.
  private func long(rows: Int) throws -> (op: Op, out: TestTensor) {
    let features = 4096
    let x = try TestTensor(.f32, tokens: 1, dim: features + 8 * rows)
    let weight = try TestTensor(.f32, tokens: 16, dim: features)
    let out = try TestTensor(.f32, tokens: rows, dim: 16)
    for tensor in [x, weight] {
      tensor.memory.pointer.initializeMemory(as: Float.self, repeating: 1, count: tensor.count)
    }
    var view = x.view
    view.tokenStride = 8
    let op = Linear(rows: rows, inFeatures: features, outFeatures: 16, x: view, weight: weight.view, out: out.view)
    return (.linear(op), out)
  }

  private func wait(for submissions: [TestSubmission]) {
    let end = Clock.now + 60_000_000_000
    while submissions.contains(where: { $0.finishedCount == 0 }), Clock.now < end { gd_cpu_pause() }
  }

  @Test(arguments: instructionSets) func whatRunsEndsInTheMiddle(_ isa: String) throws {
    let device = try device(isa)
    let rows = 400_000
    let (op, out) = try long(rows: rows)
    let submission = TestSubmission([op], ticket: 7)
    device.submit(submission)
    while out[raw: 0] == 0 { gd_cpu_pause() }
    device.stop(from: 7)
    wait(for: [submission])
    #expect(submission.finishedCount == 1 && submission.failure?.code == .state)
    #expect(out[raw: 0] == 4096 && out[raw: 16 * rows - 1] == 0)
    device.close()
  }

  @Test func whatHasNotBegunNeverDoesAndWhatIsEarlierRuns() throws {
    let device = try device(instructionSets[0])
    let (first, out) = try long(rows: 20_000)
    let others = try (0..<20).map { _ in try long(rows: 1) }
    let submissions = [TestSubmission([first], ticket: 1)]
      + others.enumerated().map { TestSubmission([$1.op], ticket: UInt64($0) + 2) }
    for submission in submissions { device.submit(submission) }
    while out[raw: 0] == 0 { gd_cpu_pause() }
    device.stop(from: 2)
    #expect(submissions.dropFirst().allSatisfy { $0.finishedCount == 1 && $0.failure?.code == .state })
    device.close()
    wait(for: submissions)
    #expect(submissions[0].failure == nil && out[raw: 16 * 20_000 - 1] == 4096)
    #expect(others.allSatisfy { $0.out[raw: 0] == 0 })
  }

  /// Submissions that are pending when the device is closed still run.
  @Test func closingLeavesWhatIsPending() throws {
    let device = try device(instructionSets[0], threads: 2)
    let work = try (0..<50).map { _ in try long(rows: 20) }
    let submissions = work.enumerated().map { TestSubmission([$1.op], ticket: UInt64($0) + 1) }
    for submission in submissions { device.submit(submission) }
    device.close()
    wait(for: submissions)
    #expect(submissions.allSatisfy { $0.finishedCount == 1 && $0.failure == nil })
    #expect(work.allSatisfy { $0.out[raw: 16 * 20 - 1] == 4096 })
  }

  /// Every kernel looks at the word: set from the start, nothing is written.
  @Test(arguments: instructionSets) func aStoppedKernelWritesNothing(_ isa: String) throws {
    let executor = try Executor(threads: 1, kernels: CPUBackend.kernels(named: isa), leastNanoseconds: 0)
    executor.stop()
    var random = Random(seed: 3)
    let delta = try DeltaCase(.inPlace([40, 0, 1]), &random)
    let (linear, out) = try long(rows: 3)
    let x = try TestTensor(.f32, tokens: 4, dim: 32)
    let state = try TestTensor(.f32, tokens: 2, dim: 32 * 3)
    let tensors = [delta.out, delta.state, out, x, state]
    for tensor in tensors { tensor.fill(with: 5) }
    let sequences = Sequences(lengths: [4, 0], read: [-1, -1], write: [0, 1])
    let view = x.view
    let ops: [Op] = [
      .gatedDelta(delta.op, delta.sequences), linear,
      .causalConv1d(
        CausalConv1d(
          tokens: 4, channels: 32, width: 4, slots: 2, options: .init(activation: .none), x: view, weight: state.view,
          bias: nil, state: state.view, out: view, states: .none), sequences),
      .gatedRMSNorm(
        GatedRMSNorm(
          tokens: 4, heads: 1, dim: 32, options: .init(), x: view, z: view, weight: view, out: view)),
      .copySlots(
        CopySlots(slots: 2, slotElements: 96, pool: state.view),
        Sequences(count: 1, starts: [], readSlots: [-1], writeSlots: [0], stagedReads: [])),
      .commitCausalConv1d(
        CommitCausalConv1d(tokens: 4, channels: 32, width: 4, slots: 2, x: view, state: state.view), sequences),
    ]
    for op in ops {
      #expect { try executor.run([EncodedOp(op, name: "anOp", borrows: true)]) } throws: {
        ($0 as? Failure)?.code == .state
      }
    }
    for tensor in tensors { #expect((0..<tensor.count).allSatisfy { tensor[raw: $0] == 5 }) }
  }

  @Test func aFailureCarriesItsOp() throws {
    let executor = try Executor(threads: 1, kernels: CPUBackend.kernels(named: instructionSets[0]), leastNanoseconds: 0)
    let pool = try TestTensor(.f32, tokens: 2, dim: 8)
    // A swap of slots that no memory can hold a copy of.
    let op = Op.copySlots(
      CopySlots(slots: 2, slotElements: 1 << 58, pool: pool.view),
      Sequences(count: 2, starts: [], readSlots: [1, 0], writeSlots: [0, 1], stagedReads: [0, 1]))
    #expect { try executor.run([EncodedOp(op, name: "copySlots", borrows: false)]) } throws: {
      let failure = $0 as? Failure
      return failure?.code == .outOfMemory && failure?.op == "copySlots"
    }
  }
}
