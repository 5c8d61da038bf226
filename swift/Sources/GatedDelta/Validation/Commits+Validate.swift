import CGatedDelta
import GatedDeltaTypes

extension gd_commit_gated_delta: OpDescriptor {
  func validate(_ validator: inout Validator) throws(Failure) {
    let options = try CommitGatedDelta.Options(self)
    let key = try validator.dims(record_key, "records.key", "[tokens, keyHeads, keyDim]", rank: 3)
    let delta = try validator.dims(record_delta, "records.delta", "[tokens, valueHeads, valueDim]", rank: 3)
    let (tokens, keyHeads, keyDim) = (key[0], key[1], key[2])
    let (valueHeads, valueDim) = (delta[1], delta[2])
    // Only the records show whether the gates were per key dimension.
    let gateDims: GateDims = try validator.dims(record_decay, "records.decay").rank == 3 ? .perKey : .perHead
    let records = try validator.records(
      RecordArguments(key: record_key, delta: record_delta, decay: record_decay),
      RecordSizes(
        tokens: tokens, keyHeads: keyHeads, valueHeads: valueHeads, keyDim: keyDim, valueDim: valueDim,
        gateDims: gateDims),
      isOutput: false)
    try Check.headDim(keyDim, "keyDim", of: "records.key")
    try Check.headDim(valueDim, "valueDim", of: "records.delta")
    try Check.heads(key: keyHeads, value: valueHeads, of: "records.delta")
    let pool = try validator.requiredPool(state, .recurrent(valueHeads, valueDim, keyDim))
    try validator.checkOverlaps()

    let ragged = RaggedArguments(cuSeqlens: cu_seqlens, readSlots: read_slots, writeSlots: write_slots)
    let recipe = try validator.committing(ragged, counts, tokens: tokens, slots: pool.slots)
    let batch = try validator.resolve(recipe)
    let op = Op.commitGatedDelta(
      CommitGatedDelta(
        tokens: Int(tokens), keyHeads: Int(keyHeads), valueHeads: Int(valueHeads), keyDim: Int(keyDim),
        valueDim: Int(valueDim), slots: Int(pool.slots), gateDims: gateDims, options: options, records: records,
        state: pool.view),
      batch.sequences)
    try validator.finish(op, recipe, batch, isEmpty: recipe.count == 0 || pool.slots == 0)
  }
}

extension gd_commit_causal_conv1d: OpDescriptor {
  func validate(_ validator: inout Validator) throws(Failure) {
    let rows = try validator.dims(self.x, "x", "[tokens, channels]", rank: 2)
    let (tokens, channels) = (rows[0], rows[1])
    let x = try validator.input(self.x, "x", rows, "[tokens, channels]", .floats)
    // Only the state shows the width of the convolution.
    let columns = try validator.dims(state, "state", "[slots, channels, width - 1]", rank: 3)[2]
    let pool = try validator.requiredPool(state, .convolution(channels, columns, x.dtype))
    try Check.convWidth(columns &+ 1, of: "state")
    try validator.checkOverlaps()

    let ragged = RaggedArguments(cuSeqlens: cu_seqlens, readSlots: read_slots, writeSlots: write_slots)
    let recipe = try validator.committing(ragged, counts, tokens: tokens, slots: pool.slots)
    let batch = try validator.resolve(recipe)
    let op = Op.commitCausalConv1d(
      CommitCausalConv1d(
        tokens: Int(tokens), channels: Int(channels), width: Int(columns) &+ 1, slots: Int(pool.slots), x: x,
        state: pool.view),
      batch.sequences)
    try validator.finish(op, recipe, batch, isEmpty: recipe.count == 0 || pool.slots == 0 || channels == 0)
  }
}

extension Validator {
  fileprivate mutating func requiredPool(
    _ tensor: gd_tensor, _ state: StateShape
  ) throws(Failure) -> (view: TensorView, slots: UInt32) {
    let pool = try pool(tensor, "state", state)
    guard let view = pool.view else {
      throw Failure(.invalidArgument, argument: "state", expected: "a tensor", received: "none")
    }
    return (view, pool.slots)
  }

  fileprivate mutating func committing(
    _ given: RaggedArguments, _ counts: gd_index, tokens: UInt32, slots: UInt32
  ) throws(Failure) -> SequenceRecipe {
    let sequences = try given.sequences()
    var recipe = try ragged(given, tokens: tokens, sequences: sequences, slots: slots, hasPool: true)
    recipe.counts = try requiredIndex(counts, "counts", count: sequences, "counts, one a sequence")
    return recipe
  }
}
