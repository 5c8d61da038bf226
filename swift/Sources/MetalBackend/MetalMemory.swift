import GatedDeltaTypes
import Metal

/// Memory that the CPU and the GPU share: an `MTLBuffer`, kept alive by whoever holds this object.
final class MetalMemory: Memory, @unchecked Sendable {
  let buffer: any MTLBuffer

  init(_ buffer: any MTLBuffer, byteCount: Int, isWrapped: Bool) {
    self.buffer = buffer
    super.init(pointer: buffer.contents(), byteCount: byteCount, isWrapped: isWrapped)
  }
}

/// A stretch of memory that a kernel may touch, and the buffer that it is bound through. Two buffers may lie over the
/// same memory, where one of them wraps the other's: what overlaps is told by address.
struct Region {
  var buffer: any MTLBuffer
  var offset: Int
  var addresses: Range<UInt>

  init(buffer: any MTLBuffer, contents: UnsafeMutableRawPointer, offset: Int, byteCount: Int) {
    self.buffer = buffer
    self.offset = offset
    let start = UInt(bitPattern: contents + offset)
    addresses = start..<(start &+ UInt(byteCount))
  }

  var isEmpty: Bool { addresses.isEmpty }
}

extension TensorView {
  /// Rows of `width` contiguous elements, `heads` a token.
  func region(tokens: Int, heads: Int = 1, width: Int) throws(Failure) -> Region {
    guard tokens > 0, heads > 0, width > 0 else { return try region(elements: 0) }
    return try region(elements: (tokens - 1) * tokenStride + (heads - 1) * headStride + width)
  }

  func region(elements: Int) throws(Failure) -> Region {
    guard let memory = memory as? MetalMemory else {
      throw Failure(.internal, expected: "memory of this device", received: "memory of another backend")
    }
    return Region(
      buffer: memory.buffer, contents: memory.pointer, offset: offset, byteCount: elements * dtype.size)
  }
}
