import GatedDeltaTypes
import Metal

/// Memory that the CPU and the GPU share: an `MTLBuffer`, kept alive by references to this object.
final class MetalMemory: Memory, @unchecked Sendable {
  let buffer: any MTLBuffer
  private let residency: Residency?

  init(_ buffer: any MTLBuffer, byteCount: Int, _ origin: Origin, _ residency: Residency? = nil) {
    self.buffer = buffer
    self.residency = residency
    residency?.add(buffer)
    super.init(pointer: buffer.contents(), byteCount: byteCount, origin: origin)
  }

  deinit { residency?.remove(buffer) }
}

/// A range of memory that a kernel may touch, and the buffer through which it is bound. Two buffers may share memory if
/// one of them wraps the other's: overlaps are found by address.
///
/// A plain value without references, so that a dispatch's dozen of them cost no retain and their list no allocation:
/// the submission keeps its tensors' memory, and the pass its arena's, until everything is encoded.
struct Region {
  private let memory: Unmanaged<MetalMemory>
  /// The address in the process.
  let contents: UnsafeMutableRawPointer
  let byteCount: Int

  init(_ memory: MetalMemory, offset: Int, byteCount: Int) {
    self.memory = .passUnretained(memory)
    contents = memory.pointer + offset
    self.byteCount = byteCount
  }

  /// Calls `body` with the buffer and the offset at which this range begins.
  func bound<Result>(_ body: (any MTLBuffer, Int) -> Result) -> Result {
    memory._withUnsafeGuaranteedRef { body($0.buffer, contents - $0.pointer) }
  }

  var addresses: Range<UInt> {
    let start = UInt(bitPattern: contents)
    return start..<(start &+ UInt(byteCount))
  }

  var isEmpty: Bool { byteCount == 0 }
}

extension TensorView {
  /// Rows of `width` contiguous elements, `heads` per token.
  func region(tokens: Int, heads: Int = 1, width: Int) throws(Failure) -> Region {
    guard tokens > 0, heads > 0, width > 0 else { return try region(elements: 0) }
    return try region(elements: (tokens - 1) * tokenStride + (heads - 1) * headStride + width)
  }

  /// True if rows of `width` elements begin at multiples of 16 bytes (`elements` of 4; for 16-bit dtypes, 8 bytes if
  /// that is enough) for every token and head.
  func isAligned(to elements: Int, rowsOf width: Int) -> Bool {
    width % elements == 0 && tokenStride % elements == 0 && headStride % elements == 0
      && offset % (elements * dtype.size) == 0
  }

  /// Bytes from a multiple of the element size, or of four for bytes, to the first element.
  var shift: Int { offset % (dtype == .u8 ? 4 : dtype.size) }

  /// Elements that begin at any byte, extended to such multiples.
  func region(around elements: Int) throws(Failure) -> Region {
    var extended = self
    extended.offset -= shift
    return try extended.region(elements: elements == 0 ? 0 : elements + ceilDiv(shift, dtype.size))
  }

  func region(elements: Int) throws(Failure) -> Region {
    // A cast would look for superclasses, and retain.
    guard type(of: memory) == MetalMemory.self else {
      throw Failure(.internal, expected: "memory of this device", received: "memory of another backend")
    }
    return Region(unsafeDowncast(memory, to: MetalMemory.self), offset: offset, byteCount: elements * dtype.size)
  }
}
