// Not in a published library: see Package.swift.
import GatedDeltaTypes
import Metal

extension MetalBackend {
  /// From now on, `open` gives a device that runs the translated kernels of this library.
  public static func emulate(_ path: String) throws(Failure) {
    #if os(Linux)
      emulateMetal(kernels: path)
    #else
      throw Failure(.unsupported, argument: "path", expected: "Linux, which has no Metal", received: "macOS")
    #endif
  }
}
