#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// Runs before a JavaScript environment is torn down: work of its thread's devices on memory that belongs to the
/// environment must end by then. The end of the thread is too late, since that memory is already gone.
enum EnvironmentHook {
  /// Node-API's `napi_add_env_cleanup_hook`, found in the host program if it has Node-API.
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
