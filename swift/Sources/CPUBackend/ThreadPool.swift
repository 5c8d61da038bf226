import CPUKernels
import Synchronization
import Threading

/// One op's work, cut into parts: part i is work items bounds[i] ..< bounds[i + 1].
struct PoolJob {
  var run: OpaqueRun
  var op: UnsafeRawPointer
  var bounds: UnsafePointer<Int64>
  var parts: Int
  /// Not 0 once the work is to end.
  var stop: UnsafePointer<UInt32>
}

/// The threads that help, one pool for the process, shared by its devices. One job at a time: whoever finds the pool
/// taken does its work alone, which changes no bit of it.
///
/// Part i belongs to worker i - 1 and part 0 to the caller, so that from call to call a thread finds the same heads in
/// its cache. A part whose worker is late (asleep, or its core taken) is run by whoever is done first.
final class ThreadPool: @unchecked Sendable {
  static let shared = ThreadPool()
  static let mostParts = 1024
  /// How long a thread looks for its next job before it sleeps.
  static let spinNanoseconds: UInt64 = 50_000

  private let taken = Atomic<Bool>(false)
  /// Number of the current job in the high bits, its parts in the low ones: one word tells a worker what to do.
  private let announcement = Atomic<UInt64>(0)
  private let unfinished = Atomic<Int>(0)
  /// By part: the last job of which it was claimed. A worker that comes late to a finished job finds it claimed.
  private let claims: UnsafeMutablePointer<Atomic<UInt64>>
  private let job: UnsafeMutablePointer<PoolJob?>
  private let caller = Parking()
  /// Started workers; only whoever has taken the pool touches the list.
  private var workers: [Parking] = []
  private var refused = false

  private static let partBits: UInt64 = 16

  private init() {
    claims = .allocate(capacity: ThreadPool.mostParts)
    for part in 0..<ThreadPool.mostParts { (claims + part).initialize(to: Atomic(0)) }
    job = .allocate(capacity: 1)
    job.initialize(to: nil)
  }

  /// Runs every part; `scratch` is the caller's. False, with nothing run, where the pool is taken.
  func run(_ work: PoolJob, scratch: UnsafeMutableRawPointer) -> Bool {
    guard !taken.exchange(true, ordering: .acquiring) else { return false }
    defer { taken.store(false, ordering: .releasing) }
    startWorkers(upTo: min(work.parts, Processor.usableCores) &- 1)

    job.pointee = work
    unfinished.store(work.parts, ordering: .relaxed)
    let number = (announcement.load(ordering: .relaxed) >> ThreadPool.partBits) &+ 1
    announcement.store(number << ThreadPool.partBits | UInt64(work.parts), ordering: .sequentiallyConsistent)
    for worker in workers.prefix(work.parts &- 1) { worker.wakeIfParked() }

    runParts(from: 0, of: number, parts: work.parts, scratch: scratch)
    if unfinished.load(ordering: .acquiring) > 0 {
      caller.wait { self.unfinished.load(ordering: .sequentiallyConsistent) == 0 }
    }
    return true
  }

  /// Claims and runs `own` if it is still there, then whatever nobody has claimed.
  private func runParts(from own: Int, of number: UInt64, parts: Int, scratch: UnsafeMutableRawPointer) {
    for step in 0..<parts {
      let sum = own &+ step
      let part = sum < parts ? sum : sum &- parts
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

  private func startWorkers(upTo count: Int) {
    while workers.count < count && !refused {
      let parking = Parking()
      let index = workers.count
      guard let scratch = try? PageRange(byteCount: gd_cpu_scratch_bytes(), alignment: 4096),
        startThread({ self.work(index, parking, scratch) })
      else {
        refused = true
        return
      }
      workers.append(parking)
    }
  }

  private func work(_ index: Int, _ parking: Parking, _ scratch: PageRange) {
    gd_cpu_name_thread("gd-cpu-\(index &+ 1)")
    _ = gd_cpu_float_environment_enter()
    var seen: UInt64 = 0
    while true {
      var now: UInt64 = 0
      // A job of fewer parts does not concern this worker, and does not keep it awake either.
      parking.wait {
        now = self.announcement.load(ordering: .sequentiallyConsistent)
        return now != seen && index &+ 1 < ThreadPool.parts(of: now)
      }
      seen = now
      runParts(
        from: index &+ 1, of: now >> ThreadPool.partBits, parts: ThreadPool.parts(of: now), scratch: scratch.start)
    }
  }

  private static func parts(of announcement: UInt64) -> Int { Int(announcement & ((1 << partBits) &- 1)) }
}

/// Where one thread waits: it spins for a while, then sleeps until it is woken.
final class Parking: @unchecked Sendable {
  private let parked = Atomic<Bool>(false)
  private let lock = Lock()

  /// Returns once `condition` holds. Whoever makes it hold calls `wakeIfParked` after that.
  func wait(until condition: () -> Bool) {
    let end = Clock.now &+ ThreadPool.spinNanoseconds
    repeat {
      for _ in 0..<64 {
        if condition() { return }
        gd_cpu_pause()
      }
    } while Clock.now < end
    lock.lock()
    parked.store(true, ordering: .sequentiallyConsistent)
    while !condition() { lock.sleep() }
    parked.store(false, ordering: .relaxed)
    lock.unlock()
  }

  func wakeIfParked() {
    guard parked.load(ordering: .sequentiallyConsistent) else { return }
    lock.lock()
    lock.wake()
    lock.unlock()
  }
}
