import CPUKernels
import GatedDeltaTypes

/// The submissions of one device, in order, one at a time: run by the device's own thread, or by a thread that would
/// only wait for them otherwise.
///
/// Waking a thread costs the one that commits more than a small op does. So the device's thread, while the device is in
/// use, looks for work by itself every `dozeNanoseconds` (`busyNanoseconds` where it sees another thread run some), and
/// only after a while without any sleeps until it is woken. Whoever waits for a submission runs it at once.
final class DeviceQueue: @unchecked Sendable {
  static let dozeNanoseconds: UInt64 = 100_000
  static let busyNanoseconds: UInt64 = 2_000_000
  static let sleepAfterNanoseconds: UInt64 = 20_000_000

  private enum ThreadState { case none, awake, dozing, sleeping }

  private let lock = SleepLock()
  private let executor: Executor
  /// Submissions from `next` on; nil where they were taken, so that nothing holds on to their memory.
  private var waiting: [(any Submission)?] = []
  private var next = 0
  private var isRunning = false
  private var isClosed = false
  private var thread = ThreadState.none

  init(executor: Executor) { self.executor = executor }

  func add(_ submission: any Submission) {
    lock.lock()
    waiting.append(submission)
    switch thread {
    case .none:
      if startThread(named: "gd-device", { self.serve() }) {
        thread = .awake
      } else if !isRunning {
        // No thread to be had: the work is done here, late but surely.
        while let submission = take() { run(submission) }
      }
    case .sleeping: lock.wake()
    case .awake, .dozing: break
    }
    lock.unlock()
  }

  /// Runs what comes up to `submission` on this thread, unless another one is at it.
  func assist(_ submission: any Submission) {
    lock.lock()
    while !isRunning, waiting[next...].contains(where: { $0 === submission }), let first = take() { run(first) }
    lock.unlock()
  }

  func close() {
    lock.lock()
    isClosed = true
    lock.wake()
    lock.unlock()
  }

  /// With the lock held.
  private func take() -> (any Submission)? {
    guard next < waiting.count else { return nil }
    let submission = waiting[next]
    waiting[next] = nil
    next &+= 1
    if next == waiting.count {
      waiting.removeAll(keepingCapacity: true)
      next = 0
    } else if next >= 64, next &* 2 >= waiting.count {
      // A device that always has something to do never runs empty.
      waiting.removeFirst(next)
      next = 0
    }
    return submission
  }

  /// With the lock held, which it gives up meanwhile.
  private func run(_ submission: any Submission) {
    isRunning = true
    lock.unlock()
    let environment = gd_cpu_float_environment_enter()
    var failure: Failure?
    do throws(Failure) {
      try executor.run(submission.ops)
    } catch {
      failure = error
    }
    gd_cpu_float_environment_leave(environment)
    submission.finish(failure)
    lock.lock()
    isRunning = false
  }

  private func serve() {
    lock.lock()
    var lastWork = monotonicNanoseconds()
    while !isClosed {
      if !isRunning, let submission = take() {
        thread = .awake
        run(submission)
        lastWork = monotonicNanoseconds()
      } else if isRunning || monotonicNanoseconds() &- lastWork < DeviceQueue.sleepAfterNanoseconds {
        thread = .dozing
        // Whoever is at work now needs the cores; what comes meanwhile would wait for it in any case.
        lock.sleep(nanoseconds: isRunning ? DeviceQueue.busyNanoseconds : DeviceQueue.dozeNanoseconds)
      } else {
        thread = .sleeping
        lock.sleep()
        lastWork = monotonicNanoseconds()
      }
    }
    lock.unlock()
  }
}
