import CPUKernels
import Synchronization
import Threading

/// The helper threads: one pool for the process, shared by its devices.
///
/// A job holds its helpers while it runs; without helpers the caller runs it alone. No bit depends on which thread does
/// what. Devices that work at the same time share the cores evenly: each has its share, less the calling thread, and
/// cores that a device of few threads leaves go to the others.
///
/// If a job has one part per thread, part i belongs to its i-th helper and part 0 to the caller. A device takes its
/// helpers in a fixed order, so that a thread finds the same heads in its cache from call to call. If a helper is late
/// (asleep, or without a core), the first thread that is done runs its part.
final class ThreadPool: @unchecked Sendable {
  static let shared = ThreadPool()
  static let mostParts = 1024
  /// The number of devices that can be helped at the same time; further ones work alone.
  static let mostCrews = 1024
  /// The time after its last job during which a device still counts as active: the gap between two submissions.
  static let graceNanoseconds: UInt64 = 100_000
  /// Work below this, estimated on one thread, wakes no helper while other work competes for the cores.
  static let smallNanoseconds = 50_000.0

  private let cores: Int
  private let lock = Lock()
  private let crews: UnsafeMutablePointer<Crew?>
  /// The crews created so far, and those in use by a device.
  private let crewCount = Atomic<Int>(0)
  private let openCrews = Atomic<Int>(0)
  private var freeCrews: [Crew] = []
  private let workers: UnsafeMutablePointer<PoolWorker?>
  private let workerCount = Atomic<Int>(0)
  private var refused = false

  init(cores: Int = Processor.usableCores) {
    self.cores = cores
    crews = .allocate(capacity: ThreadPool.mostCrews)
    crews.initialize(repeating: nil, count: ThreadPool.mostCrews)
    workers = .allocate(capacity: ThreadPool.mostParts)
    workers.initialize(repeating: nil, count: ThreadPool.mostParts)
  }

  // MARK: Devices

  /// A place for a device of `threads` threads; nil if there is none left. Return it with `leave`.
  func join(threads: Int) -> Crew? {
    lock.lock()
    defer { lock.unlock() }
    var crew = freeCrews.popLast()
    let count = crewCount.load(ordering: .relaxed)
    if crew == nil, count < ThreadPool.mostCrews {
      let fresh = Crew(index: count)
      crews[count] = fresh
      crewCount.store(count &+ 1, ordering: .releasing)
      crew = fresh
    }
    guard let crew else { return nil }
    crew.threads.store(threads, ordering: .relaxed)
    crew.busyUntil.store(0, ordering: .relaxed)
    openCrews.add(1, ordering: .relaxed)
    return crew
  }

  func leave(_ crew: Crew) {
    lock.lock()
    crew.busyUntil.store(0, ordering: .relaxed)
    openCrews.subtract(1, ordering: .relaxed)
    freeCrews.append(crew)
    lock.unlock()
  }

  /// A device begins or ends work on a submission.
  func begin(_ crew: Crew) { crew.busyUntil.store(.max, ordering: .relaxed) }

  func end(_ crew: Crew) {
    let isAlone = openCrews.load(ordering: .relaxed) == 1
    crew.busyUntil.store(isAlone ? 0 : Clock.now &+ ThreadPool.graceNanoseconds, ordering: .relaxed)
  }

  /// The helpers that a device may take: up to `count` of them, from `first` on.
  struct Share: Equatable {
    var first: Int
    var count: Int
  }

  /// The share of one of the active devices.
  ///
  /// - Parameters:
  ///   - others: the number of other active devices, `before` of them ahead in the order of devices.
  ///   - othersThreads: the number of threads that those use at most, in total.
  static func share(cores: Int, others: Int, before: Int, othersThreads: Int) -> Share {
    let each = cores / (others &+ 1)
    let spare = cores % (others &+ 1)
    let own = max(each &+ (before < spare ? 1 : 0), cores &- othersThreads)
    return Share(first: max(0, before &* (each &- 1) &+ min(before, spare)), count: max(0, own &- 1))
  }

  private func share(of crew: Crew, at now: UInt64) -> Share {
    guard openCrews.load(ordering: .relaxed) > 1 else { return Share(first: 0, count: cores &- 1) }
    var others = 0
    var before = 0
    var threads = 0
    for index in 0..<crewCount.load(ordering: .acquiring) where index != crew.index {
      guard let other = crews[index], other.busyUntil.load(ordering: .relaxed) > now else { continue }
      others &+= 1
      threads &+= min(other.threads.load(ordering: .relaxed), cores)
      if index < crew.index { before &+= 1 }
    }
    return ThreadPool.share(cores: cores, others: others, before: before, othersThreads: threads)
  }

  // MARK: Jobs

