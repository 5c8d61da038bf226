/// Why a command buffer failed, with the emulation's words for what went wrong.
public struct MTLCommandBufferError: Error, Sendable, CustomStringConvertible {
  public enum Code: Sendable {
    case `internal`
    case timeout
    case pageFault
    case blacklisted
    case notPermitted
    case outOfMemory
    case invalidResource
    /// The other name of the same value, which Swift imports as a property.
    public static var accessRevoked: MTLCommandBufferError.Code { .blacklisted }
  }

  public var code: MTLCommandBufferError.Code { reason }
  private let reason: Code
  let words: String

  init(_ code: Code, _ words: String) {
    reason = code
    self.words = words
  }

  public var description: String { words }
}

/// The error for a library, function or pipeline that cannot be made, for which Apple's Metal has an `NSError`.
struct MetalEmulationError: Error, CustomStringConvertible {
  var description: String
  init(_ description: String) { self.description = description }
}

/// The reason that `MTLCreateSystemDefaultDevice()` gives nothing here; nil if it gives a device. Not Apple's.
public func emulationProblem() -> String? {
  switch DefaultDevice.get() {
  case .success: nil
  case .failure(let error): error.description
  }
}

/// The cores of an emulated GPU; nil if its settings give none. Metal has no such function, so this is not Apple's.
public func emulatedCores(of device: any MTLDevice) -> Int? { (device as? EmulatedDevice)?.settings.cores }
