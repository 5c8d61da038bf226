import CGatedDelta
import GatedDeltaTypes

extension gd_silu_mul: OpDescriptor {
  func validate(_ validator: inout Validator) throws(Failure) {
    let rows = try validator.rows(of: self.gate, "gate")
    let up = try validator.input(self.up, "up", rows.dims, rows.layout, .floats)
    let replacesUp = validator.forget(up, where: self.up.isSame(self.out))
    let gate = try validator.input(self.gate, "gate", rows.dims, rows.layout, .orF32(up.dtype))
    let replacesGate = validator.forget(gate, where: self.gate.isSame(self.out))
    let out = try validator.output(self.out, "out", rows.dims, rows.layout, .orF32(up.dtype))
    try validator.checkOverlaps()

    let shape = Shape(rows.dims)
    let op = SiluMul(
      tokens: Int(shape.tokens), heads: Int(shape.heads), dim: Int(shape.row), gate: gate, up: up, out: out,
      replacesGate: replacesGate, replacesUp: replacesUp)
    try validator.finish(.siluMul(op), isEmpty: shape.isEmpty)
  }
}
