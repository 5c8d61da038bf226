import CGatedDelta
import GatedDeltaTypes

extension gd_gated_rms_norm: OpDescriptor {
  func validate(_ validator: inout Validator) throws(Failure) {
    let options = try GatedRMSNorm.Options(self)
    let (dims, layout) = try validator.rows(of: self.x, "x")
    let shape = Shape(dims)
    let z = try validator.input(self.z, "z", dims, layout, .floats)
    let x = try validator.input(self.x, "x", dims, layout, .orF32(z.dtype))
    let weight = try validator.input(
      self.weight, "weight", Dims(dims[dims.rank &- 1]), "[dim]", .floats, .block)
    let out = try validator.output(self.out, "out", dims, layout, .orF32(z.dtype))
    try validator.checkOverlaps()

    let op = GatedRMSNorm(
      tokens: Int(shape.tokens), heads: Int(shape.heads), dim: Int(shape.row), options: options, x: x, z: z,
      weight: weight, out: out)
    try validator.finish(.gatedRMSNorm(op), isEmpty: shape.isEmpty)
  }
}

extension gd_copy_slots: OpDescriptor {
  func validate(_ validator: inout Validator) throws(Failure) {
    let dims = try validator.dims(self.pool, "pool")
    let (slots, slotElements) = (dims[0], dims.elements(from: 1))
    let pool = try validator.output(
      self.pool, "pool", dims, "[slots, ...]", .floats, .block, as: Shape(slots, 1, slotElements))
    guard !read_slots.isAbsent else { throw Validator.missing("readSlots") }
    try Check.sequences(read_slots.count, "readSlots")
    let count = Int(read_slots.count)
    let recipe = SequenceRecipe(
      count: count, rows: .none, slots: Int(slots), hasPool: true,
      readSlots: try validator.requiredIndex(read_slots, "readSlots", count: count, "slots"),
      writeSlots: try validator.requiredIndex(
        write_slots, "writeSlots", count: count, "slots, as many as readSlots has"))
    let batch = try validator.resolve(recipe)
    // A pool without slots may have slots of any size, which are never touched.
    let elements = Int(exactly: slotElements) ?? 0
    let op = Op.copySlots(CopySlots(slots: Int(slots), slotElements: elements, pool: pool), batch.sequences)
    try validator.finish(op, recipe, batch, isEmpty: count == 0 || elements == 0)
  }
}
