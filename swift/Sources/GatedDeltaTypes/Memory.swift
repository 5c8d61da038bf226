/// Memory that JavaScript and a device share. References keep it alive: that of the handle table until the buffer is
/// released, those of encoded and pending work until it has finished. Backends subclass it.
open class Memory: @unchecked Sendable {
  public let pointer: UnsafeMutableRawPointer
  public let byteCount: Int
  /// Borrowed from the caller (`gd_buffer_wrap`): never freed here.
  public let isWrapped: Bool

  public init(pointer: UnsafeMutableRawPointer, byteCount: Int, isWrapped: Bool) {
    self.pointer = pointer
    self.byteCount = byteCount
    self.isWrapped = isWrapped
  }
}

/// A validated tensor: every element that its op can touch lies inside `memory`. The op defines the dimensions; strides
/// are in elements and never 0.
public struct TensorView: Sendable {
  public var memory: Memory
  /// Bytes from the start of `memory`.
  public var offset: Int
  public var dtype: DType
  public var tokenStride: Int
  public var headStride: Int

  public init(memory: Memory, offset: Int, dtype: DType, tokenStride: Int, headStride: Int) {
    self.memory = memory
    self.offset = offset
    self.dtype = dtype
    self.tokenStride = tokenStride
    self.headStride = headStride
  }

  public var pointer: UnsafeMutableRawPointer { memory.pointer + offset }
}
