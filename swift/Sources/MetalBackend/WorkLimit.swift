import Synchronization

/// The multiply-adds of a command buffer. macOS ends one that keeps a display waiting, so it should take 50 to 100 ms: the
/// number of multiply-adds in that time is learned from the times of those that have run. How a submission is cut changes no
/// bit.
final class WorkLimit: Sendable {
  /// Before anything has run: some tens of milliseconds on an M1.
  static let first = 1 << 32
  /// No GPU of the family is so slow, or so fast.
  static let bounds = 1 << 28 ... 1 << 38
  /// Seconds of a command buffer: the range in which the limit stays as it is, and the aim otherwise.
  static let wanted = 0.05...0.1
  static let aim = 0.075
  /// The limit is divided by this if the system ended a command buffer.
  static let afterEnd = 8

  /// The limit with which the next device begins: one opened after the system ended work of this process is more careful.
  private static let next = Atomic<Int>(first)

  private let limit: Atomic<Int>
  private let bounds: ClosedRange<Int>
  private let adapts = Atomic<Bool>(true)

  /// Begins with `first`, or with what this process has learned.
  init(first: Int? = nil, bounds: ClosedRange<Int> = bounds) {
    limit = Atomic(first ?? Self.next.load(ordering: .relaxed))
    self.bounds = bounds
  }

  var value: Int { limit.load(ordering: .relaxed) }

  /// Fixes the limit at this value, for a test.
  func fix(_ value: Int) {
    adapts.store(false, ordering: .relaxed)
    limit.store(value, ordering: .relaxed)
  }

  /// A command buffer has run. From any thread.
  func ran(work: Int, seconds: Double) { change { after(limit: $0, work: work, seconds: seconds) } }

  /// The system has ended a command buffer because it took too long.
  func ended() {
    change { limit in
      let less = max(bounds.lowerBound, limit / Self.afterEnd)
      Self.next.store(min(Self.next.load(ordering: .relaxed), less), ordering: .relaxed)
      return less
    }
  }

  private func change(_ next: (Int) -> Int) {
    guard adapts.load(ordering: .relaxed) else { return }
    // Two threads may change the limit at the same time: one of two measurements is as good as both.
    limit.store(next(value), ordering: .relaxed)
  }

  /// The limit after a command buffer of this work has taken this time. Only a nearly full one says how much more fits. One
  /// with little work may have taken long for other reasons, and is not believed at once.
  func after(limit: Int, work: Int, seconds: Double) -> Int {
    guard seconds > 0, work > 0 else { return limit }
    let fitting = Double(work) * Self.aim / seconds
    if seconds > Self.wanted.upperBound {
      return clamped(min(Double(limit), work >= limit / 16 ? fitting : max(fitting, Double(limit) / 4)))
    }
    if seconds < Self.wanted.lowerBound, work >= limit / 2 {
      return clamped(min(2 * Double(limit), max(Double(limit), fitting)))
    }
    return limit
  }

  private func clamped(_ value: Double) -> Int {
    Int(min(max(value, Double(bounds.lowerBound)), Double(bounds.upperBound)))
  }
}
