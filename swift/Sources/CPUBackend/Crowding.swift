import CPUKernels
import Synchronization

/// Whether other work wants the cores that this process uses: a core was taken from one of its threads not long ago.
///
/// Then a thread that spins takes time from somebody, and one that is woken for a small job comes too late for it. So
/// waits are short, and small jobs wake nobody. That alone can free the cores, after which no core is taken from
/// anybody: to find out whether they are free for good, the next try comes after twice the time, up to `mostHold`.
final class Crowding: Sendable {
  static let shared = Crowding()
  static let leastHold: UInt64 = 4_000_000
  static let mostHold: UInt64 = 128_000_000
  /// A caller asks the system no more often than this, which costs it a fraction of a microsecond.
  static let lookInterval: UInt64 = 500_000

  private let until = Atomic<UInt64>(0)
  private let hold = Atomic<UInt64>(Crowding.leastHold)

  /// `now` of the clock in nanoseconds, as everywhere here.
  func isCrowded(at now: UInt64) -> Bool { now < until.load(ordering: .relaxed) }

  /// Asks the system whether the calling thread lost a core since it was last asked.
  func look(at now: UInt64) {
    if gd_cpu_lost_core() != 0 { lostCore(at: now) }
  }

  /// A thread lost its core. Threads that find out at the same time count as one: the others see a time that is not over.
  func lostCore(at now: UInt64) {
    let end = until.load(ordering: .relaxed)
    var time = hold.load(ordering: .relaxed)
    if now >= end {
      time = now &- end <= time ? min(2 &* time, Crowding.mostHold) : Crowding.leastHold
      hold.store(time, ordering: .relaxed)
    }
    until.store(now &+ time, ordering: .relaxed)
  }
}
