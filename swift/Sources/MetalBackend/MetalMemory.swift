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

/// A stretch of a buffer that a kernel may touch.
struct Region {
  var buffer: any MTLBuffer
  var offset: Int
  var byteCount: Int
}

extension TensorView {
  /// Rows of `width` contiguous elements, `heads` a token.
  func region(tokens: Int, heads: Int = 1, width: Int) -> Region {
    guard tokens > 0, heads > 0, width > 0 else { return region(elements: 0) }
    return region(elements: (tokens - 1) * tokenStride + (heads - 1) * headStride + width)
  }

  func region(elements: Int) -> Region {
    // The core has opened this device, so its memory is of this backend's kind.
    guard let memory = memory as? MetalMemory else { preconditionFailure("memory of another backend") }
    return Region(buffer: memory.buffer, offset: offset, byteCount: elements * dtype.size)
  }
}
