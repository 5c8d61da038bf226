import CGatedDelta
import GatedDeltaTypes

extension gd_gated_delta_net_inplace: OpDescriptor {
  static var opName: StaticString { "gatedDeltaNetInplace" }

  func validate(_ validator: inout Validator) throws(Failure) {
    try Check.reserved(reserved)
    let given = FusedDelta(
      sequences: sequences, tokens: tokens, keyHeads: key_heads, valueHeads: value_heads, dim: dim,
      gateDims: gate_dims, snapshotCount: snapshot_count, query: query, key: key, value: value, gate: gate, beta: beta,
      snapshots: snapshots, out: out)
    try given.validate(&validator) { (validator, shape) throws(Failure) in
      let pair = try validator.statePair(
        (state, "state"), (state_dst, "stateDst"), shape.times(sequences), shape.layout)
      return FusedStates(pair: pair, count: sequences)
    }
  }
}

extension gd_gated_delta_net_inplace_ids: OpDescriptor {
  static var opName: StaticString { "gatedDeltaNetInplaceIds" }

  func validate(_ validator: inout Validator) throws(Failure) {
    try Check.reserved(reserved)
    let given = FusedDelta(
      sequences: sequences, tokens: tokens, keyHeads: key_heads, valueHeads: value_heads, dim: dim,
      gateDims: gate_dims, snapshotCount: snapshot_count, query: query, key: key, value: value, gate: gate, beta: beta,
      snapshots: snapshots, out: out)
    try given.validate(&validator) { (validator, shape) throws(Failure) in
      let cache = try validator.output(cache, "cache", shape.times(slots), .f32, shape.layout)
      return FusedStates(
        state: cache, slots: slots, ids: try validator.ids(ids, count: sequences),
        writeSlots: try Check.destinations(rs_head, count: sequences, slots: slots, of: "cache"))
    }
  }
}

/// What both forms of the fused delta op take, as it comes.
private struct FusedDelta {
  var sequences, tokens, keyHeads, valueHeads, dim, gateDims, snapshotCount: UInt32
  var query, key, value, gate, beta, snapshots, out: gd_tensor

  func validate(
    _ validator: inout Validator,
    _ takeStates: (inout Validator, StateShape) throws(Failure) -> FusedStates
  ) throws(Failure) {
    try Check.headDim(dim, "dimension", of: "q")
    try Check.heads(key: keyHeads, value: valueHeads, of: "v")
    try Check.sequences(sequences, "q")
    // Both factors are below 2^32, and this many rows fit 32 bits.
    let rows = UInt64(sequences) &* UInt64(tokens)
    guard rows <= UInt64(Int32.max) else {
      throw Failure(.shape, argument: "q", expected: "at most \(Int32.max) tokens", received: "\(rows)")
    }
    let dims: GateDims = try Check.option(gateDims, "gateDims")

    let keyShape = Shape(rows, keyHeads, dim)
    let valueShape = Shape(rows, valueHeads, dim)
    let query = try validator.input(self.query, "q", keyShape, .f32)
    let key = try validator.input(self.key, "k", keyShape, .f32)
    let value = try validator.input(self.value, "v", valueShape, .f32)
    let gate = try validator.input(
      self.gate, "gate", dims == .perHead ? Shape(rows, valueHeads, 1) : valueShape, .f32)
    let beta = try validator.input(self.beta, "beta", Shape(rows, valueHeads, 1), .f32)
    let stateShape = StateShape(valueHeads, UInt64(dim) &* UInt64(dim), .f32, .vectorBlock)
    let taken = try takeStates(&validator, stateShape)
    var states = try validator.states(snapshotArguments, sequences: sequences, pool: taken.state, stateShape)
    states.source = taken.source
    states.sourceSlots = taken.source == nil ? 0 : Int(sequences)
    let out = try validator.output(self.out, "out", valueShape, .f32)
    try validator.checkOverlaps()

    var recipe = taken.recipe(sequences: sequences, tokens: tokens)
    recipe.stores = try validator.stores(snapshotArguments, sequences: sequences)
    let batch = try validator.resolve(recipe)
    // Rounded once, as the general op's default is: two float32 roundings differ from it at some dims, 96 among them.
    let scale = Float(1 / Double(dim).squareRoot())
    let op = Op.gatedDelta(
      GatedDelta(
        tokens: Int(rows), keyHeads: Int(keyHeads), valueHeads: Int(valueHeads), keyDim: Int(dim), valueDim: Int(dim),
        slots: Int(taken.slots), gateForm: .log, gateDims: dims, betaForm: .given, headMap: .tiled, qkNorm: .none,
        algorithm: .auto, qkNormEps: 0, scale: scale, gateBound: 0, query: query, key: key,
        value: value, gate: gate, beta: beta, raw: nil, state: taken.state, out: out, states: states),
      batch.sequences)
    try validator.finish(op, recipe, batch, isEmpty: sequences == 0)
  }

  private var snapshotArguments: StateArguments {
    StateArguments(
      sourceSlots: 0, snapshotCount: snapshotCount, source: gd_tensor(), snapshots: snapshots,
      snapshotSlots: gd_index(), checkpointOffsets: gd_index(), checkpointTokens: gd_index(),
      checkpointSlots: gd_index())
  }
}