  /// Runs every part; `scratch` belongs to the caller, and `nanoseconds` is the estimated time on one thread. False,
  /// with nothing run, if there are no helpers.
  func run(_ work: PoolJob, nanoseconds: Double, in crew: Crew, scratch: UnsafeMutableRawPointer) -> Bool {
    let now = Clock.now
    let share = share(of: crew, at: now)
    // A job may have more parts than its device has threads: each thread begins in its own range.
    let threads = max(1, min(work.parts, crew.threads.load(ordering: .relaxed)))
    let stretch = work.parts / threads
    let wanted = min(threads &- 1, share.count)
    guard wanted > 0 else { return false }
    crew.lookForLostCore(at: now)
    let mayWake = nanoseconds >= ThreadPool.smallNanoseconds || !Contention.shared.isContended(at: now)
    startWorkers(upTo: min(cores &- 1, share.first &+ wanted))

    let count = workerCount.load(ordering: .acquiring)
    var number: UInt64 = 0
    var taken = 0
    for step in 0..<count where taken < wanted {
      guard let worker = workers[(share.first &+ step) % count], mayWake || !worker.parking.isParked,
        worker.take(for: crew)
      else { continue }
      if number == 0 { number = crew.announce(work) }
      taken &+= 1
      worker.tell(crew, own: taken &* stretch, number: number)
    }
    guard taken > 0 else { return false }
    crew.runParts(from: 0, scratch: scratch)
    crew.waitForOthers()
    for step in 0..<count where taken > 0 {
      guard let worker = workers[(share.first &+ step) % count], worker.release(from: crew) else { continue }
      taken &-= 1
    }
    return true
  }

  private func startWorkers(upTo count: Int) {
    guard workerCount.load(ordering: .acquiring) < count else { return }
    lock.lock()
    defer { lock.unlock() }
    while workerCount.load(ordering: .relaxed) < count && !refused {
      let index = workerCount.load(ordering: .relaxed)
      let worker = PoolWorker()
      guard let scratch = try? PageRange(byteCount: gd_cpu_scratch_bytes(), alignment: 4096),
        startThread({ worker.work(named: "gd-cpu-\(index &+ 1)", scratch: scratch) { self.crews[$0] } })
      else {
        refused = true
        return
      }
      workers[index] = worker
      workerCount.store(index &+ 1, ordering: .releasing)
    }
  }
}

/// One thread of the pool.
private final class PoolWorker: @unchecked Sendable {
  let parking = Parking()
  /// The index of the crew that it helps, plus 1; 0 for none.
  private let owner = Atomic<Int>(0)
  /// The last message: the job's number, the crew's index, and the thread's part. The thread polls it, so it has a
  /// cache line of its own.
  private let message: UnsafeMutablePointer<Atomic<UInt64>>

  init() {
    let line = UnsafeMutableRawPointer.allocate(byteCount: 128, alignment: 128)
    message = line.bindMemory(to: Atomic<UInt64>.self, capacity: 1)
    message.initialize(to: Atomic(0))
  }

  private static let crewBits: UInt64 = 10
  private static let partBits: UInt64 = 10

  func take(for crew: Crew) -> Bool {
    owner.load(ordering: .relaxed) == 0
      && owner.compareExchange(expected: 0, desired: crew.index &+ 1, ordering: .acquiring).exchanged
  }

  /// False if the worker does not belong to the crew.
  func release(from crew: Crew) -> Bool {
    guard owner.load(ordering: .relaxed) == crew.index &+ 1 else { return false }
    owner.store(0, ordering: .releasing)
    return true
  }

  /// Sends the worker to the current job of a crew. A message that it misses because it is late is lost with that job.
  func tell(_ crew: Crew, own part: Int, number: UInt64) {
    let place = UInt64(crew.index) << PoolWorker.partBits | UInt64(part)
    message.pointee.store(
      number << (PoolWorker.crewBits &+ PoolWorker.partBits) | place, ordering: .sequentiallyConsistent)
    parking.wakeIfParked()
  }

  /// The thread's main loop. `crewAt` finds a crew by its index.
  func work(named name: String, scratch: PageRange, crewAt: (Int) -> Crew?) {
    gd_cpu_name_thread(name)
    _ = gd_cpu_float_environment_enter()
    var seen: UInt64 = 0
    while true {
      parking.wait {
        let now = self.message.pointee.load(ordering: .sequentiallyConsistent)
        guard now != seen else { return false }
        seen = now
        return true
      }
      let parts: UInt64 = (1 << PoolWorker.partBits) &- 1
      let crews: UInt64 = (1 << PoolWorker.crewBits) &- 1
      let part = Int(seen & parts)
      let index = Int(seen >> PoolWorker.partBits & crews)
      crewAt(index)?.runParts(from: part, scratch: scratch.start)
    }
  }
}
