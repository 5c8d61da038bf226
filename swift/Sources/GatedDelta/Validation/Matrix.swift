import CGatedDelta
import GatedDeltaTypes

/// See `Linear`.
struct Matrix {
  let weight: TensorView
  let quantisation: Quantisation?
}

/// The arguments of one matrix, [rows, columns]: `linear` multiplies by it, `embedding` takes rows of it.
struct MatrixArguments {
  let weight, scales, biases: gd_tensor
  /// The names of the dimensions, for messages.
  let layout, wordLayout, groupLayout, columnsName: StaticString

  static let bits = [2, 3, 4, 5, 6, 8]
  static let groups = [32, 64, 128]
}

extension Validator {
  /// - Parameter columns: the number that another tensor of the op has.
  mutating func matrix(_ given: MatrixArguments, rows: UInt32, columns: UInt32) throws(Failure)
    -> Matrix
  {
    switch (given.scales.isAbsent, given.biases.isAbsent) {
    case (true, true):
      guard given.weight.dtype != DType.u32.rawValue else {
        throw Failure(
          .invalidArgument, argument: "scales", expected: "a tensor, since weight is of packed words", received: "none")
      }
      let values = try input(
        given.weight, "weight", Dims(rows, columns), given.layout, .floats, .vectorBlock)
      return Matrix(weight: values, quantisation: nil)
    case (false, true):
      throw Failure(.invalidArgument, argument: "biases", expected: "a tensor, since scales is one", received: "none")
    case (true, false):
      throw Failure(.invalidArgument, argument: "scales", expected: "a tensor, since biases is one", received: "none")
    case (false, false):
      return try quantised(given, rows: rows, columns: columns)
    }
  }

  private mutating func quantised(_ given: MatrixArguments, rows: UInt32, columns: UInt32) throws(Failure) -> Matrix {
    guard given.weight.dtype == DType.u32.rawValue else {
      throw Failure(
        .dtype, argument: "weight", expected: "u32, since there are scales",
        received: DType(rawValue: given.weight.dtype)?.name ?? "\(given.weight.dtype), which is no dtype")
    }
    let groupDims = try dims(given.scales, "scales", given.groupLayout, rank: 2)
    let group = Validator.quotient(Int(columns), Int(groupDims[1]), among: MatrixArguments.groups)
    guard let group else {
      throw Failure(
        .shape, argument: "scales",
        expected: "\(given.groupLayout) of \(columns) \(given.columnsName), with a group of 32, 64 or 128",
        received: groupDims.text)
    }
    let wordDims = try dims(given.weight, "weight", given.wordLayout, rank: 2)
    let bits = Validator.quotient(32 &* Int(wordDims[1]), Int(columns), among: MatrixArguments.bits)
    guard let bits else {
      throw Failure(
        .shape, argument: "weight",
        expected: "\(given.wordLayout) of \(columns) \(given.columnsName), with 2, 3, 4, 5, 6 or 8 bits",
        received: wordDims.text)
    }
    let values = try input(
      given.weight, "weight", Dims(rows, wordDims[1]), given.wordLayout, .u32, .vectorBlock)
    let scaleDims = Dims(rows, groupDims[1])
    let scales = try input(given.scales, "scales", scaleDims, given.groupLayout, .floats, .block)
    let biases = try input(
      given.biases, "biases", scaleDims, given.groupLayout, DTypes(scales.dtype), .block)
    return Matrix(
      weight: values, quantisation: Quantisation(bits: bits, group: group, scales: scales, biases: biases))
  }

  /// a / b if it is a whole number.
  private static func quotient(_ a: Int, _ b: Int, among allowed: [Int]) -> Int? {
    allowed.first { b > 0 && $0 &* b == a }
  }
}
