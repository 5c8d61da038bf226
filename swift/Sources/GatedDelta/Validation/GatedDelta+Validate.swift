import CGatedDelta
import GatedDeltaTypes

extension gd_gated_delta: OpDescriptor {
  static var opName: StaticString { "gatedDelta" }

  func validate(_ validator: inout Validator) throws(Failure) {
    try Check.headDim(key_dim, "keyDim", of: "query")
    try Check.headDim(value_dim, "valueDim", of: "value")
    try Check.heads(key: key_heads, value: value_heads, of: "value")
    try Check.tokens(tokens, of: "query")
    try Check.sequences(sequences, "cuSeqlens")
    let headMap: HeadMap = try Check.option(head_map, "heads")
    let qkNorm: QKNorm = try Check.option(qk_norm, "qkNorm")
    let algorithm: Algorithm = try Check.option(self.algorithm, "algorithm")
    let qkNormEps = try Check.epsilon(qk_norm_eps, "qkNormEps")
    let scale = try Check.finite(self.scale, "scale")

    let keyShape = Shape(tokens, key_heads, key_dim)
    let valueShape = Shape(tokens, value_heads, value_dim)
    let query = try validator.input(self.query, "query", keyShape, .floats)
    let key = try validator.input(self.key, "key", keyShape, DTypes(query.dtype))
    let value = try validator.input(self.value, "value", valueShape, DTypes(query.dtype))
    let gates = try validator.gates(
      GateArguments(
        form: gate_form, dims: gate_dims, betaForm: beta_form, bound: gate_bound, gate: gate, beta: beta, aLog: a_log,
        dtBias: dt_bias),
      tokens: tokens, valueHeads: value_heads, keyDim: key_dim, activation: query.dtype)
    let stateShape = StateShape(value_heads, UInt64(value_dim) &* UInt64(key_dim), .floats, .vectorBlock)
    let state = try validator.pool(self.state, "state", slots: slots, stateShape)
    let states = try validator.states(stateArguments, sequences: sequences, pool: state, stateShape)
    let records = try records(&validator, gates.dims, algorithm)
    let out = try validator.output(self.out, "out", valueShape, .orF32(query.dtype))
    try validator.checkOverlaps()

    var recipe = try validator.ragged(
      tokens: tokens, sequences: sequences, slots: slots, hasPool: state != nil, cu_seqlens, read_slots, write_slots)
    recipe.sourceSlots = states.source.map { _ in states.sourceSlots }
    recipe.stores = try validator.stores(stateArguments, sequences: sequences)
    let batch = try validator.resolve(recipe)
    let op = Op.gatedDelta(
      GatedDelta(
        tokens: Int(tokens), keyHeads: Int(key_heads), valueHeads: Int(value_heads), keyDim: Int(key_dim),
        valueDim: Int(value_dim), slots: Int(slots), gateForm: gates.form, gateDims: gates.dims,
        betaForm: gates.betaForm, headMap: headMap, qkNorm: qkNorm, algorithm: algorithm, qkNormEps: qkNormEps,
        scale: scale, gateBound: gates.bound, query: query, key: key, value: value, gate: gates.gate, beta: gates.beta,
        raw: gates.raw, state: state, out: out, states: states, records: records),
      batch.sequences)
    let isEmpty = sequences == 0 || (tokens == 0 && slots == 0)
    try validator.finish(op, recipe, batch, isEmpty: isEmpty)
  }

  private var stateArguments: StateArguments {
    StateArguments(
      sourceSlots: source_slots, snapshotCount: snapshot_count, source: source, snapshots: snapshots,
      snapshotSlots: snapshot_slots, checkpointOffsets: checkpoint_offsets, checkpointTokens: checkpoint_tokens,
      checkpointSlots: checkpoint_slots)
  }

  private func records(_ validator: inout Validator, _ dims: GateDims, _ algorithm: Algorithm) throws(Failure)
    -> Records?
  {
    let tensors = [record_key, record_delta, record_decay]
    guard tensors.contains(where: { !validator.isAbsent($0) }) else { return nil }
    guard algorithm != .chunked else {
      throw Failure(
        .invalidArgument, argument: "algorithm", expected: "auto or recurrent with records", received: "chunked")
    }
    return try validator.records(
      record_key, record_delta, record_decay,
      RecordShapes(
        tokens: tokens, keyHeads: key_heads, valueHeads: value_heads, keyDim: key_dim, valueDim: value_dim,
        gateDims: dims),
      isOutput: true)
  }
}
