import CPUBackend
import CGatedDelta
import GatedDeltaTypes

/// Which backends this build has, and which one `auto` means: the one place that names them.
enum Backends {
  static let threadLimit = 1024

  static func open(_ backend: UInt32, threads: UInt32) throws(Failure) -> any Backend {
    guard threads <= UInt32(threadLimit) else {
      throw Failure(.invalidArgument, argument: "threads", expected: "0..\(threadLimit)", received: "\(threads)")
    }
    switch backend {
    case UInt32(GD_BACKEND_AUTO), UInt32(GD_BACKEND_CPU): return try CPUBackend.open(threads: Int(threads))
    case UInt32(GD_BACKEND_METAL): return try metal()
    default:
      throw Failure(
        .invalidArgument, argument: "backend", expected: "auto (0), cpu (1) or metal (2)", received: "\(backend)")
    }
  }

  private static func metal() throws(Failure) -> any Backend {
    throw Failure(
      .device, argument: "backend", expected: "a Metal device", received: "no Metal device: this build has no Metal backend")
  }
}
