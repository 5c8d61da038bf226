import CGatedDelta
import GatedDeltaTypes

@testable import GatedDelta

/// Tensors as a caller of the C functions writes them.
extension gd_tensor {
  /// Contiguous.
  init(buffer: UInt64, offset: UInt64 = 0, _ dtype: DType, _ shape: [Int]) {
    self.init()
    (self.buffer, self.offset, self.dtype) = (buffer, offset, dtype.rawValue)
    reshape(shape.map { UInt32($0) })
  }

  /// Gives it another shape, contiguous.
  mutating func reshape(_ shape: [UInt32]) {
    rank = UInt32(shape.count)
    var stride: UInt32 = 1
    for axis in shape.indices.reversed() {
      setLength(axis, shape[axis])
      setStride(axis, stride)
      stride &*= max(1, shape[axis])
    }
  }

  mutating func setLength(_ axis: Int, _ length: UInt32) {
    withUnsafeMutableBytes(of: &shape) { $0.storeBytes(of: length, toByteOffset: axis * 4, as: UInt32.self) }
  }

  mutating func setStride(_ axis: Int, _ stride: UInt32) {
    withUnsafeMutableBytes(of: &strides) { $0.storeBytes(of: stride, toByteOffset: axis * 4, as: UInt32.self) }
  }
}
