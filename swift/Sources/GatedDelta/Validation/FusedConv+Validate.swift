import CGatedDelta
import GatedDeltaTypes

extension gd_ssm_conv_update_inplace: OpDescriptor {
  func validate(_ validator: inout Validator) throws(Failure) {
    let given = FusedConv(silu: silu, weight: weight, x: x, out: out)
    try given.validate(&validator) { (validator, sequences, channels, columns) throws(Failure) in
      let dims = Dims(sequences, channels, columns)
      let pair = try validator.statePair(
        (conv_states, "convStates"), (conv_state_dst, "convStateDst"), dims, "[B, C, K - 1]", .block, as: Shape(dims))
      return FusedStates(pair: pair, count: sequences)
    }
  }
}

extension gd_ssm_conv_update_inplace_ids: OpDescriptor {
  func validate(_ validator: inout Validator) throws(Failure) {
    let given = FusedConv(silu: silu, weight: weight, x: x, out: out)
    try given.validate(&validator) { (validator, sequences, channels, columns) throws(Failure) in
      let cells = try validator.dims(conv_cache, "convCache", "[cells, C, K - 1]", rank: 3)[0]
      let cache = try validator.output(
        conv_cache, "convCache", Dims(cells, channels, columns), "[cells, C, K - 1]", .f32, .block)
      let writeSlots = try Check.destinations(rs_head, count: sequences, slots: cells, of: "convCache")
      return FusedStates(
        state: cache, slots: cells, ids: try validator.ids(ids, count: sequences), writeSlots: writeSlots)
    }
  }
}

/// The common arguments of both forms of the fused convolution, unchecked.
private struct FusedConv {
  var silu: UInt32
  var weight, x, out: gd_tensor

  func validate(
    _ validator: inout Validator,
    _ takeStates: (inout Validator, _ sequences: UInt32, _ channels: UInt32, _ columns: UInt32) throws(Failure) ->
      FusedStates
  ) throws(Failure) {
    let options = CausalConv1d.Options(activation: try Check.boolean(silu, "silu") ? .silu : .none)
    let rows = try validator.dims(self.x, "x", "[B, C]", rank: 2)
    let (sequences, channels) = (rows[0], rows[1])
    try Check.sequences(UInt64(sequences), "x")
    let x = try validator.input(self.x, "x", rows, "[B, C]", .f32)
    let filter = try validator.convWeights(
      (weight, "weight"), (gd_tensor(), "bias"), channels: channels, .f32, layout: "[C, K]")
    let taken = try takeStates(&validator, sequences, channels, filter.width &- 1)
    let out = try validator.output(self.out, "out", rows, "[B, C]", .f32)
    try validator.checkOverlaps()

    let recipe = taken.recipe(sequences: sequences, tokens: 1)
    let batch = try validator.resolve(recipe)
    var states = StateTensors.none
    states.source = taken.source
    states.sourceSlots = taken.source == nil ? 0 : Int(sequences)
    let op = Op.causalConv1d(
      CausalConv1d(
        tokens: Int(sequences), channels: Int(channels), width: Int(filter.width), slots: Int(taken.slots),
        options: options, x: x, weight: filter.weight, bias: nil, state: taken.state, out: out,
        states: states),
      batch.sequences)
    try validator.finish(op, recipe, batch, isEmpty: sequences == 0 || channels == 0)
  }
}
