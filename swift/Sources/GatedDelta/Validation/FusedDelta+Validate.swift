import CGatedDelta
import GatedDeltaTypes

extension gd_gated_delta_net_inplace: OpDescriptor {
  func validate(_ validator: inout Validator) throws(Failure) {
    let given = FusedDelta(q: q, k: k, v: v, gate: gate, beta: beta, snapshots: snapshots, out: out)
    try given.validate(&validator) { (validator, sizes) throws(Failure) in
      let pair = try validator.statePair(
        (state, "state"), (state_dst, "stateDst"), sizes.states(sizes.sequences), "[B, Hv, S, S]", .vectorBlock,
        as: sizes.stateShape(sizes.sequences))
      return FusedStates(pair: pair, count: sizes.sequences)
    }
  }
}

extension gd_gated_delta_net_inplace_ids: OpDescriptor {
  func validate(_ validator: inout Validator) throws(Failure) {
    let given = FusedDelta(q: q, k: k, v: v, gate: gate, beta: beta, snapshots: snapshots, out: out)
    try given.validate(&validator) { (validator, sizes) throws(Failure) in
      let slots = try validator.dims(self.cache, "cache", "[slots, Hv, S, S]", rank: 4)[0]
      let cache = try validator.output(
        self.cache, "cache", sizes.states(slots), "[slots, Hv, S, S]", .f32, .vectorBlock, as: sizes.stateShape(slots))
      let writeSlots = try Check.destinations(rs_head, count: sizes.sequences, slots: slots, of: "cache")
      return FusedStates(
        state: cache, slots: slots, ids: try validator.ids(ids, count: sizes.sequences), writeSlots: writeSlots)
    }
  }
}

/// The sizes that the shapes of a fused delta op give.
private struct FusedSizes {
  var sequences, tokens, keyHeads, valueHeads, dim: UInt32
  var gateDims: GateDims

  func states(_ count: UInt32) -> Dims { Dims(count, valueHeads, dim, dim) }
  func stateShape(_ count: some BinaryInteger) -> Shape { Shape(count, valueHeads, UInt64(dim) &* UInt64(dim)) }
  func rows(heads: UInt32, _ row: UInt32) -> Shape { Shape(merging: Dims(sequences, tokens), heads: heads, row: row) }
}

/// The common arguments of both forms of the fused delta op, unchecked.
private struct FusedDelta {
  var q, k, v, gate, beta, snapshots, out: gd_tensor

  func validate(
    _ validator: inout Validator,
    _ takeStates: (inout Validator, FusedSizes) throws(Failure) -> FusedStates
  ) throws(Failure) {
    let sizes = try sizes(validator)
    let (heads, dim) = (sizes.valueHeads, sizes.dim)
    let keyDims = Dims(sizes.sequences, sizes.tokens, sizes.keyHeads, dim)
    let valueDims = Dims(sizes.sequences, sizes.tokens, heads, dim)
    let keyShape = sizes.rows(heads: sizes.keyHeads, dim)
    let valueShape = sizes.rows(heads: heads, dim)
    let scalars = Dims(sizes.sequences, sizes.tokens, heads)
    let query = try validator.input(q, "q", keyDims, "[B, T, Hk, S]", .f32, as: keyShape)
    let key = try validator.input(k, "k", keyDims, "[B, T, Hk, S]", .f32, as: keyShape)
    let value = try validator.input(v, "v", valueDims, "[B, T, Hv, S]", .f32, as: valueShape)
    try Check.headDim(dim, "S", of: "q")
    try Check.heads(key: sizes.keyHeads, value: heads, of: "v")
    let gate =
      sizes.gateDims == .perKey
      ? try validator.input(self.gate, "gate", valueDims, "[B, T, Hv, S]", .f32, as: valueShape)
      : try validator.input(self.gate, "gate", scalars, "[B, T, Hv]", .f32, as: sizes.rows(heads: heads, 1))
    let beta = try validator.input(
      self.beta, "beta", scalars, "[B, T, Hv]", .f32, as: sizes.rows(heads: heads, 1))
    let taken = try takeStates(&validator, sizes)
    var (states, snapshotCount) = try snapshots(&validator, sizes)
    states.source = taken.source
    states.sourceSlots = taken.source == nil ? 0 : Int(sizes.sequences)
    let out = try validator.output(self.out, "out", valueDims, "[B, T, Hv, S]", .f32, as: valueShape)
    try validator.checkOverlaps()

    var recipe = taken.recipe(sequences: sizes.sequences, tokens: sizes.tokens)
    if snapshotCount > 0 {
      recipe.stores = StoreRecipe(
        snapshotCount: snapshotCount, hasSnapshotTensor: true, snapshotSlots: nil, checkpoints: nil)
    }
    let batch = try validator.resolve(recipe)
    let options = GatedDelta.Options(
      gateForm: .log, gateDims: sizes.gateDims, headMap: .tiled, scale: try Check.scale(.nan, keyDim: dim),
      gateBound: 0)
    let op = Op.gatedDelta(
      GatedDelta(
        tokens: Int(valueShape.tokens), keyHeads: Int(sizes.keyHeads), valueHeads: Int(heads), keyDim: Int(dim),
        valueDim: Int(dim), slots: Int(taken.slots), options: options, query: query, key: key, value: value, gate: gate,
        beta: beta, raw: nil, state: taken.state, out: out, states: states),
      batch.sequences)
    try validator.finish(op, recipe, batch, isEmpty: sizes.sequences == 0)
  }

  private func sizes(_ validator: Validator) throws(Failure) -> FusedSizes {
    let given = try validator.dims(q, "q", "[B, T, Hk, S]", rank: 4)
    let valueHeads = try validator.dims(v, "v", "[B, T, Hv, S]", rank: 4)[2]
    try Check.sequences(UInt64(given[0]), "q")
    // Both factors are below 2^31.
    let rows = UInt64(given[0]) &* UInt64(given[1])
    guard rows <= UInt64(Int32.max) else {
      throw Failure(.shape, argument: "q", expected: "at most \(Int32.max) tokens", received: "\(rows)")
    }
    let isPerKey = try validator.dims(gate, "gate").rank == 4
    return FusedSizes(
      sequences: given[0], tokens: given[1], keyHeads: given[2], valueHeads: valueHeads, dim: given[3],
      gateDims: isPerKey ? .perKey : .perHead)
  }

  private func snapshots(
    _ validator: inout Validator, _ sizes: FusedSizes
  ) throws(Failure) -> (tensors: StateTensors, count: Int) {
    var states = StateTensors.none
    guard !snapshots.isAbsent else { return (states, 0) }
    let layout: StaticString = "[K, B, Hv, S, S]"
    let count = try validator.dims(snapshots, "snapshots", layout, rank: 5)[0]
    let entries = UInt64(count) &* UInt64(sizes.sequences)
    guard entries <= UInt64(SequenceRecipe.limit), count <= UInt32(SequenceRecipe.limit) else {
      throw Failure(
        .range, argument: "snapshots", expected: "at most \(SequenceRecipe.limit) in all",
        received: "\(count) of each of \(sizes.sequences) sequences")
    }
    states.snapshots = try validator.output(
      snapshots, "snapshots", Dims(count, sizes.sequences, sizes.valueHeads, sizes.dim, sizes.dim), layout, .f32,
      .vectorBlock, as: sizes.stateShape(entries))
    states.snapshotEntries = Int(entries)
    return (states, Int(count))
  }
}
