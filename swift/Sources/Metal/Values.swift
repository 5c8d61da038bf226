/// The plain values of the Metal API subset that `MetalBackend` uses, spelled as Swift imports them from Apple's SDK.
/// `apple-api.txt` lists every declaration beside the page that it was read from.

public struct MTLSize: Sendable {
  public var width: Int
  public var height: Int
  public var depth: Int

  public init() { self.init(width: 0, height: 0, depth: 0) }
  public init(width: Int, height: Int, depth: Int) {
    self.width = width
    self.height = height
    self.depth = depth
  }
}

public struct MTLResourceOptions: OptionSet, Sendable {
  public let rawValue: UInt
  public init(rawValue: UInt) { self.rawValue = rawValue }
  public static let storageModePrivate = MTLResourceOptions(rawValue: 2 << 4)
  public static let hazardTrackingModeUntracked = MTLResourceOptions(rawValue: 1 << 8)
  public static let hazardTrackingModeTracked = MTLResourceOptions(rawValue: 2 << 8)
  /// The default, so it has no bits of its own.
  public static var storageModeShared: MTLResourceOptions { [] }
}

public struct MTLBarrierScope: OptionSet, Sendable {
  public let rawValue: UInt
  public init(rawValue: UInt) { self.rawValue = rawValue }
  public static let buffers = MTLBarrierScope(rawValue: 1)
}

public enum MTLDispatchType: UInt, Sendable {
  case serial = 0
  case concurrent = 1
}

public enum MTLGPUFamily: Int, Sendable {
  case apple6 = 1006
  case apple7 = 1007
  case apple8 = 1008
  case apple9 = 1009
}

public enum MTLDataType: UInt, Sendable {
  case float = 3
  case int = 29
  case uint = 33
  case bool = 53
}

public enum MTLMathMode: Int, Sendable {
  case safe = 0
  case relaxed = 1
  case fast = 2
}

public enum MTLMathFloatingPointFunctions: Int, Sendable {
  case fast = 0
  case precise = 1
}

public enum MTLLanguageVersion: UInt, Sendable {
  case version3_1 = 196609
  case version3_2 = 196610
}

public enum MTLCommandBufferStatus: UInt, Sendable {
  case notEnqueued = 0
  case enqueued = 1
  case committed = 2
  case scheduled = 3
  case completed = 4
  case error = 5
}

/// Metal's completion handler type.
public typealias MTLCommandBufferHandler = @Sendable (any MTLCommandBuffer) -> Void
