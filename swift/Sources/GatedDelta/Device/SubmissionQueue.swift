import GatedDeltaTypes
import Threading

/// The ops of one commit on their way through a backend. A reference to it keeps the memory that its ops touch alive.
final class PendingSubmission: Submission {
  let ops: [EncodedOp]
  let ticket: UInt64
  private let queue: SubmissionQueue

  fileprivate init(ops: [EncodedOp], ticket: UInt64, queue: SubmissionQueue) {
    self.ops = ops
    self.ticket = ticket
    self.queue = queue
  }

  /// True if an op touches memory that is not the library's own.
  var borrows: Bool { ops.contains { $0.borrows } }

  func finish(_ failure: Failure?) {
    if let failure { queue.finish(ticket, named(failure)) } else { queue.finish(ticket, nil) }
  }

  /// A GPU does not say which of its ops failed; with a single op it is known.
  @inline(never) private func named(_ failure: Failure) -> Failure {
    var failure = failure
    if failure.op.isEmpty, ops.count == 1 { failure.op = "\(ops[0].name)" }
    return failure
  }
}

/// The submissions of one device: tickets, pending work, and failures. The owning thread commits and waits; `finish`
/// comes from any thread.
final class SubmissionQueue: @unchecked Sendable {
  let status = StatusWords()

  private let mutex = Lock()
  private var committed: UInt64 = 0
  /// Every submission up to this ticket has finished.
  private var finished: UInt64 = 0
  private var failed: UInt64 = 0
  /// Submissions after `finished` in the order of their tickets, from `first` on; nil for one that finished out of
  /// order and waits for those before it.
  private var pending: [PendingSubmission?] = []
  private var first = 0
  private var failures = FailureLog()
  private var faults: [UInt64: Failure] = [:]
  private var notifier: Notifier?
  /// The first ticket whose end is notified.
  private var awaited = UInt64.max

  var lastTicket: UInt64 {
    mutex.lock()
    defer { mutex.unlock() }
    return committed
  }

  /// A submission with the next ticket, for the caller to hand to the backend.
  func add(_ ops: [EncodedOp]) -> PendingSubmission {
    mutex.lock()
    defer { mutex.unlock() }
    committed &+= 1
    let submission = PendingSubmission(ops: ops, ticket: committed, queue: self)
    pending.append(submission)
    return submission
  }

  /// In tests: the outcome of a submission whose ops succeed.
  func fail(_ ticket: UInt64, with fault: Failure) {
    mutex.lock()
    faults[ticket] = fault
    mutex.unlock()
  }

  fileprivate func finish(_ ticket: UInt64, _ failure: Failure?) {
    mutex.lock()
    defer { mutex.unlock() }
    // A second finish of one submission changes nothing.
    guard let place = place(of: ticket), pending[place] != nil else { return }
    pending[place] = nil
    if let failure {
      failures.record(failure, ticket: ticket)
      failed &+= 1
    } else if !faults.isEmpty, let fault = faults.removeValue(forKey: ticket) {
      failures.record(fault, ticket: ticket)
      failed &+= 1
    }
    while first < pending.count, pending[first] == nil {
      finished &+= 1
      first &+= 1
    }
    if first == pending.count {
      pending.removeAll(keepingCapacity: true)
      first = 0
    } else if first >= 64, first &* 2 >= pending.count {
      pending.removeFirst(first)
      first = 0
    }
    status.publish(finished: finished, failed: failed)
    mutex.wakeAll()
    if finished >= awaited {
      awaited = .max
      notifier?.notify()
    }
  }

  /// A new notifier's socket for the caller.
  func makeNotifier() throws(Failure) -> Int32 {
    mutex.lock()
    defer { mutex.unlock() }
    let made = try Notifier()
    notifier = made
    return made.other
  }

  /// Notifies the end of a submission, or of an earlier one that was asked for before; false if it has already finished.
  func notify(_ ticket: UInt64) throws(Failure) -> Bool {
    mutex.lock()
    defer { mutex.unlock() }
    guard notifier != nil else {
      throw Failure(.state, argument: "device", expected: "a device with a notifier", received: "one without")
    }
    try expectCommitted(ticket)
    guard ticket > finished else { return false }
    awaited = min(awaited, ticket)
    return true
  }

  /// True once the submission has succeeded, false while it is pending.
  func poll(_ ticket: UInt64) throws(Failure) -> Bool {
    mutex.lock()
    defer { mutex.unlock() }
    return try outcome(of: ticket)
  }

  /// Blocks until the submission has finished or `deadline` has passed; false for the latter. The waiting thread helps
  /// with the work only if there is no deadline, since a backend does not say how long its help takes.
  func wait(_ ticket: UInt64, until deadline: Deadline, assistedBy backend: any Backend) throws(Failure) -> Bool {
    mutex.lock()
    defer { mutex.unlock() }
    _ = try outcome(of: ticket)
    if deadline.isNever {
      var next = finished &+ 1
      while next <= ticket {
        if let submission = submission(next) {
          mutex.unlock()
          backend.assist(submission)
          mutex.lock()
        }
        next = max(next, finished) &+ 1
      }
    }
    while true {
      if try outcome(of: ticket) { return true }
      if deadline.remaining == 0 { return false }
      mutex.sleep(until: deadline)
    }
  }

  /// Blocks until nothing is pending; failures stay where they are.
  func drain(assistedBy backend: any Backend) {
    do throws(Failure) {
      _ = try wait(lastTicket, until: Deadline(timeout: .max), assistedBy: backend)
    } catch {
      // The last submission failed, so it has finished: those before it finished earlier.
    }
  }

  /// The tickets of pending submissions that touch memory which is not the library's own, in order.
  func borrowing() -> [UInt64] {
    mutex.lock()
    defer { mutex.unlock() }
    return pending[first...].compactMap { submission in
      submission.flatMap { $0.borrows ? $0.ticket : nil }
    }
  }

  /// Blocks until these submissions have finished, successfully or not.
  func waitForEnd(of tickets: [UInt64]) {
    mutex.lock()
    defer { mutex.unlock() }
    for ticket in tickets {
      while submission(ticket) != nil { mutex.sleep() }
    }
  }

  private func place(of ticket: UInt64) -> Int? {
    guard ticket > finished, ticket <= committed else { return nil }
    return first &+ Int(ticket &- finished) &- 1
  }

  /// Nil for one that has already finished.
  private func submission(_ ticket: UInt64) -> PendingSubmission? { place(of: ticket).flatMap { pending[$0] } }

  private func expectCommitted(_ ticket: UInt64) throws(Failure) {
    guard ticket <= committed else {
      throw Failure(
        .range, argument: "ticket", expected: "a ticket of this device, 0..\(committed)", received: "\(ticket)")
    }
  }

  private func outcome(of ticket: UInt64) throws(Failure) -> Bool {
    try expectCommitted(ticket)
    guard ticket <= finished else { return false }
    if let failure = failures.failure(of: ticket) { throw failure }
    return true
  }
}
