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
  /// Where it lies in the process.
  var contents: UnsafeMutableRawPointer
  var addresses: Range<UInt>

  init(buffer: any MTLBuffer, contents: UnsafeMutableRawPointer, offset: Int, byteCount: Int) {
    self.buffer = buffer
    self.offset = offset
    self.contents = contents + offset
    let start = UInt(bitPattern: self.contents)
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

  /// Whether rows of `width` elements begin at multiples of 16 bytes (`elements` of 4 or, of 16-bit dtypes, 8 bytes
  /// where those are enough) whatever their token and head.
  func isAligned(to elements: Int, rowsOf width: Int) -> Bool {
    width % elements == 0 && tokenStride % elements == 0 && headStride % elements == 0
      && offset % (elements * dtype.size) == 0
  }

  func region(elements: Int) throws(Failure) -> Region {
    guard let memory = memory as? MetalMemory else {
      throw Failure(.internal, expected: "memory of this device", received: "memory of another backend")
    }
    return Region(
      buffer: memory.buffer, contents: memory.pointer, offset: offset, byteCount: elements * dtype.size)
  }
}
