import CGatedDelta
import GatedDeltaTypes

extension gd_causal_conv1d: OpDescriptor {
  func validate(_ validator: inout Validator) throws(Failure) {
    let options = try CausalConv1d.Options(self)
    let rows = try validator.dims(self.x, "x", "[tokens, channels]", rank: 2)
    let (tokens, channels) = (rows[0], rows[1])
    let x = try validator.input(self.x, "x", rows, "[tokens, channels]", .floats)
    let filter = try validator.convWeights((self.weight, "weight"), (self.bias, "bias"), channels: channels)

    let ragged = RaggedArguments(cuSeqlens: cu_seqlens, readSlots: read_slots, writeSlots: write_slots)
    let sequences = try ragged.sequences()
    let stateShape = StateShape.convolution(channels, filter.width &- 1, x.dtype)
    let pool = try validator.optionalPool(state, "state", stateShape)
    let kept = stateArguments
    let (states, snapshotCount) = try validator.states(kept, sequences: sequences, pool: pool.view, stateShape)
    let out = try validator.output(self.out, "out", rows, "[tokens, channels]", .orF32(x.dtype))
    try validator.checkOverlaps()

    var recipe = try validator.ragged(
      ragged, tokens: tokens, sequences: sequences, slots: pool.slots, hasPool: pool.view != nil)
    recipe.sourceSlots = states.source.map { _ in states.sourceSlots }
    recipe.stores = try validator.stores(kept, sequences: sequences, snapshotCount: snapshotCount)
    let batch = try validator.resolve(recipe)
    let op = Op.causalConv1d(
      CausalConv1d(
        tokens: Int(tokens), channels: Int(channels), width: Int(filter.width), slots: Int(pool.slots),
        options: options, x: x, weight: filter.weight, bias: filter.bias, state: pool.view, out: out,
        states: states),
      batch.sequences)
    let isEmpty = sequences == 0 || channels == 0 || (tokens == 0 && pool.slots == 0)
    try validator.finish(op, recipe, batch, isEmpty: isEmpty)
  }

  private var stateArguments: StateArguments {
    StateArguments(
      source: source, snapshots: snapshots, snapshotSlots: snapshot_slots, checkpointOffsets: checkpoint_offsets,
      checkpointTokens: checkpoint_tokens, checkpointSlots: checkpoint_slots)
  }
}

/// A convolution's weights, validated.
struct ConvFilter {
  var width: UInt32
  var weight: TensorView
  var bias: TensorView?
}

extension Validator {
  /// - Parameter names: names of the dimensions of weight and bias, for messages.
  mutating func convWeights(
    _ weight: (tensor: gd_tensor, name: StaticString), _ bias: (tensor: gd_tensor, name: StaticString),
    channels: UInt32, _ dtypes: DTypes = .floats, layout: StaticString = "[channels, width]"
  ) throws(Failure) -> ConvFilter {
    let width = try dims(weight.tensor, weight.name, layout, rank: 2)[1]
    let view = try input(weight.tensor, weight.name, Dims(channels, width), layout, dtypes, .block)
    try Check.convWidth(width, of: weight.name)
    let added: TensorView? =
      bias.tensor.isAbsent ? nil : try input(bias.tensor, bias.name, Dims(channels), "[channels]", dtypes, .block)
    return ConvFilter(width: width, weight: view, bias: added)
  }
}
