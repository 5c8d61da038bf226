import CPUKernels
import GatedDeltaTypes
import Synchronization
import Testing

@testable import CPUBackend

/// The instruction sets that this processor has: every test runs on each.
let instructionSets: [String] = {
  var names: [String] = []
  var index: Int32 = 0
  while let name = gd_cpu_isa_name(index) {
    if gd_cpu_kernels_named(name) != nil { names.append(String(cString: name)) }
    index += 1
  }
  return names
}()

func kernels(_ name: String) throws -> gd_cpu_kernels { try CPUBackend.kernels(named: name).pointee }

/// A device that cuts even the smallest op into as many parts as it has threads.
func device(_ isa: String, threads: Int = 1) throws -> CPUDevice {
  try CPUBackend.open(threads: threads, kernels: CPUBackend.kernels(named: isa), leastNanoseconds: 0)
}

final class TestSubmission: Submission {
  let ops: [Op]
  private let state = Mutex<(finished: Int, failure: Failure?)>((0, nil))

  init(_ ops: [Op]) { self.ops = ops }

  func finish(_ failure: Failure?) {
    state.withLock {
      $0.finished += 1
      $0.failure = failure
    }
  }

  var finishedCount: Int { state.withLock { $0.finished } }
  var failure: Failure? { state.withLock { $0.failure } }
}

extension CPUDevice {
  /// Submits and waits, as a caller that blocks does.
  func run(_ ops: [Op]) throws {
    let submission = TestSubmission(ops)
    submit(submission)
    assist(submission)
    while submission.finishedCount == 0 { gd_cpu_pause() }
    #expect(submission.finishedCount == 1)
    if let failure = submission.failure { throw failure }
  }
}

extension Sequences {
  /// Lengths and slots; what has to be staged follows from them.
  init(lengths: [Int], read: [Int], write: [Int]) {
    var starts: [Int32] = [0]
    for length in lengths { starts.append((starts.last ?? 0) + Int32(length)) }
    let staged = lengths.indices.filter { reader in
      read[reader] >= 0 && lengths.indices.contains { $0 != reader && write[$0] == read[reader] }
    }
    self.init(
      count: lengths.count, starts: starts, readSlots: read.map { Int32($0) }, writeSlots: write.map { Int32($0) },
      stagedReads: staged.map { Int32($0) })
  }
}
