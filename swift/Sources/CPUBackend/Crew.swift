import Synchronization
import Threading

/// One op's work, cut into parts: part i is work items bounds[i] ..< bounds[i + 1].
struct PoolJob {
  var run: OpaqueRun
  var op: UnsafeRawPointer
  var bounds: UnsafePointer<Int64>
  var parts: Int
  /// Nonzero when the work must end.
  var stop: UnsafePointer<UInt32>
}

/// A device's place in the thread pool: the job that it runs, one at a time, and the claims on its parts.
///
/// The pool keeps it forever, since a late worker may still look at it, and reuses it for the next device.
final class Crew: @unchecked Sendable {
  let index: Int
  /// Number of the current job in the high bits, its parts in the low ones.
  let announcement = Atomic<UInt64>(0)
  /// The time until which the device counts as active: `UInt64.max` while it runs an op.
  let busyUntil = Atomic<UInt64>(0)
  /// The largest number of threads that the device uses.
  let threads = Atomic<Int>(0)

  private let unfinished = Atomic<Int>(0)
  /// For each part, the last job for which it was claimed. A worker that is late for a finished job finds it claimed.
  private let claims: UnsafeMutablePointer<Atomic<UInt64>>
  private let job: UnsafeMutablePointer<PoolJob?>
  private let caller = Parking()
  private var lastLook: UInt64 = 0

  private static let partBits: UInt64 = 16

  init(index: Int) {
    self.index = index
    claims = .allocate(capacity: ThreadPool.mostParts)
    for part in 0..<ThreadPool.mostParts { (claims + part).initialize(to: Atomic(0)) }
    job = .allocate(capacity: 1)
    job.initialize(to: nil)
  }

  /// Checks occasionally whether the calling thread lost its core.
  func lookForLostCore(at now: UInt64) {
    guard now &- lastLook >= Contention.lookInterval else { return }
    lastLook = now
    Contention.shared.look(at: now)
  }

  /// Makes a job the current one and returns its number.
  func announce(_ work: PoolJob) -> UInt64 {
    job.pointee = work
    unfinished.store(work.parts, ordering: .relaxed)
    let number = (announcement.load(ordering: .relaxed) >> Crew.partBits) &+ 1
    announcement.store(number << Crew.partBits | UInt64(work.parts), ordering: .sequentiallyConsistent)
    return number
  }

  /// Claims and runs part `own` of the current job unless it is taken, then every other unclaimed part.
  func runParts(from own: Int, scratch: UnsafeMutableRawPointer) {
    let announced = announcement.load(ordering: .sequentiallyConsistent)
    let number = announced >> Crew.partBits
    let parts = Int(announced & ((1 << Crew.partBits) &- 1))
    for step in 0..<parts {
      let part = (own &+ step) % parts
      let claimed = claims[part].load(ordering: .relaxed)
      guard claimed < number,
        claims[part].compareExchange(expected: claimed, desired: number, ordering: .acquiringAndReleasing).exchanged
      else { continue }
      // The claim keeps the job in place until this part is counted as done.
      guard let work = job.pointee else { continue }
      work.run(work.op, work.bounds[part], work.bounds[part &+ 1], scratch, work.stop)
      if unfinished.subtract(1, ordering: .sequentiallyConsistent).newValue == 0 { caller.wakeIfParked() }
    }
  }

  /// Waits for the parts that other threads have claimed.
  func waitForOthers() {
    guard unfinished.load(ordering: .acquiring) > 0 else { return }
    caller.wait { self.unfinished.load(ordering: .sequentiallyConsistent) == 0 }
  }
}
