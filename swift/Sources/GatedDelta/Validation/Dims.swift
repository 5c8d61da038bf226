import CGatedDelta

/// Lengths of a tensor's dimensions, outermost first. Entries beyond the rank are 0.
struct Dims: Equatable {
  var rank: Int
  private var lengths: SIMD8<UInt32>

  init(_ a: UInt32) {
    rank = 1
    lengths = SIMD8(a, 0, 0, 0, 0, 0, 0, 0)
  }

  init(_ a: UInt32, _ b: UInt32) {
    rank = 2
    lengths = SIMD8(a, b, 0, 0, 0, 0, 0, 0)
  }

  init(_ a: UInt32, _ b: UInt32, _ c: UInt32) {
    rank = 3
    lengths = SIMD8(a, b, c, 0, 0, 0, 0, 0)
  }

  init(_ a: UInt32, _ b: UInt32, _ c: UInt32, _ d: UInt32) {
    rank = 4
    lengths = SIMD8(a, b, c, d, 0, 0, 0, 0)
  }

  init(_ a: UInt32, _ b: UInt32, _ c: UInt32, _ d: UInt32, _ e: UInt32) {
    rank = 5
    lengths = SIMD8(a, b, c, d, e, 0, 0, 0)
  }

  /// The dimensions of a tensor whose rank is in 1...8.
  init(_ tensor: gd_tensor) {
    rank = Int(tensor.rank)
    let beyond = SIMD8<UInt32>(0, 1, 2, 3, 4, 5, 6, 7) .>= SIMD8(repeating: tensor.rank)
    lengths = unsafeBitCast(tensor.shape, to: SIMD8<UInt32>.self).replacing(with: 0, where: beyond)
  }

  subscript(axis: Int) -> UInt32 { lengths[axis] }

  /// The product of the lengths from `axis` on; the largest number if it does not fit.
  func elements(from axis: Int) -> UInt64 {
    var product: UInt64 = 1
    for axis in axis..<rank {
      let (next, overflow) = product.multipliedReportingOverflow(by: UInt64(self[axis]))
      if overflow { return .max }
      product = next
    }
    return product
  }

  /// For messages: `[5, 2, 16]`.
  var text: String { "[" + (0..<rank).map { "\(lengths[$0])" }.joined(separator: ", ") + "]" }
}

extension gd_tensor {
  var isAbsent: Bool { buffer == 0 }

  /// Elements from one index of a dimension to the next.
  func stride(_ axis: Int) -> UInt32 {
    withUnsafeBytes(of: strides) { $0.load(fromByteOffset: axis &* 4, as: UInt32.self) }
  }

  /// For messages.
  var stridesText: String { "[" + (0..<min(Int(rank), 8)).map { "\(stride($0))" }.joined(separator: ", ") + "]" }

  /// True if there are no gaps between elements. Strides of dimensions of length one do not matter, and none matters if
  /// there are no elements.
  func isContiguous(_ dims: Dims) -> Bool {
    var expected: UInt64 = 1
    var hasGaps = false
    for axis in (0..<dims.rank).reversed() {
      let length = dims[axis]
      if length == 0 { return true }
      if length != 1, UInt64(stride(axis)) != expected { hasGaps = true }
      let (product, overflow) = expected.multipliedReportingOverflow(by: UInt64(length))
      if overflow { return false }
      expected = product
    }
    return !hasGaps
  }
}
