import GatedDeltaTypes

/// An open device: a backend, the ops encoded since the last commit, and the submissions in flight. All of it but the
/// queue is the owning thread's alone; the exports check that before they get here.
final class Device: @unchecked Sendable {
  let backend: any Backend
  let queue = SubmissionQueue()
  /// The thread that opened it, by `ThreadState.id`.
  let owner: UInt64
  /// Buffers name their device by it.
  var identity: ObjectIdentifier { ObjectIdentifier(self) }

  let slotChecker = SlotChecker()
  private var encoded: [Op] = []
  private var plans: Set<Handle> = []

  init(backend: any Backend, owner: UInt64) {
    self.backend = backend
    self.owner = owner
  }

  func checkOwner(_ thread: UInt64) throws(Failure) {
    guard thread == owner else {
      throw Failure(
        .state, argument: "device", expected: "a call from the thread that opened the device",
        received: "a call from another thread")
    }
  }

  func encode(_ op: consuming Op) { encoded.append(op) }

  func discard() { encoded.removeAll(keepingCapacity: true) }

  /// Submits what was encoded. Without anything the last ticket stands for it: waiting for it waits for everything.
  func commit() -> UInt64 {
    guard !encoded.isEmpty else { return queue.lastTicket }
    let ops = encoded
    encoded = []
    encoded.reserveCapacity(ops.count)
    return submit(ops)
  }

  /// Submits the ops of a plan after what was encoded: as one submission, so that one ticket reports for all of it.
  func commit(following ops: [Op]) -> UInt64 {
    if encoded.isEmpty { return ops.isEmpty ? queue.lastTicket : submit(ops) }
    encoded.append(contentsOf: ops)
    return commit()
  }

  private func submit(_ ops: [Op]) -> UInt64 {
    let submission = queue.add(ops)
    backend.submit(submission)
    return submission.ticket
  }

  func adopt(_ plan: Handle) { plans.insert(plan) }
  func forget(_ plan: Handle) { plans.remove(plan) }

  /// Ends the device once its handle is gone. Also called at the exit of the owning thread.
  func close() {
    discard()
    for plan in plans { _ = HandleTable.shared.take(plan) }
    plans = []
    queue.drain(assistedBy: backend)
    backend.close()
  }
}
