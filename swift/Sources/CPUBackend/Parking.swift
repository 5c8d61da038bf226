import CPUKernels
import Synchronization
import Threading

/// Lets one thread wait: it spins for a while, then sleeps until it is woken.
final class Parking: @unchecked Sendable {
  /// The time that a thread spins before it sleeps.
  static let spinNanoseconds: UInt64 = 50_000
  /// The same when other work competes for the cores: about the cost of sleeping and being woken.
  static let contendedSpinNanoseconds: UInt64 = 5_000

  private let parked = Atomic<Bool>(false)
  private let lock = Lock()

  /// True if the thread sleeps, or is about to.
  var isParked: Bool { parked.load(ordering: .sequentiallyConsistent) }

  /// Returns once `condition` holds. The thread that makes it hold must then call `wakeIfParked`.
  func wait(until condition: () -> Bool) {
    var start: UInt64 = 0
    var limit = Parking.spinNanoseconds
    while true {
      for _ in 0..<64 {
        if condition() { return }
        gd_cpu_pause()
      }
      let now = Clock.now
      if start == 0 {
        start = now
        if Contention.shared.isContended(at: now) { limit = Parking.contendedSpinNanoseconds }
      } else if now &- start >= limit {
        break
      }
    }
    // Rarely reached while there is enough work, so the cost of asking does not matter.
    Contention.shared.look(at: Clock.now)
    lock.lock()
    parked.store(true, ordering: .sequentiallyConsistent)
    while !condition() { lock.sleep() }
    parked.store(false, ordering: .relaxed)
    lock.unlock()
  }

  func wakeIfParked() {
    guard isParked else { return }
    lock.lock()
    lock.wake()
    lock.unlock()
  }
}
