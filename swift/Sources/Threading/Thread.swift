#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// Starts a detached thread that blocks every signal: signals are for the host's threads. The process does not wait for
/// it at exit. False if the system refuses another thread.
public func startThread(_ body: @escaping @Sendable () -> Void) -> Bool {
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

  let start = Unmanaged.passRetained(ThreadStart(body))
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
  let body: @Sendable () -> Void

  init(_ body: @escaping @Sendable () -> Void) { self.body = body }
}

private func runThread(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  guard let argument else { return nil }
  Unmanaged<ThreadStart>.fromOpaque(argument).takeRetainedValue().body()
  return nil
}
