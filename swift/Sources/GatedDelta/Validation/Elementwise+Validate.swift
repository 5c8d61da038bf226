import CGatedDelta
import GatedDeltaTypes

extension Validator {
  /// The validation of every elementwise op, with the names of its inputs.
  mutating func elementwise(
    _ operation: ElementwiseOperation, _ a: (tensor: gd_tensor, name: StaticString),
    _ b: (tensor: gd_tensor, name: StaticString), out: gd_tensor
  ) throws(Failure) {
    let rows = try rows(of: a.tensor, a.name)
    let second = try input(b.tensor, b.name, rows.dims, rows.layout, .floats)
    let replacesB = forget(second, where: b.tensor.isSame(out))
    let first = try input(a.tensor, a.name, rows.dims, rows.layout, .orF32(second.dtype))
    let replacesA = forget(first, where: a.tensor.isSame(out))
    let result = try output(out, "out", rows.dims, rows.layout, .orF32(second.dtype))
    try checkOverlaps()

    let shape = Shape(rows.dims)
    let op = Elementwise(
      operation, tokens: Int(shape.tokens), heads: Int(shape.heads), dim: Int(shape.row), a: first, b: second,
      out: result, replacesA: replacesA, replacesB: replacesB)
    try finish(.elementwise(op), isEmpty: shape.isEmpty)
  }
}
