import GatedDeltaTypes

#if canImport(Darwin)
  import Darwin
  private let stream = SOCK_STREAM
  /// SO_NOSIGPIPE replaces it.
  private let withoutSignal: Int32 = 0
#else
  import Glibc
  private let stream = Int32(SOCK_STREAM.rawValue)
  private let withoutSignal = Int32(MSG_NOSIGNAL)
#endif

/// Two connected sockets. The device writes a byte to its own, and the caller's event loop, which has the other one, notices
/// the byte without polling.
final class Notifier: Sendable {
  private let own: Int32
  /// The caller's socket; the caller closes it.
  let other: Int32

  init() throws(Failure) {
    var ends: [Int32] = [-1, -1]
    guard socketpair(AF_UNIX, stream, 0, &ends) == 0 else {
      throw Failure(
        .device, expected: "two connected sockets", received: "none: \(String(cString: strerror(errno)))")
    }
    for end in ends {
      _ = fcntl(end, F_SETFD, FD_CLOEXEC)
      _ = fcntl(end, F_SETFL, O_NONBLOCK)
      #if canImport(Darwin)
        var on: Int32 = 1
        setsockopt(end, SOL_SOCKET, SO_NOSIGPIPE, &on, socklen_t(MemoryLayout<Int32>.size))
      #endif
    }
    own = ends[0]
    other = ends[1]
  }

  deinit { _ = close(own) }

  /// A full socket has enough bytes to wake its reader, and a closed one has no reader.
  func notify() {
    var byte: UInt8 = 1
    _ = send(own, &byte, 1, withoutSignal)
  }
}
