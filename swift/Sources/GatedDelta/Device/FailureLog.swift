import GatedDeltaTypes

/// The failures of submissions by ticket. A program that never looks must not fill the memory, so only the latest are
/// kept in full; older ones are only known to exist.
struct FailureLog {
  static let limit = 1024

  private var failures: [UInt64: Failure] = [:]
  /// The same tickets in order of arrival: a ring once it is full.
  private var order: [UInt64] = []
  private var oldest = 0
  /// The highest ticket whose failure was dropped.
  private var forgotten: UInt64 = 0

  mutating func record(_ failure: Failure, ticket: UInt64) {
    failures[ticket] = failure
    if order.count < FailureLog.limit {
      order.append(ticket)
    } else {
      failures[order[oldest]] = nil
      forgotten = max(forgotten, order[oldest])
      order[oldest] = ticket
      oldest = (oldest &+ 1) % FailureLog.limit
    }
  }

  /// The failure of a finished submission, nil if it succeeded.
  func failure(of ticket: UInt64) -> Failure? {
    if let failure = failures[ticket] { return failure }
    guard ticket > 0, ticket <= forgotten else { return nil }
    return Failure(
      .state, argument: "ticket", expected: "one of the submissions around the last \(FailureLog.limit) failures",
      received: "\(ticket), whose outcome is no longer kept")
  }
}
