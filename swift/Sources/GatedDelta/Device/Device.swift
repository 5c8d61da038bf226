import GatedDeltaTypes
import Synchronization

/// An open device: a backend, the ops encoded since the last commit, and the submissions in flight. Everything except
/// the queue belongs to the owning thread alone; the exports check that before they get here.
final class Device: @unchecked Sendable {
  let backend: any Backend
  let queue = SubmissionQueue()
  /// The thread that opened the device, by `ThreadState.id`.
  let owner: UInt64
  /// Buffers name their device by this number: no two devices of a process share one, even after the first is closed.
  let serial = Device.lastSerial.wrappingAdd(1, ordering: .relaxed).newValue
  private static let lastSerial = Atomic<UInt64>(0)

  let slotChecker = SlotChecker()
  /// Lists the extents of one op's tensors while the op is checked. Kept, so that no op allocates a list.
  private var extents: [Validator.Extent] = []
  /// Memory of its buffers.
  let usage = MemoryUsage()
  /// Failures that a test has requested.
  let faults = Faults()
  private var encoded: [EncodedOp] = []
  /// The mapped files that `encoded` reads.
  private var files: [MappedFile] = []
  private var plans: Set<Handle> = []

  init(backend: any Backend, owner: UInt64) {
    self.backend = backend
    self.owner = owner
  }

  func takeExtents() -> [Validator.Extent] {
    var taken: [Validator.Extent] = []
    swap(&taken, &extents)
    return taken
  }

  func keepExtents(_ list: inout [Validator.Extent]) {
    list.removeAll(keepingCapacity: true)
    swap(&list, &extents)
  }

  func checkOwner(_ thread: UInt64) throws(Failure) {
    guard thread == owner else {
      throw Failure(
        .state, argument: "device", expected: "a call from the thread that opened the device",
        received: "a call from another thread")
    }
  }

  func encode(_ op: consuming EncodedOp, reading newFiles: [MappedFile] = []) {
    encoded.append(op)
    files.unite(newFiles)
  }

  func discard() {
    encoded.removeAll(keepingCapacity: true)
    files.removeAll(keepingCapacity: true)
  }

  /// Submits the encoded ops. If there are none, returns the last ticket: waiting for it waits for everything.
  func commit() throws(Failure) -> UInt64 {
    try faults.takeCommit()
    guard !encoded.isEmpty else { return queue.lastTicket }
    for file in files { try file.check() }
    let ops = encoded
    encoded = []
    encoded.reserveCapacity(ops.count)
    files.removeAll(keepingCapacity: true)
    return submit(ops)
  }

  /// Submits the ops of a plan after those encoded, as one submission, so that one ticket reports for all of them.
  func commit(following ops: [EncodedOp], reading newFiles: [MappedFile]) throws(Failure) -> UInt64 {
    for file in newFiles { try file.check() }
    guard encoded.isEmpty else {
      let before = encoded.count
      encoded.append(contentsOf: ops)
      do throws(Failure) {
        return try commit()
      } catch {
        encoded.removeSubrange(before...)
        throw error
      }
    }
    try faults.takeCommit()
    return ops.isEmpty ? queue.lastTicket : submit(ops)
  }

  private func submit(_ ops: [EncodedOp]) -> UInt64 {
    let submission: PendingSubmission
    if let failing = faults.takeRun(ops.count) {
      submission = queue.add(Array(ops[..<failing]))
      queue.fail(submission.ticket, with: Faults.failure("the op to run", op: ops[failing].name))
    } else {
      submission = queue.add(ops)
    }
    backend.submit(submission)
    return submission.ticket
  }

  func adopt(_ plan: Handle) { plans.insert(plan) }
  func forget(_ plan: Handle) { plans.remove(plan) }

  /// Ends the device once its handle is gone, after its pending work.
  func close() {
    dropUncommitted()
    queue.drain(assistedBy: backend)
    backend.close()
  }

  /// Ends the device when there is no owner left to wait for its work: the owning thread exits, or its object was
  /// collected. Pending work that touches only the library's own memory continues by itself and keeps that memory. Work
  /// from the first submission that touches other memory is stopped: that memory may be freed once this has returned.
  func abandon() {
    dropUncommitted()
    let borrowing = queue.borrowing()
    if let first = borrowing.first {
      backend.stop(from: first)
      queue.waitForEnd(of: borrowing)
    }
    backend.close()
  }

  private func dropUncommitted() {
    discard()
    for plan in plans { _ = HandleTable.shared.take(plan) }
    plans = []
  }
}
