import CPUBackend
import CGatedDelta
import GatedDeltaTypes
import MetalBackend

/// The backends of this build, and the one that `auto` means: the only place that names them.
enum Backends {
  static let threadLimit = 1024

  static func open(_ backend: UInt32, threads: UInt32) throws(Failure) -> any Backend {
    guard threads <= UInt32(threadLimit) else {
      throw Failure(.invalidArgument, argument: "threads", expected: "0..\(threadLimit)", received: "\(threads)")
    }
    switch backend {
    case UInt32(GD_BACKEND_AUTO): return try automatic(threads: Int(threads))
    case UInt32(GD_BACKEND_CPU): return try CPUBackend.open(threads: Int(threads))
    case UInt32(GD_BACKEND_METAL): return try MetalBackend.open()
    default:
      throw Failure(
        .invalidArgument, argument: "backend", expected: "auto (0), cpu (1) or metal (2)", received: "\(backend)")
    }
  }

  /// Metal if there is a real GPU, else the CPU: an emulation must be asked for by name.
  private static func automatic(threads: Int) throws(Failure) -> any Backend {
    if !MetalBackend.isEmulated, let metal = try? MetalBackend.open() { return metal }
    return try CPUBackend.open(threads: threads)
  }
}
