#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// A point in monotonic time, so that a change of the wall clock neither ends nor prolongs a wait.
struct Deadline: Sendable {
  /// Nil: never.
  private let nanoseconds: UInt64?

  /// `timeout` in nanoseconds from now; anything beyond a century is never.
  init(timeout: UInt64) {
    let sum = Deadline.now.addingReportingOverflow(timeout)
    nanoseconds = sum.overflow || sum.partialValue > UInt64(Int64.max) ? nil : sum.partialValue
  }

  var isNever: Bool { nanoseconds == nil }

  /// Nanoseconds left, 0 once it has passed; nil for never.
  var remaining: UInt64? {
    guard let nanoseconds else { return nil }
    let now = Deadline.now
    return nanoseconds > now ? nanoseconds &- now : 0
  }

  /// The moment as `pthread_cond_timedwait` takes it on Linux.
  var timespec: timespec? { nanoseconds.map(Deadline.split) }

  static func split(_ nanoseconds: UInt64) -> timespec {
    #if canImport(Darwin)
      return Darwin.timespec(tv_sec: Int(nanoseconds / 1_000_000_000), tv_nsec: Int(nanoseconds % 1_000_000_000))
    #else
      return Glibc.timespec(tv_sec: Int(nanoseconds / 1_000_000_000), tv_nsec: Int(nanoseconds % 1_000_000_000))
    #endif
  }

  private static var now: UInt64 {
    var time = split(0)
    clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(max(0, time.tv_sec)) &* 1_000_000_000 &+ UInt64(max(0, time.tv_nsec))
  }
}

/// A mutex with a condition. Not `Synchronization.Mutex`: that has no condition to wait for, and one kind of lock is
/// enough for the whole core.
final class Monitor: @unchecked Sendable {
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
  func broadcast() { pthread_cond_broadcast(condition) }

  /// Called with the lock held, which it gives up while it sleeps. Returns at a broadcast, at the deadline, or for no
  /// reason: the caller looks at its condition and at the deadline again.
  func wait(until deadline: Deadline) {
    #if canImport(Darwin)
      guard let left = deadline.remaining else {
        pthread_cond_wait(condition, mutex)
        return
      }
      var relative = Deadline.split(left)
      pthread_cond_timedwait_relative_np(condition, mutex, &relative)
    #else
      guard var absolute = deadline.timespec else {
        pthread_cond_wait(condition, mutex)
        return
      }
      pthread_cond_timedwait(condition, mutex, &absolute)
    #endif
  }
}
