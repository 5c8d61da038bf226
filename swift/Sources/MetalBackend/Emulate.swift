// Not in a published library: see Package.swift.
import GatedDeltaTypes
import Metal

extension MetalBackend {
  /// Has `open` give a device that runs the translated kernels of this library, from now on.
  public static func emulate(_ path: String) throws(Failure) {
    #if os(Linux)
      emulateMetal(kernels: path)
    #else
      throw Failure(.unsupported, argument: "path", expected: "Linux, which has no Metal", received: "macOS")
    #endif
  }
}
