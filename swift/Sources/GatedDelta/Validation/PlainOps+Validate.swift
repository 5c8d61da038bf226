import CGatedDelta
import GatedDeltaTypes

extension gd_gated_rms_norm: OpDescriptor {
  static var opName: StaticString { "gatedRmsNorm" }

  func validate(_ validator: inout Validator) throws(Failure) {
    let activation = try Check.activation(self.activation, "activation", among: [.silu, .sigmoid])
    let order: NormOrder = try Check.option(self.order, "order")
    let eps = try Check.epsilon(self.eps, "eps")

    let shape = Shape(tokens, heads, dim)
    let z = try validator.input(self.z, "z", shape, .floats)
    let x = try validator.input(self.x, "x", shape, .orF32(z.dtype))
    let weight = try validator.input(self.weight, "weight", Shape(1, 1, dim), .floats, .block)
    let out = try validator.output(self.out, "out", shape, .orF32(z.dtype))
    try validator.checkOverlaps()

    let op = GatedRMSNorm(
      tokens: Int(tokens), heads: Int(heads), dim: Int(dim), activation: activation, order: order, eps: eps, x: x, z: z,
      weight: weight, out: out)
    try validator.finish(.gatedRMSNorm(op), isEmpty: shape.isEmpty)
  }
}

extension gd_linear: OpDescriptor {
  static var opName: StaticString { "linear" }

  func validate(_ validator: inout Validator) throws(Failure) {
    try Check.reserved(reserved)
    let x = try validator.input(self.x, "x", Shape(rows, 1, in_features), .floats)
    let weight = try validator.input(
      self.weight, "weight", Shape(out_features, 1, in_features), .floats, .vectorBlock)
    let out = try validator.output(self.out, "out", Shape(rows, 1, out_features), .orF32(x.dtype))
    try validator.checkOverlaps()

    let op = Linear(
      rows: Int(rows), inFeatures: Int(in_features), outFeatures: Int(out_features), x: x, weight: weight, out: out)
    // Without input features the sums are empty, and the output is zeros: that is still to be written.
    try validator.finish(.linear(op), isEmpty: rows == 0 || out_features == 0)
  }
}

extension gd_copy_slots: OpDescriptor {
  static var opName: StaticString { "copySlots" }

  func validate(_ validator: inout Validator) throws(Failure) {
    try Check.sequences(count, "readSlots")
    guard let slotElements = Int(exactly: slot_elements) else {
      throw Failure(
        .shape, argument: "pool", expected: "slots inside its buffer", received: "\(slot_elements) elements each")
    }
    let pool = try validator.output(self.pool, "pool", Shape(slots, 1, slot_elements), .floats, .block)
    guard let readSlots = try validator.index(read_slots, "readSlots", count: Int(count)) else {
      throw Failure(.invalidArgument, argument: "readSlots", expected: "\(count) slots", received: "none")
    }
    guard let writeSlots = try validator.index(write_slots, "writeSlots", count: Int(count)) else {
      throw Failure(.invalidArgument, argument: "writeSlots", expected: "\(count) slots", received: "none")
    }
    let recipe = SequenceRecipe(
      count: Int(count), rows: .none, slots: Int(slots), hasPool: true, readSlots: readSlots, writeSlots: writeSlots)
    let batch = try validator.resolve(recipe)
    let op = Op.copySlots(
      CopySlots(slots: Int(slots), slotElements: slotElements, pool: pool),
      batch.sequences)
    try validator.finish(op, recipe, batch, isEmpty: count == 0 || slotElements == 0)
  }
}
