#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// Monotonic time: a change of the wall clock neither ends nor prolongs a wait.
public enum Clock {
  /// Nanoseconds since some moment before the process began.
  public static var now: UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(truncatingIfNeeded: time.tv_sec) &* 1_000_000_000 &+ UInt64(truncatingIfNeeded: time.tv_nsec)
  }
}

/// A point in monotonic time.
public struct Deadline: Sendable {
  /// Nil means never.
  private let nanoseconds: UInt64?

  /// `timeout` in nanoseconds from now; anything beyond a century is never.
  public init(timeout: UInt64) {
    // The clock is read only where its time matters.
    guard timeout <= UInt64(Int64.max) else {
      nanoseconds = nil
      return
    }
    let sum = Clock.now &+ timeout
    nanoseconds = sum > UInt64(Int64.max) ? nil : sum
  }

  public var isNever: Bool { nanoseconds == nil }

  /// Nanoseconds left, 0 once it has passed; nil for never.
  public var remaining: UInt64? {
    guard let nanoseconds else { return nil }
    let now = Clock.now
    return nanoseconds > now ? nanoseconds &- now : 0
  }

  /// The time in the form that `pthread_cond_timedwait` takes on Linux.
  var timespec: timespec? { nanoseconds.map(Deadline.split) }

  static func split(_ nanoseconds: UInt64) -> timespec {
    #if canImport(Darwin)
      return Darwin.timespec(tv_sec: Int(nanoseconds / 1_000_000_000), tv_nsec: Int(nanoseconds % 1_000_000_000))
    #else
      return Glibc.timespec(tv_sec: Int(nanoseconds / 1_000_000_000), tv_nsec: Int(nanoseconds % 1_000_000_000))
    #endif
  }
}
