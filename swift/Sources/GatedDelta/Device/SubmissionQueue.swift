import GatedDeltaTypes
import Threading

/// The ops of one commit on their way through a backend. Whoever holds it holds the memory that its ops touch.
final class PendingSubmission: Submission {
  let ops: [EncodedOp]
  let ticket: UInt64
  private let queue: SubmissionQueue
  /// What becomes of it where its ops succeed: nil but in tests.
  private let fault: Failure?

  fileprivate init(ops: [EncodedOp], ticket: UInt64, queue: SubmissionQueue, fault: Failure?) {
    self.ops = ops
    self.ticket = ticket
    self.queue = queue
    self.fault = fault
  }

  /// Whether an op touches memory that is not the library's own.
  var borrows: Bool { ops.contains { $0.borrows } }

  func finish(_ failure: Failure?) { queue.finish(ticket, failure ?? fault) }
}

/// The submissions of one device: tickets, what is still pending, and what failed. Committing and waiting is the owning
/// thread's; `finish` comes from any thread.
final class SubmissionQueue: @unchecked Sendable {
  let status = StatusWords()

  private let mutex = Lock()
  private var committed: UInt64 = 0
  /// Every submission up to this ticket has finished.
  private var finished: UInt64 = 0
  private var failed: UInt64 = 0
  /// Submissions after `finished`; nil for one that was finished out of turn and waits for those before it.
  private var pending: [UInt64: PendingSubmission?] = [:]
  private var failures = FailureLog()

  var lastTicket: UInt64 {
    mutex.lock()
    defer { mutex.unlock() }
    return committed
  }

  /// A submission with the next ticket, for the caller to hand to the backend.
  func add(_ ops: [EncodedOp], fault: Failure?) -> PendingSubmission {
    mutex.lock()
    defer { mutex.unlock() }
    committed &+= 1
    let submission = PendingSubmission(ops: ops, ticket: committed, queue: self, fault: fault)
    pending[committed] = .some(submission)
    return submission
  }

  fileprivate func finish(_ ticket: UInt64, _ failure: Failure?) {
    mutex.lock()
    defer { mutex.unlock() }
    // A second finish of one submission changes nothing.
    guard case .some(.some) = pending[ticket] else { return }
    pending[ticket] = .some(nil)
    if let failure {
      failures.record(failure, ticket: ticket)
      failed &+= 1
    }
    while case .some(.none) = pending[finished &+ 1] {
      finished &+= 1
      pending[finished] = nil
    }
    status.publish(finished: finished, failed: failed)
    mutex.wakeAll()
  }

  /// True once the submission has succeeded, false while it is pending.
  func poll(_ ticket: UInt64) throws(Failure) -> Bool {
    mutex.lock()
    defer { mutex.unlock() }
    return try outcome(of: ticket)
  }

  /// Blocks until the submission has finished or `deadline` has passed; false for the latter. Work is lent a hand only
  /// where the wait has no deadline, since a backend says nothing about how long its help takes.
  func wait(_ ticket: UInt64, until deadline: Deadline, assistedBy backend: any Backend) throws(Failure) -> Bool {
    mutex.lock()
    defer { mutex.unlock() }
    _ = try outcome(of: ticket)
    if deadline.isNever {
      var next = finished &+ 1
      while next <= ticket {
        if case .some(.some(let submission)) = pending[next] {
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
      // The last submission failed, which is as finished as any: those before it finished earlier.
    }
  }

  /// The tickets of pending submissions that touch memory which is not the library's own, in order.
  func borrowing() -> [UInt64] {
    mutex.lock()
    defer { mutex.unlock() }
    return pending.compactMap { ticket, submission in submission?.borrows == true ? ticket : nil }.sorted()
  }

  /// Blocks until these submissions have finished, whatever came of them.
  func waitForEnd(of tickets: [UInt64]) {
    mutex.lock()
    defer { mutex.unlock() }
    for ticket in tickets {
      while case .some(.some) = pending[ticket] { mutex.sleep() }
    }
  }

  private func outcome(of ticket: UInt64) throws(Failure) -> Bool {
    guard ticket <= committed else {
      throw Failure(
        .range, argument: "ticket", expected: "a ticket of this device, 0..\(committed)", received: "\(ticket)")
    }
    guard ticket <= finished else { return false }
    if let failure = failures.failure(of: ticket) { throw failure }
    return true
  }
}
