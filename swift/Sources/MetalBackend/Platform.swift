import Metal

#if canImport(Darwin)
  import Dispatch
  import MachO
#endif

/// The differences between a Mac and the emulation.
#if os(Linux)
  /// The kernels that the build has compiled: only Apple's compiler can.
  func builtMetallib() -> UnsafeRawBufferPointer? { nil }

  extension MetalBackend {
    /// True if `open` returns the emulation, not a GPU.
    public static var isEmulated: Bool { true }
  }
  func noDeviceReason() -> String { emulationProblem() ?? "none" }
#else
  /// The kernels that the build has compiled: a section of this library, if packages/link.mjs has put it there. It stays in
  /// memory as long as the library does.
  func builtMetallib() -> UnsafeRawBufferPointer? {
    let header = UnsafeRawPointer(#dsohandle).assumingMemoryBound(to: mach_header_64.self)
    var size: UInt = 0
    guard let start = getsectiondata(header, "__TEXT", "__metallib", &size), size > 0 else { return nil }
    return UnsafeRawBufferPointer(start: start, count: Int(size))
  }

  extension MetalBackend {
    public static var isEmulated: Bool { false }
  }
  func noDeviceReason() -> String { "none on this system" }
#endif
