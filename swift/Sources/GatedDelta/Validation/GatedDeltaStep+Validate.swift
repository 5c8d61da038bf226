import CGatedDelta
import GatedDeltaTypes

extension gd_gated_delta_step: OpDescriptor {
  func validate(_ validator: inout Validator) throws(Failure) {
    var options = try GatedDeltaStep.Options(self)
    options.gateBound = try Check.gateBound(gate_bound, options.gateForm)

    let rows = try validator.dims(self.x, "x", "[sequences, channels]", rank: 2)
    let (sequences, channels) = (rows[0], rows[1])
    try Check.sequences(UInt64(sequences), "x")
    let x = try validator.input(self.x, "x", rows, "[sequences, channels]", .floats)
    let given = try validator.dims(self.z, "z", "[sequences, valueHeads, valueDim]", rank: 3)
    let (valueHeads, valueDim) = (given[1], given[2])
    let valueDims = Dims(sequences, valueHeads, valueDim)
    let z = try validator.input(self.z, "z", valueDims, "[sequences, valueHeads, valueDim]", DTypes(x.dtype))
    let keyDim = try keyDim(channels: channels, valueHeads: valueHeads, valueDim: valueDim)
    try Check.headDim(keyDim, "keyDim", of: "x")
    try Check.headDim(valueDim, "valueDim", of: "z")
    try Check.heads(key: key_heads, value: valueHeads, of: "keyHeads")
    options.scale = try Check.scale(scale, keyDim: keyDim)

    let filter = try validator.convWeights((conv_weight, "convWeight"), (conv_bias, "convBias"), channels: channels)
    let gates = try validator.gates(
      GateArguments(
        form: options.gateForm, dims: options.gateDims, gate: gate, beta: beta, aLog: a_log, dtBias: dt_bias),
      rows: sequences, areSequences: true, valueHeads: valueHeads, keyDim: keyDim, activation: x.dtype)
    let normWeight = try validator.input(norm_weight, "normWeight", Dims(valueDim), "[valueDim]", .floats, .block)
    let convPool = try validator.optionalPool(
      conv_state, "convState", .convolution(channels, filter.width &- 1, x.dtype))
    let pool = try validator.optionalPool(state, "state", .recurrent(valueHeads, valueDim, keyDim))
    try Self.check(convPool, goesWith: pool)
    let out = try validator.output(
      self.out, "out", valueDims, "[sequences, valueHeads, valueDim]", .orF32(x.dtype))
    try validator.checkOverlaps()

    let count = Int(sequences)
    let recipe = SequenceRecipe(
      count: count, rows: .each(tokens: 1), slots: Int(pool.slots), hasPool: pool.view != nil,
      readSlots: try validator.index(read_slots, "readSlots", count: count, "slots, one a sequence"),
      writeSlots: try validator.index(write_slots, "writeSlots", count: count, "slots, one a sequence"))
    let batch = try validator.resolve(recipe)
    let op = Op.gatedDeltaStep(
      GatedDeltaStep(
        sequences: count, keyHeads: Int(key_heads), valueHeads: Int(valueHeads), keyDim: Int(keyDim),
        valueDim: Int(valueDim), width: Int(filter.width), slots: Int(pool.slots), options: options, x: x,
        convWeight: filter.weight, convBias: filter.bias, convState: convPool.view, state: pool.view, gate: gates.gate,
        beta: gates.beta, raw: gates.raw, z: z, normWeight: normWeight, out: out),
      batch.sequences)
    try validator.finish(op, recipe, batch, isEmpty: sequences == 0)
  }

  /// channels = 2 keyHeads keyDim + valueHeads valueDim
  private func keyDim(channels: UInt32, valueHeads: UInt32, valueDim: UInt32) throws(Failure) -> UInt32 {
    guard key_heads >= 1, key_heads <= UInt32(Int32.max) else {
      throw Failure(
        .range, argument: "keyHeads", expected: "an integer in 1..\(Int32.max)", received: "\(key_heads)")
    }
    // Every factor is below 2^31.
    let values = UInt64(valueHeads) &* UInt64(valueDim)
    let heads = 2 &* UInt64(key_heads)
    guard UInt64(channels) > values, (UInt64(channels) &- values) % heads == 0 else {
      throw Failure(
        .shape, argument: "x", expected: "channels = 2 * \(key_heads) * keyDim + \(valueHeads) * \(valueDim)",
        received: "\(channels) channels")
    }
    return UInt32((UInt64(channels) &- values) / heads)
  }

  /// Both pools or neither, with equal numbers of slots.
  private static func check(_ convPool: Pool, goesWith pool: Pool) throws(Failure) {
    guard (convPool.view == nil) == (pool.view == nil) else {
      throw Failure(
        .invalidArgument, argument: "convState",
        expected: pool.view == nil ? "none without state" : "a tensor of \(pool.slots) slots, as state has",
        received: convPool.view == nil ? "none" : "a tensor")
    }
    guard convPool.slots == pool.slots else {
      throw Failure(
        .shape, argument: "convState", expected: "\(pool.slots) slots, as state has", received: "\(convPool.slots)")
    }
  }
}
