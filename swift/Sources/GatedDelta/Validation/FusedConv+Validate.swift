import CGatedDelta
import GatedDeltaTypes

extension gd_ssm_conv_update_inplace: OpDescriptor {
  static var opName: StaticString { "ssmConvUpdateInplace" }

  func validate(_ validator: inout Validator) throws(Failure) {
    let given = FusedConv(
      sequences: sequences, channels: channels, width: width, silu: silu, weight: weight, x: x, out: out)
    try given.validate(&validator) { (validator, shape) throws(Failure) in
      let pair = try validator.statePair(
        (conv_states, "convStates"), (conv_state_dst, "convStateDst"), shape.times(sequences), shape.layout)
      return FusedStates(pair: pair, count: sequences)
    }
  }
}

extension gd_ssm_conv_update_inplace_ids: OpDescriptor {
  static var opName: StaticString { "ssmConvUpdateInplaceIds" }

  func validate(_ validator: inout Validator) throws(Failure) {
    let given = FusedConv(
      sequences: sequences, channels: channels, width: width, silu: silu, weight: weight, x: x, out: out)
    try given.validate(&validator) { (validator, shape) throws(Failure) in
      let cache = try validator.output(conv_cache, "convCache", shape.times(cells), .f32, shape.layout)
      return FusedStates(
        state: cache, slots: cells, ids: try validator.ids(ids, count: sequences),
        writeSlots: try Check.destinations(rs_head, count: sequences, slots: cells, of: "convCache"))
    }
  }
}

/// What both forms of the fused convolution take, as it comes.
private struct FusedConv {
  var sequences, channels, width, silu: UInt32
  var weight, x, out: gd_tensor

  func validate(
    _ validator: inout Validator,
    _ takeStates: (inout Validator, StateShape) throws(Failure) -> FusedStates
  ) throws(Failure) {
    try Check.convWidth(width, of: "weight")
    try Check.sequences(sequences, "x")
    guard silu <= 1 else {
      throw Failure(.invalidArgument, argument: "silu", expected: "0 or 1", received: "\(silu)")
    }
    let rows = Shape(sequences, 1, channels)
    let weight = try validator.input(self.weight, "weight", Shape(channels, 1, width), .f32, .block)
    let x = try validator.input(self.x, "x", rows, .f32)
    let taken = try takeStates(&validator, StateShape(channels, width &- 1, .f32, .block))
    let out = try validator.output(self.out, "out", rows, .f32)
    try validator.checkOverlaps()

    let recipe = taken.recipe(sequences: sequences, tokens: 1)
    let batch = try validator.resolve(recipe)
    var states = StateTensors.none
    states.source = taken.source
    states.sourceSlots = taken.source == nil ? 0 : Int(sequences)
    let op = Op.causalConv1d(
      CausalConv1d(
        tokens: Int(sequences), channels: Int(channels), width: Int(width), slots: Int(taken.slots),
        activation: silu == 1 ? .silu : .none, x: x, weight: weight, bias: nil, state: taken.state, out: out,
        states: states),
      batch.sequences)
    try validator.finish(op, recipe, batch, isEmpty: sequences == 0 || channels == 0)
  }
}
