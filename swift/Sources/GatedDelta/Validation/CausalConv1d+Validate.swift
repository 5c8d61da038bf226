import CGatedDelta
import GatedDeltaTypes

extension gd_causal_conv1d: OpDescriptor {
  static var opName: StaticString { "causalConv1d" }

  func validate(_ validator: inout Validator) throws(Failure) {
    try Check.convWidth(width, of: "weight")
    try Check.tokens(tokens, of: "x")
    try Check.sequences(sequences, "cuSeqlens")
    let activation = try Check.activation(self.activation, "activation", among: [.none, .silu])

    let rows = Shape(tokens, 1, channels)
    let x = try validator.input(self.x, "x", rows, .floats)
    let weight = try validator.input(self.weight, "weight", Shape(channels, 1, width), .floats, .block)
    let bias = try validator.optionalInput(self.bias, "bias", Shape(1, 1, channels), .floats)
    let stateShape = StateShape(channels, width &- 1, .orF32(x.dtype), .block)
    let state = try validator.pool(self.state, "state", slots: slots, stateShape)
    let states = try validator.states(stateArguments, sequences: sequences, pool: state, stateShape)
    let out = try validator.output(self.out, "out", rows, .orF32(x.dtype))
    try validator.checkOverlaps()

    var recipe = try validator.ragged(
      tokens: tokens, sequences: sequences, slots: slots, hasPool: state != nil, cu_seqlens, read_slots, write_slots)
    recipe.sourceSlots = states.source.map { _ in states.sourceSlots }
    recipe.stores = try validator.stores(stateArguments, sequences: sequences)
    let batch = try validator.resolve(recipe)
    let op = Op.causalConv1d(
      CausalConv1d(
        tokens: Int(tokens), channels: Int(channels), width: Int(width), slots: Int(slots), activation: activation, x: x,
        weight: weight, bias: bias, state: state, out: out, states: states),
      batch.sequences)
    let isEmpty = sequences == 0 || channels == 0 || (tokens == 0 && slots == 0)
    try validator.finish(op, recipe, batch, isEmpty: isEmpty)
  }

  private var stateArguments: StateArguments {
    StateArguments(
      sourceSlots: source_slots, snapshotCount: snapshot_count, source: source, snapshots: snapshots,
      snapshotSlots: snapshot_slots, checkpointOffsets: checkpoint_offsets, checkpointTokens: checkpoint_tokens,
      checkpointSlots: checkpoint_slots)
  }
}
