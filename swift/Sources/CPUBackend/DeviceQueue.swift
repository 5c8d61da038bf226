import CPUKernels
import GatedDeltaTypes
import Threading

/// The submissions of one device, run in order, one at a time, by the device's own thread or by a thread that would
/// otherwise only wait for them.
///
/// Waking a thread costs the committing thread more than a small op does. So while the device is in use, its thread
/// polls for work every `dozeNanoseconds` (`busyNanoseconds` while another thread runs some), and sleeps until it is
/// woken only after a while without work. A thread that waits for a submission runs it at once.
final class DeviceQueue: @unchecked Sendable {
  static let dozeNanoseconds: UInt64 = 100_000
  static let busyNanoseconds: UInt64 = 2_000_000
  static let sleepAfterNanoseconds: UInt64 = 20_000_000

  private enum ThreadState { case none, awake, dozing, sleeping }

  private let lock = Lock()
  private let executor: Executor
  /// Submissions from `next` on; nil once taken, so that the queue does not keep their memory alive.
  private var waiting: [(any Submission)?] = []
  private var next = 0
  private var isRunning = false
  /// The ticket of the current submission, or of the last one.
  private var runningTicket: UInt64 = 0
  private var isClosed = false
  private var thread = ThreadState.none

  init(executor: Executor) { self.executor = executor }

  func add(_ submission: any Submission) {
    lock.lock()
    waiting.append(submission)
    switch thread {
    case .none:
      if startThread({ self.serve() }) {
        thread = .awake
      } else if !isRunning {
        // No thread is available: the work is done here.
        while let submission = take() { run(submission) }
      }
    case .sleeping: lock.wake()
    case .awake, .dozing: break
    }
    lock.unlock()
  }

  /// Runs the submissions up to `submission` on this thread, unless another thread is running them.
  func assist(_ submission: any Submission) {
    lock.lock()
    while !isRunning, waiting[next...].contains(where: { $0 === submission }), let first = take() { run(first) }
    lock.unlock()
  }

  /// Ends the submissions from `ticket` on without completing their work: those that have not begun never begin, and a
  /// running one ends after its current work items. Each is finished with a failure. Does not wait for that.
  func stop(from ticket: UInt64) {
    lock.lock()
    var dropped: [any Submission] = []
    while waiting.count > next, let last = waiting.last, let submission = last, submission.ticket >= ticket {
      dropped.append(submission)
      waiting.removeLast()
    }
    if isRunning, runningTicket >= ticket { executor.stop() }
    lock.unlock()
    for submission in dropped.reversed() { submission.finish(Executor.stopped) }
  }

  /// Called when no more submissions will be added. The device's thread ends when there is nothing left to run.
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
      // A device that always has work never runs empty.
      waiting.removeFirst(next)
      next = 0
    }
    return submission
  }

  /// With the lock held, which is released meanwhile.
  private func run(_ submission: any Submission) {
    isRunning = true
    runningTicket = submission.ticket
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
    gd_cpu_name_thread("gd-device")
    lock.lock()
    var lastWork = Clock.now
    while !isClosed || isRunning || next < waiting.count {
      if !isRunning, let submission = take() {
        thread = .awake
        run(submission)
        lastWork = Clock.now
      } else if isRunning || Clock.now &- lastWork < DeviceQueue.sleepAfterNanoseconds {
        thread = .dozing
        // The thread that runs work needs the cores; new submissions would wait for it in any case.
        lock.sleep(until: Deadline(timeout: isRunning ? DeviceQueue.busyNanoseconds : DeviceQueue.dozeNanoseconds))
      } else {
        thread = .sleeping
        lock.sleep()
        lastWork = Clock.now
      }
    }
    lock.unlock()
  }
}
