import CPUKernels

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// Starts a detached thread that blocks every signal: they are for the host's threads. Nothing waits for it at the
/// exit of the process. False where the system refuses one more thread.
func startThread(named name: String, _ body: @escaping @Sendable () -> Void) -> Bool {
  var attributes = pthread_attr_t()
  guard pthread_attr_init(&attributes) == 0 else { return false }
  defer { pthread_attr_destroy(&attributes) }
  pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))

  // A new thread inherits its creator's mask, so that not even its first instruction can be interrupted.
  var all = sigset_t()
  var before = sigset_t()
  sigfillset(&all)
  pthread_sigmask(SIG_BLOCK, &all, &before)
  defer { pthread_sigmask(SIG_SETMASK, &before, nil) }

  let start = Unmanaged.passRetained(ThreadStart(name: name, body: body))
  #if canImport(Darwin)
    var thread: pthread_t?
    let status = pthread_create(&thread, &attributes, { runThread($0) }, start.toOpaque())
  #else
    var thread = pthread_t()
    let status = pthread_create(&thread, &attributes, { runThread($0) }, start.toOpaque())
  #endif
  if status != 0 { start.release() }
  return status == 0
}

private final class ThreadStart {
  let name: String
  let body: @Sendable () -> Void

  init(name: String, body: @escaping @Sendable () -> Void) {
    self.name = name
    self.body = body
  }
}

private func runThread(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  guard let argument else { return nil }
  let start = Unmanaged<ThreadStart>.fromOpaque(argument).takeRetainedValue()
  gd_cpu_name_thread(start.name)
  start.body()
  return nil
}

/// Monotonic nanoseconds.
func monotonicNanoseconds() -> UInt64 {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  return UInt64(truncatingIfNeeded: time.tv_sec) &* 1_000_000_000 &+ UInt64(truncatingIfNeeded: time.tv_nsec)
}

/// A lock that a thread can sleep on until it is woken.
final class SleepLock: @unchecked Sendable {
  private let mutex: UnsafeMutablePointer<pthread_mutex_t>
  private let condition: UnsafeMutablePointer<pthread_cond_t>

  init() {
    mutex = .allocate(capacity: 1)
    mutex.initialize(to: pthread_mutex_t())
    pthread_mutex_init(mutex, nil)
    condition = .allocate(capacity: 1)
    condition.initialize(to: pthread_cond_t())
    #if canImport(Darwin)
      pthread_cond_init(condition, nil)
    #else
      var attributes = pthread_condattr_t()
      pthread_condattr_init(&attributes)
      pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
      pthread_cond_init(condition, &attributes)
      pthread_condattr_destroy(&attributes)
    #endif
  }

  deinit {
    pthread_cond_destroy(condition)
    condition.deallocate()
    pthread_mutex_destroy(mutex)
    mutex.deallocate()
  }

  func lock() { pthread_mutex_lock(mutex) }
  func unlock() { pthread_mutex_unlock(mutex) }
  func wake() { pthread_cond_signal(condition) }

  /// With the lock held, which it gives up while it sleeps. It may return for no reason.
  func sleep() { pthread_cond_wait(condition, mutex) }

  /// The same for at most `nanoseconds`, under a second.
  func sleep(nanoseconds: UInt64) {
    #if canImport(Darwin)
      var time = timespec(tv_sec: 0, tv_nsec: Int(nanoseconds))
      pthread_cond_timedwait_relative_np(condition, mutex, &time)
    #else
      let end = monotonicNanoseconds() &+ nanoseconds
      var time = timespec(tv_sec: Int(end / 1_000_000_000), tv_nsec: Int(end % 1_000_000_000))
      pthread_cond_timedwait(condition, mutex, &time)
    #endif
  }
}
