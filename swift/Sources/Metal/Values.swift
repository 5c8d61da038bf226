/// The plain values of the Metal API subset that `MetalBackend` uses, spelled as Swift imports them from Apple's SDK.
/// `apple-api.txt` lists every declaration with the page that it was read from. Enumerations have no raw values here,
/// because the backend cannot read them.

public struct MTLSize: Sendable {
  public var width: Int
  public var height: Int
  public var depth: Int

  public init(width: Int, height: Int, depth: Int) {
    self.width = width
    self.height = height
    self.depth = depth
  }
}

public struct MTLResourceOptions: OptionSet, Sendable {
  public let rawValue: UInt
  public init(rawValue: UInt) { self.rawValue = rawValue }
  /// The default, so it has no bits of its own.
  public static var storageModeShared: MTLResourceOptions { MTLResourceOptions(rawValue: 0) }
  public static var hazardTrackingModeUntracked: MTLResourceOptions { MTLResourceOptions(rawValue: 256) }
}

public struct MTLBarrierScope: OptionSet, Sendable {
  public let rawValue: UInt
  public init(rawValue: UInt) { self.rawValue = rawValue }
  public static var buffers: MTLBarrierScope { MTLBarrierScope(rawValue: 1) }
}

public enum MTLDispatchType: Sendable {
  case serial
  case concurrent
}

public enum MTLGPUFamily: Sendable {
  case apple7
  case apple8
}

public enum MTLDataType: Sendable {
  case uint
  case bool
}

public enum MTLMathMode: Sendable {
  case safe
  case relaxed
  case fast
}

public enum MTLMathFloatingPointFunctions: Sendable {
  case fast
  case precise
}

public enum MTLLanguageVersion: Sendable {
  case version3_2
  case version4_1
}

public enum MTLCommandBufferStatus: Sendable {
  case notEnqueued
  case enqueued
  case committed
  case scheduled
  case completed
  case error
}

/// A copy of some bytes. Apple's is in the module Dispatch.
public struct DispatchData: Sendable {
  let bytes: [UInt8]

  public init(bytes buffer: UnsafeRawBufferPointer) { bytes = Array(buffer) }
}

/// Seconds.
public typealias CFTimeInterval = Double

public typealias MTLCommandBufferHandler = @Sendable (any MTLCommandBuffer) -> Void
