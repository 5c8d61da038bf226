import CGatedDelta
import GatedDeltaTypes

extension gd_rms_norm: OpDescriptor {
  func validate(_ validator: inout Validator) throws(Failure) {
    let options = try RMSNorm.Options(self)
    let rows = try validator.rows(of: self.x, "x")
    let x = try validator.input(self.x, "x", rows.dims, rows.layout, .floats)
    let weight = try validator.input(
      self.weight, "weight", Dims(rows.dims[rows.dims.rank &- 1]), "[dim]", .floats, .block)
    let out = try validator.output(self.out, "out", rows.dims, rows.layout, .orF32(x.dtype))
    try validator.checkOverlaps()

    let shape = Shape(rows.dims)
    let op = RMSNorm(
      tokens: Int(shape.tokens), heads: Int(shape.heads), dim: Int(shape.row), options: options, x: x, weight: weight,
      out: out)
    try validator.finish(.rmsNorm(op), isEmpty: shape.isEmpty)
  }
}
