import CGatedDelta
import GatedDeltaTypes

extension gd_add: OpDescriptor {
  func validate(_ validator: inout Validator) throws(Failure) {
    let rows = try validator.rows(of: self.a, "a")
    let b = try validator.input(self.b, "b", rows.dims, rows.layout, .floats)
    let replacesB = validator.forget(b, where: self.b.isSame(self.out))
    let a = try validator.input(self.a, "a", rows.dims, rows.layout, .orF32(b.dtype))
    let replacesA = validator.forget(a, where: self.a.isSame(self.out))
    let out = try validator.output(self.out, "out", rows.dims, rows.layout, .orF32(b.dtype))
    try validator.checkOverlaps()

    let shape = Shape(rows.dims)
    let op = Add(
      tokens: Int(shape.tokens), heads: Int(shape.heads), dim: Int(shape.row), a: a, b: b, out: out,
      replacesA: replacesA, replacesB: replacesB)
    try validator.finish(.add(op), isEmpty: shape.isEmpty)
  }
}
