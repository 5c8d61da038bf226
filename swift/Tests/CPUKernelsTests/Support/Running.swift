import CPUKernels
import GatedDeltaTypes
import Synchronization
import Testing
import Threading

@testable import CPUBackend
@testable import KernelReferences

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

final class TestSubmission: Submission, @unchecked Sendable {
  let ticket: UInt64
  let ops: [EncodedOp]
  // The backend's own lock: a thread sanitizer knows pthread's, but not Synchronization.Mutex.
  private let lock = Lock()
  private var finishes: [Failure?] = []

  init(_ ops: [Op], ticket: UInt64 = 1, borrows: Bool = false) {
    self.ticket = ticket
    self.ops = ops.map { EncodedOp($0, name: "anOp", borrows: borrows) }
  }

  func finish(_ failure: Failure?) {
    lock.lock()
    finishes.append(failure)
    lock.unlock()
  }

  private var seen: [Failure?] {
    lock.lock()
    defer { lock.unlock() }
    return finishes
  }

  var finishedCount: Int { seen.count }
  var failure: Failure? { seen.compactMap { $0 }.first }
}

extension CPUDevice {
  /// Submits and waits, like a blocking caller.
  func run(_ ops: [Op]) throws {
    let submission = TestSubmission(ops)
    submit(submission)
    assist(submission)
    while submission.finishedCount == 0 { gd_cpu_pause() }
    #expect(submission.finishedCount == 1)
    if let failure = submission.failure { throw failure }
  }
}

/// A number that threads share.
final class SharedCount: Sendable {
  private let value = Atomic<Int>(0)

  var now: Int { value.load(ordering: .acquiring) }
  func add() { value.add(1, ordering: .releasing) }
}

/// Runs a function on so many threads at the same time, and returns when all calls have ended.
func onThreads(_ threads: Int, _ body: @escaping @Sendable () -> Void) {
  let ended = SharedCount()
  for _ in 0..<threads {
    let isStarted = startThread {
      body()
      ended.add()
    }
    #expect(isStarted)
    if !isStarted { ended.add() }
  }
  let lock = Lock()
  lock.lock()
  while ended.now < threads { lock.sleep(until: Deadline(timeout: 200_000)) }
  lock.unlock()
}
