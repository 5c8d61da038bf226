import CGatedDelta
import GatedDeltaTypes

extension gd_commit_gated_delta: OpDescriptor {
  static var opName: StaticString { "commitGatedDelta" }

  func validate(_ validator: inout Validator) throws(Failure) {
    try Check.reserved(reserved)
    try Check.headDim(key_dim, "keyDim", of: "records.key")
    try Check.headDim(value_dim, "valueDim", of: "records.delta")
    try Check.heads(key: key_heads, value: value_heads, of: "records.delta")
    try Check.tokens(tokens, of: "records.delta")
    try Check.sequences(sequences, "cuSeqlens")
    let gateDims: GateDims = try Check.option(gate_dims, "gateDims")
    let headMap: HeadMap = try Check.option(head_map, "heads")

    let records = try validator.records(
      record_key, record_delta, record_decay,
      RecordShapes(
        tokens: tokens, keyHeads: key_heads, valueHeads: value_heads, keyDim: key_dim, valueDim: value_dim,
        gateDims: gateDims),
      isOutput: false)
    let stateShape = StateShape(value_heads, UInt64(value_dim) &* UInt64(key_dim), .floats, .vectorBlock)
    let state = try validator.output(
      self.state, "state", stateShape.times(slots), stateShape.dtypes, stateShape.layout)
    try validator.checkOverlaps()

    var recipe = try validator.ragged(
      tokens: tokens, sequences: sequences, slots: slots, hasPool: true, cu_seqlens, read_slots, write_slots)
    recipe.counts = try validator.counts(counts, sequences: sequences)
    let batch = try validator.resolve(recipe)
    let op = Op.commitGatedDelta(
      CommitGatedDelta(
        tokens: Int(tokens), keyHeads: Int(key_heads), valueHeads: Int(value_heads), keyDim: Int(key_dim),
        valueDim: Int(value_dim), slots: Int(slots), gateDims: gateDims, headMap: headMap, records: records,
        state: state),
      batch.sequences)
    try validator.finish(op, recipe, batch, isEmpty: sequences == 0 || slots == 0)
  }
}

extension gd_commit_causal_conv1d: OpDescriptor {
  static var opName: StaticString { "commitCausalConv1d" }

  func validate(_ validator: inout Validator) throws(Failure) {
    try Check.reserved(reserved)
    // No tensor but the state says how wide the convolution was.
    try Check.convWidth(width, of: "state")
    try Check.tokens(tokens, of: "x")
    try Check.sequences(sequences, "cuSeqlens")

    let x = try validator.input(self.x, "x", Shape(tokens, 1, channels), .floats)
    let state = try validator.output(
      self.state, "state", Shape(slots, channels, width &- 1), .orF32(x.dtype), .block)
    try validator.checkOverlaps()

    var recipe = try validator.ragged(
      tokens: tokens, sequences: sequences, slots: slots, hasPool: true, cu_seqlens, read_slots, write_slots)
    recipe.counts = try validator.counts(counts, sequences: sequences)
    let batch = try validator.resolve(recipe)
    let op = Op.commitCausalConv1d(
      CommitCausalConv1d(
        tokens: Int(tokens), channels: Int(channels), width: Int(width), slots: Int(slots), x: x, state: state),
      batch.sequences)
    try validator.finish(op, recipe, batch, isEmpty: sequences == 0 || slots == 0 || channels == 0)
  }
}

extension Validator {
  fileprivate mutating func counts(_ given: gd_index, sequences: UInt32) throws(Failure) -> IndexSource {
    guard let counts = try index(given, "counts", count: Int(sequences)) else { throw Validator.missing("counts") }
    return counts
  }
}
