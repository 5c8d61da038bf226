import CGatedDelta
import GatedDeltaTypes

extension gd_gated_delta_step: OpDescriptor {
  static var opName: StaticString { "gatedDeltaStep" }

  func validate(_ validator: inout Validator) throws(Failure) {
    try Check.reserved(reserved)
    try Check.headDim(key_dim, "keyDim", of: "x")
    try Check.headDim(value_dim, "valueDim", of: "z")
    try Check.heads(key: key_heads, value: value_heads, of: "keyHeads")
    try Check.convWidth(width, of: "convWeight")
    try Check.sequences(sequences, "x")
    let headMap: HeadMap = try Check.option(head_map, "heads")
    let qkNorm: QKNorm = try Check.option(qk_norm, "qkNorm")
    let convActivation = try Check.activation(conv_activation, "convActivation", among: [.none, .silu])
    let normActivation = try Check.activation(norm_activation, "normActivation", among: [.silu, .sigmoid])
    let normOrder: NormOrder = try Check.option(norm_order, "normOrder")
    let qkNormEps = try Check.epsilon(qk_norm_eps, "qkNormEps")
    let scale = try Check.finite(self.scale, "scale")
    let normEps = try Check.epsilon(norm_eps, "normEps")

    // Dimensions are at most 2^32 and 2^8: this fits with room to spare.
    let channels = 2 &* UInt64(key_heads) &* UInt64(key_dim) &+ UInt64(value_heads) &* UInt64(value_dim)
    let valueShape = Shape(sequences, value_heads, value_dim)
    let x = try validator.input(self.x, "x", Shape(sequences, 1, channels), .floats)
    let convWeight = try validator.input(conv_weight, "convWeight", Shape(channels, 1, width), .floats, .block)
    let convBias = try validator.optionalInput(conv_bias, "convBias", Shape(1, 1, channels), .floats)
    let gates = try validator.gates(
      GateArguments(
        form: gate_form, dims: gate_dims, betaForm: beta_form, bound: gate_bound, gate: gate, beta: beta, aLog: a_log,
        dtBias: dt_bias),
      tokens: sequences, valueHeads: value_heads, keyDim: key_dim, activation: x.dtype)
    let z = try validator.input(self.z, "z", valueShape, DTypes(x.dtype))
    let normWeight = try validator.input(norm_weight, "normWeight", Shape(1, 1, value_dim), .floats, .block)
    let convState = try validator.pool(
      conv_state, "convState", slots: slots, StateShape(channels, width &- 1, .orF32(x.dtype), .block))
    let state = try validator.pool(
      self.state, "state", slots: slots,
      StateShape(value_heads, UInt64(value_dim) &* UInt64(key_dim), .floats, .vectorBlock))
    guard (convState == nil) == (state == nil) else {
      throw Failure(
        .invalidArgument, argument: state == nil ? "state" : "convState", expected: "both states or neither",
        received: "only \(state == nil ? "convState" : "state")")
    }
    let out = try validator.output(self.out, "out", valueShape, .orF32(x.dtype))
    try validator.checkOverlaps()

    let recipe = SequenceRecipe(
      count: Int(sequences), rows: .each(tokens: 1), slots: Int(slots), hasPool: state != nil,
      readSlots: try validator.index(read_slots, "readSlots", count: Int(sequences)),
      writeSlots: try validator.index(write_slots, "writeSlots", count: Int(sequences)))
    let batch = try validator.resolve(recipe)
    let op = Op.gatedDeltaStep(
      GatedDeltaStep(
        sequences: Int(sequences), keyHeads: Int(key_heads), valueHeads: Int(value_heads), keyDim: Int(key_dim),
        valueDim: Int(value_dim), width: Int(width), slots: Int(slots), gateForm: gates.form, gateDims: gates.dims,
        betaForm: gates.betaForm, headMap: headMap, qkNorm: qkNorm, convActivation: convActivation,
        normActivation: normActivation, normOrder: normOrder, qkNormEps: qkNormEps, scale: scale,
        gateBound: gates.bound, normEps: normEps, x: x, convWeight: convWeight, convBias: convBias, convState: convState,
        state: state, gate: gates.gate, beta: gates.beta, raw: gates.raw, z: z, normWeight: normWeight, out: out),
      batch.sequences)
    try validator.finish(op, recipe, batch, isEmpty: sequences == 0)
  }
}
