#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// A mutex with a condition to sleep on. Not `Synchronization.Mutex`, which has no condition and is unknown to thread
/// sanitizers.
public final class Lock: @unchecked Sendable {
  @usableFromInline let mutex: UnsafeMutablePointer<pthread_mutex_t>
  @usableFromInline let condition: UnsafeMutablePointer<pthread_cond_t>

  public init() {
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

  @inlinable public func lock() { pthread_mutex_lock(mutex) }
  @inlinable public func unlock() { pthread_mutex_unlock(mutex) }

  /// Wakes one thread that sleeps on the lock.
  @inlinable public func wake() { pthread_cond_signal(condition) }
  @inlinable public func wakeAll() { pthread_cond_broadcast(condition) }

  /// Called with the lock held, which is released during the sleep. May return without being woken, so the caller must
  /// check its condition again.
  public func sleep() { pthread_cond_wait(condition, mutex) }

  /// The same, but returns at the deadline as well.
  public func sleep(until deadline: Deadline) {
    #if canImport(Darwin)
      guard let left = deadline.remaining else { return sleep() }
      var relative = Deadline.split(left)
      pthread_cond_timedwait_relative_np(condition, mutex, &relative)
    #else
      guard var absolute = deadline.timespec else { return sleep() }
      pthread_cond_timedwait(condition, mutex, &absolute)
    #endif
  }
}
