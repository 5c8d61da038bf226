import Metal

/// The two things that differ between a Mac and the emulation.
#if os(Linux)
  let isEmulated = true
  func noDeviceReason() -> String { emulationProblem() ?? "none" }
#else
  let isEmulated = false
  func noDeviceReason() -> String { "none on this system" }
#endif
