#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// The moment before a JavaScript environment is taken down: what its thread's devices are doing to memory that belongs
/// to the environment has to end by then. A thread's own end comes too late, when that memory is gone.
enum EnvironmentHook {
  /// Node-API's `napi_add_env_cleanup_hook`, which the host program has where it has Node-API.
  private typealias AddHook = @convention(c) (
    UnsafeMutableRawPointer?, @convention(c) (UnsafeMutableRawPointer?) -> Void, UnsafeMutableRawPointer?
  ) -> Int32

  static func add(to env: UnsafeMutableRawPointer?) {
    guard let symbol = dlsym(UnsafeMutableRawPointer(bitPattern: program), "napi_add_env_cleanup_hook") else { return }
    let add = unsafeBitCast(symbol, to: AddHook.self)
    _ = add(env, { _ in ThreadState.current?.end() }, nil)
  }

  /// `RTLD_DEFAULT`, a macro that Swift does not import.
  #if canImport(Darwin)
    private static let program = -2
  #else
    private static let program = 0
  #endif
}
