import CPUKernels
import Synchronization
import Threading

/// Where one thread waits: it spins for a while, then sleeps until it is woken.
final class Parking: @unchecked Sendable {
  /// How long a thread looks for what it waits for before it sleeps.
  static let spinNanoseconds: UInt64 = 50_000
  /// The same where other work wants the cores: about what it costs to sleep and be woken.
  static let crowdedSpinNanoseconds: UInt64 = 5_000

  private let parked = Atomic<Bool>(false)
  private let lock = Lock()

  /// Whether the thread sleeps, or is about to.
  var isParked: Bool { parked.load(ordering: .sequentiallyConsistent) }

  /// Returns once `condition` holds. Whoever makes it hold calls `wakeIfParked` after that.
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
        if Crowding.shared.isCrowded(at: now) { limit = Parking.crowdedSpinNanoseconds }
      } else if now &- start >= limit {
        break
      }
    }
    // Rarely reached while there is enough to do, so that the question costs nothing that matters.
    Crowding.shared.look(at: Clock.now)
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
