import Metal

/// The differences between a Mac and the emulation.
#if os(Linux)
  extension MetalBackend {
    /// True if `open` returns the emulation, not a GPU.
    public static var isEmulated: Bool { true }
  }
  func noDeviceReason() -> String { emulationProblem() ?? "none" }
#else
  extension MetalBackend {
    public static var isEmulated: Bool { false }
  }
  func noDeviceReason() -> String { "none on this system" }
#endif
