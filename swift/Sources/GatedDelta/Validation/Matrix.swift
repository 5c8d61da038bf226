import CGatedDelta
import GatedDeltaTypes

/// The arguments of one matrix, [rows, columns], or of one per expert, [experts, rows, columns]: `linear` multiplies by it,
/// `embedding` takes rows of it.
struct MatrixArguments {
  /// 0: the only format that dtypes and shapes leave.
  let format: UInt32
  let weight, scales, biases: gd_tensor
  /// The names of the dimensions, for messages.
  let layout, wordLayout, byteLayout, groupLayout, columnsName: StaticString
  /// The number of matrices, if there is a dimension of them before the rows.
  var experts: UInt32?

  var rank: Int { experts == nil ? 2 : 3 }

  /// The dimensions of a tensor with `elements` elements per row.
  func dims(_ rows: UInt32, _ elements: UInt32) -> Dims {
    experts.map { Dims($0, rows, elements) } ?? Dims(rows, elements)
  }

  /// The layout of the tensor that a format's elements or blocks are in.
  func layout(_ format: WeightFormat) -> StaticString {
    format.layout.dtype == .u8 ? byteLayout : format.layout.isPacked ? wordLayout : layout
  }
}

extension Validator {
  /// - Parameter columns: the number that another tensor of the op has.
  mutating func matrix(_ given: MatrixArguments, rows: UInt32, columns: UInt32) throws(Failure) -> Matrix {
    guard given.format == 0 else {
      let format: WeightFormat = try Check.option(given.format, "weightFormat")
      try checkTensors(given, format)
      return try matrix(given, format, rows: rows, columns: columns)
    }
    let format = try given.scales.isAbsent && given.biases.isAbsent ? floats(given, rows, columns) : affine(given, columns)
    return try matrix(given, format, rows: rows, columns: columns)
  }

  /// Checks that exactly the tensors of a named format are there, and that the blocks have its dtype.
  private func checkTensors(_ given: MatrixArguments, _ format: WeightFormat) throws(Failure) {
    let layout = format.layout
    guard given.weight.dtype == layout.dtype.rawValue else {
      throw Failure(
        .dtype, argument: "weight", expected: "\(layout.dtype.name), as \(format.publicName) has",
        received: Self.dtypeName(given.weight))
    }
    try checkCompanion(given.scales, "scales", layout.scales, format)
    try checkCompanion(given.biases, "biases", layout.biases, format)
  }

  private func checkCompanion(
    _ tensor: gd_tensor, _ name: StaticString, _ companion: WeightLayout.Companion, _ format: WeightFormat
  ) throws(Failure) {
    if tensor.isAbsent == (companion == .none) { return }
    let (expected, received) = tensor.isAbsent ? ("a tensor", "none") : ("nothing", "a tensor")
    throw Failure(
      .invalidArgument, argument: "\(name)", expected: "\(expected), since weightFormat is \(format.publicName)",
      received: received)
  }

  /// The format of a matrix without scales and biases.
  private mutating func floats(_ given: MatrixArguments, _ rows: UInt32, _ columns: UInt32) throws(Failure) -> WeightFormat {
    switch DType(rawValue: given.weight.dtype) {
    case .f32: return .f32
    case .f16: return .f16
    case .bf16: return .bf16
    case .u32:
      throw Failure(
        .invalidArgument, argument: "scales", expected: "a tensor, since weight is of packed words", received: "none")
    case .u8:
      throw Failure(
        .invalidArgument, argument: "weightFormat", expected: "a format, since several have blocks of u8", received: "none")
    default:
      let values = try input(given.weight, "weight", given.dims(rows, columns), given.layout, .floats, .bytes)
      throw Failure(.dtype, argument: "weight", expected: DTypes.floats.names, received: values.dtype.name)
    }
  }

  /// The affine format that the shapes of words and scales leave.
  private func affine(_ given: MatrixArguments, _ columns: UInt32) throws(Failure) -> WeightFormat {
    guard !given.biases.isAbsent else {
      if given.scales.dtype == DType.u8.rawValue {
        throw Failure(
          .invalidArgument, argument: "weightFormat", expected: "a format, since several have scales of u8", received: "none")
      }
      throw Failure(.invalidArgument, argument: "biases", expected: "a tensor, since scales is one", received: "none")
    }
    guard !given.scales.isAbsent else {
      throw Failure(.invalidArgument, argument: "scales", expected: "a tensor, since biases is one", received: "none")
    }
    guard given.weight.dtype == DType.u32.rawValue else {
      throw Failure(
        .dtype, argument: "weight", expected: "u32, since there are scales", received: Self.dtypeName(given.weight))
    }
    let groups = try dims(given.scales, "scales", given.groupLayout, rank: given.rank)
    func isGrouped(_ format: WeightFormat) -> Bool { Int(groups[given.rank &- 1]) &* format.layout.elements == Int(columns) }
    guard columns > 0, Self.affineFormats.contains(where: isGrouped) else {
      throw Failure(
        .shape, argument: "scales",
        expected: "\(given.groupLayout) of \(columns) \(given.columnsName), with a group of 32, 64 or 128",
        received: groups.text)
    }
    let words = try dims(given.weight, "weight", given.wordLayout, rank: given.rank)
    let format = Self.affineFormats.first { isGrouped($0) && $0.layout.stored(columns: Int(columns)) == Int(words[given.rank &- 1]) }
    guard let format else {
      throw Failure(
        .shape, argument: "weight",
        expected: "\(given.wordLayout) of \(columns) \(given.columnsName), with 2, 3, 4, 5, 6 or 8 bits",
        received: words.text)
    }
    return format
  }

  /// The affine formats, which shapes tell apart.
  private static let affineFormats = WeightFormat.allCases.filter { format in
    format.layout.dtype == .u32 && format.layout.scales == .floats && format.layout.biases == .floats
  }

  private mutating func matrix(_ given: MatrixArguments, _ format: WeightFormat, rows: UInt32, columns: UInt32)
    throws(Failure) -> Matrix
  {
    let layout = format.layout
    guard !layout.isPacked || (columns > 0 && Int(columns) % layout.elements == 0) else {
      throw Failure(
        .shape, argument: "weight",
        expected: "a multiple of \(layout.elements) \(given.columnsName), as \(format.publicName) has", received: "\(columns)")
    }
    let weight = try input(
      given.weight, "weight", given.dims(rows, UInt32(clamping: layout.stored(columns: Int(columns)))),
      given.layout(format), DTypes(layout.dtype), given.experts == nil ? .bytes : .pieces)
    let companions = given.dims(rows, columns / UInt32(layout.elements))
    var scales, biases: TensorView?
    if layout.scales != .none {
      scales = try input(given.scales, "scales", companions, given.groupLayout, DTypes(layout.scales), .bytes)
    }
    if layout.biases != .none {
      let dtypes = scales.map { layout.biases == .floats ? DTypes($0.dtype) : DTypes(layout.biases) }
      biases = try input(given.biases, "biases", companions, given.groupLayout, dtypes ?? DTypes(layout.biases), .bytes)
    }
    return Matrix(
      format: format, rows: Int(rows) &* Int(given.experts ?? 1), columns: Int(columns), weight: weight, scales: scales, biases: biases)
  }

  private static func dtypeName(_ tensor: gd_tensor) -> String {
    DType(rawValue: tensor.dtype)?.name ?? "\(tensor.dtype), which is no dtype"
  }
}

extension DTypes {
  fileprivate init(_ companion: WeightLayout.Companion) {
    switch companion {
    case .none: self = []
    case .floats: self = .floats
    case .only(let dtype): self.init(dtype)
    }
  }
}
