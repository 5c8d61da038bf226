import CPUKernels
import Synchronization

/// True if other work competes for the cores of this process: a core was taken from one of its threads recently.
///
/// A spinning thread then takes time from other work, and a thread that is woken for a small job arrives too late. So
/// waits are short, and small jobs wake no threads. This alone may free the cores, after which no core is taken again:
/// to find out whether the contention is over, the next attempt comes after twice the time, up to `mostHold`.
final class Contention: Sendable {
  static let shared = Contention()
  static let leastHold: UInt64 = 4_000_000
  static let mostHold: UInt64 = 128_000_000
  /// A caller asks the system no more often than this, since asking costs a fraction of a microsecond.
  static let lookInterval: UInt64 = 500_000

  private let until = Atomic<UInt64>(0)
  private let hold = Atomic<UInt64>(Contention.leastHold)

  /// `now` is the clock's time in nanoseconds, as in all functions here.
  func isContended(at now: UInt64) -> Bool { now < until.load(ordering: .relaxed) }

  /// Asks the system whether the calling thread lost a core since the last question.
  func look(at now: UInt64) {
    if gd_cpu_lost_core() != 0 { lostCore(at: now) }
  }

  /// A thread lost its core. Threads that find out at the same time count once: the others see a hold that is not over.
  func lostCore(at now: UInt64) {
    let end = until.load(ordering: .relaxed)
    var time = hold.load(ordering: .relaxed)
    if now >= end {
      time = now &- end <= time ? min(2 &* time, Contention.mostHold) : Contention.leastHold
      hold.store(time, ordering: .relaxed)
    }
    until.store(now &+ time, ordering: .relaxed)
  }
}
