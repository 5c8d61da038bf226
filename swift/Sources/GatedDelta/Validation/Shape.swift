import GatedDeltaTypes

/// A tensor's dimensions as the boundary sees them: rows of `row` elements, `heads` of them for each token. Tensors
/// without heads have one head; those of one dimension also have one token.
struct Shape {
  var tokens: UInt64
  var heads: UInt64
  var row: UInt64
  /// True if the tensor is given as [sequences, tokens of each, ...], which the boundary sees as one dimension of
  /// tokens.
  var mergesSequences = false

  init(_ tokens: some BinaryInteger, _ heads: some BinaryInteger, _ row: some BinaryInteger) {
    self.tokens = UInt64(truncatingIfNeeded: tokens)
    self.heads = UInt64(truncatingIfNeeded: heads)
    self.row = UInt64(truncatingIfNeeded: row)
  }

  /// The usual reading: [row], [tokens, row], [tokens, heads, row] or [tokens, heads, ...] with the rest as the row.
  init(_ dims: Dims) {
    tokens = dims.rank > 1 ? UInt64(dims[0]) : 1
    heads = dims.rank > 2 ? UInt64(dims[1]) : 1
    row = dims.elements(from: dims.rank > 2 ? 2 : dims.rank &- 1)
  }

  /// The same for [sequences, tokens, heads, row].
  init(merging dims: Dims, heads: UInt32, row: UInt32) {
    self.init(UInt64(dims[0]) &* UInt64(dims[1]), heads, row)
    mergesSequences = true
  }

  var isEmpty: Bool { tokens == 0 || heads == 0 || row == 0 }
  /// True if backends may read the rows as vectors of 8.
  var hasVectors: Bool { !isEmpty && row % 8 == 0 }
}

/// Strides in elements, and the numbers derived from them. Every sum and product is checked: the caller chose the
/// numbers.
struct Strides {
  var token: UInt64
  var head: UInt64

  /// A stride of 0 means contiguous. One that is never used, because there is a single row, is made contiguous as well,
  /// so that no stride that reaches a backend is larger than the buffer. Nil if a number does not fit.
  init?(token: UInt64, head: UInt64, of shape: Shape) {
    self.head = head == 0 || shape.heads <= 1 ? max(1, shape.row) : head
    if token == 0 || shape.tokens <= 1 {
      let (product, overflow) = max(1, shape.heads).multipliedReportingOverflow(by: self.head)
      guard !overflow else { return nil }
      self.token = product
    } else {
      self.token = token
    }
    guard self.token <= UInt64(Int.max), self.head <= UInt64(Int.max) else { return nil }
  }

  /// Elements from the first to just after the last; nil if the number does not fit.
  func extent(of shape: Shape) -> UInt64? {
    guard !shape.isEmpty else { return 0 }
    let tokens = (shape.tokens &- 1).multipliedReportingOverflow(by: token)
    let heads = (shape.heads &- 1).multipliedReportingOverflow(by: head)
    let rows = tokens.partialValue.addingReportingOverflow(heads.partialValue)
    let all = rows.partialValue.addingReportingOverflow(shape.row)
    return tokens.overflow || heads.overflow || rows.overflow || all.overflow ? nil : all.partialValue
  }

  /// True if two rows share elements, which those of an output must not: the larger stride must step over everything
  /// that the smaller one covers. Called only if the extent fits, so nothing here can overflow.
  func rowsOverlap(in shape: Shape) -> Bool {
    guard !shape.isEmpty else { return false }
    let byToken = (count: shape.tokens, stride: token)
    let byHead = (count: shape.heads, stride: head)
    let (inner, outer) = byToken.stride < byHead.stride ? (byToken, byHead) : (byHead, byToken)
    var covered = shape.row
    if inner.count > 1 {
      if inner.stride < covered { return true }
      covered = (inner.count &- 1) &* inner.stride &+ covered
    }
    return outer.count > 1 && outer.stride < covered
  }
}

/// The element types that an argument accepts.
struct DTypes: OptionSet {
  let rawValue: UInt8

  static let f32 = DTypes(rawValue: 1 << 1)
  static let f16 = DTypes(rawValue: 1 << 2)
  static let bf16 = DTypes(rawValue: 1 << 3)
  static let u32 = DTypes(rawValue: 1 << 5)
  static let id32 = DTypes(rawValue: 1 << 6)
  static let floats: DTypes = [.f32, .f16, .bf16]

  init(rawValue: UInt8) { self.rawValue = rawValue }
  init(_ dtype: DType) { rawValue = 1 << UInt8(truncatingIfNeeded: dtype.rawValue) }

  static func orF32(_ dtype: DType) -> DTypes { [DTypes(dtype), .f32] }

  var names: String {
    let names = DType.allCases.filter { contains(DTypes($0)) }.map(\.name)
    return names.count < 2 ? names.joined() : names.dropLast().joined(separator: ", ") + " or " + names[names.count &- 1]
  }
}
