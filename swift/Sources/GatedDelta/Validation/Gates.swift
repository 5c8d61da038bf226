import CGatedDelta
import GatedDeltaTypes

/// The gate arguments that `gatedDelta` and `gatedDeltaStep` share, as they come.
struct GateArguments {
  var form, dims, betaForm: UInt32
  var bound: Float
  var gate, beta, aLog, dtBias: gd_tensor
}

/// The same, validated.
struct Gates {
  var form: GateForm
  var dims: GateDims
  var betaForm: BetaForm
  var bound: Float
  var gate, beta: TensorView
  var raw: RawGate?
}

extension Validator {
  /// `activation` is the dtype of the op's rows.
  mutating func gates(
    _ given: GateArguments, tokens: UInt32, valueHeads: UInt32, keyDim: UInt32, activation: DType
  ) throws(Failure) -> Gates {
    let form: GateForm = try Check.option(given.form, "gateForm")
    let dims: GateDims = try Check.option(given.dims, "gateDims")
    let betaForm: BetaForm = try Check.option(given.betaForm, "betaForm")
    try checkBound(given.bound, form)

    let perHead = Shape(tokens, valueHeads, 1)
    let gate = try input(
      given.gate, "gate", dims == .perHead ? perHead : Shape(tokens, valueHeads, keyDim),
      form.isRaw ? .orF32(activation) : .f32)
    let beta = try input(given.beta, "beta", perHead, .orF32(activation))
    var raw: RawGate?
    if form.isRaw {
      raw = RawGate(
        aLog: try input(given.aLog, "aLog", Shape(1, 1, valueHeads), .floats, .block),
        dtBias: try input(
          given.dtBias, "dtBias", dims == .perHead ? Shape(1, 1, valueHeads) : Shape(valueHeads, 1, keyDim), .floats,
          .block))
    } else {
      try requireAbsent(given.aLog, "aLog", because: "with gateForm \(form.publicName)")
      try requireAbsent(given.dtBias, "dtBias", because: "with gateForm \(form.publicName)")
    }
    return Gates(form: form, dims: dims, betaForm: betaForm, bound: given.bound, gate: gate, beta: beta, raw: raw)
  }

  private func checkBound(_ bound: Float, _ form: GateForm) throws(Failure) {
    if form == .rawBounded {
      // The bound is the lowest logarithm of the decay: at 0 or above, nothing would decay, or things would grow.
      guard bound.isFinite, bound < 0 else {
        throw Failure(
          .invalidArgument, argument: "gateBound", expected: "a finite number below 0", received: "\(bound)")
      }
    } else {
      guard bound == 0 else {
        throw Failure(
          .invalidArgument, argument: "gateBound", expected: "0 with gateForm \(form.publicName)", received: "\(bound)")
      }
    }
  }
}
