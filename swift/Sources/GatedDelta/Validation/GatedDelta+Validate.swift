import CGatedDelta
import GatedDeltaTypes

extension gd_gated_delta: OpDescriptor {
  func validate(_ validator: inout Validator) throws(Failure) {
    var options = try GatedDelta.Options(self)
    options.gateBound = try Check.gateBound(gate_bound, options.gateForm)

    let keyDims = try validator.dims(query, "query", "[tokens, keyHeads, keyDim]", rank: 3)
    let (tokens, keyHeads, keyDim) = (keyDims[0], keyDims[1], keyDims[2])
    let given = try validator.dims(value, "value", "[tokens, valueHeads, valueDim]", rank: 3)
    let (valueHeads, valueDim) = (given[1], given[2])
    let valueDims = Dims(tokens, valueHeads, valueDim)
    let query = try validator.input(self.query, "query", keyDims, "[tokens, keyHeads, keyDim]", .floats)
    let key = try validator.input(self.key, "key", keyDims, "[tokens, keyHeads, keyDim]", DTypes(query.dtype))
    let value = try validator.input(
      self.value, "value", valueDims, "[tokens, valueHeads, valueDim]", DTypes(query.dtype))
    try Check.headDim(keyDim, "keyDim", of: "query")
    try Check.headDim(valueDim, "valueDim", of: "value")
    try Check.heads(key: keyHeads, value: valueHeads, of: "value")
    options.scale = try Check.scale(scale, keyDim: keyDim)
    let gates = try validator.gates(
      GateArguments(
        form: options.gateForm, dims: options.gateDims, gate: gate, beta: beta, aLog: a_log, dtBias: dt_bias),
      rows: tokens, valueHeads: valueHeads, keyDim: keyDim, activation: query.dtype)

    let ragged = RaggedArguments(cuSeqlens: cu_seqlens, readSlots: read_slots, writeSlots: write_slots)
    let sequences = try ragged.sequences()
    let stateShape = StateShape.recurrent(valueHeads, valueDim, keyDim)
    let pool = try validator.optionalPool(state, "state", stateShape)
    let kept = stateArguments
    let (states, snapshotCount) = try validator.states(kept, sequences: sequences, pool: pool.view, stateShape)
    let records = try records(
      &validator, options.algorithm,
      RecordSizes(
        tokens: tokens, keyHeads: keyHeads, valueHeads: valueHeads, keyDim: keyDim, valueDim: valueDim,
        gateDims: options.gateDims))
    let out = try validator.output(
      self.out, "out", valueDims, "[tokens, valueHeads, valueDim]", .orF32(query.dtype))
    try validator.checkOverlaps()

    var recipe = try validator.ragged(
      ragged, tokens: tokens, sequences: sequences, slots: pool.slots, hasPool: pool.view != nil)
    recipe.sourceSlots = states.source.map { _ in states.sourceSlots }
    recipe.stores = try validator.stores(kept, sequences: sequences, snapshotCount: snapshotCount)
    let batch = try validator.resolve(recipe)
    let op = Op.gatedDelta(
      GatedDelta(
        tokens: Int(tokens), keyHeads: Int(keyHeads), valueHeads: Int(valueHeads), keyDim: Int(keyDim),
        valueDim: Int(valueDim), slots: Int(pool.slots), options: options, query: query, key: key, value: value,
        gate: gates.gate, beta: gates.beta, raw: gates.raw, state: pool.view, out: out, states: states,
        records: records),
      batch.sequences)
    let isEmpty = sequences == 0 || (tokens == 0 && pool.slots == 0)
    try validator.finish(op, recipe, batch, isEmpty: isEmpty)
  }

  private var stateArguments: StateArguments {
    StateArguments(
      source: source, snapshots: snapshots, snapshotSlots: snapshot_slots, checkpointOffsets: checkpoint_offsets,
      checkpointTokens: checkpoint_tokens, checkpointSlots: checkpoint_slots)
  }

  private func records(
    _ validator: inout Validator, _ algorithm: Algorithm, _ sizes: RecordSizes
  ) throws(Failure) -> Records? {
    let given = RecordArguments(key: record_key, delta: record_delta, decay: record_decay)
    guard !given.areAbsent else { return nil }
    guard algorithm != .chunked else {
      throw Failure(
        .invalidArgument, argument: "algorithm", expected: "auto or recurrent with records", received: "chunked")
    }
    return try validator.records(given, sizes, isOutput: true)
  }
}
