import CGatedDelta
import GatedDeltaTypes

/// The gate arguments that `gatedDelta` and `gatedDeltaStep` share: tensors unchecked.
struct GateArguments {
  var form: GateForm
  var dims: GateDims
  var gate, beta, aLog, dtBias: gd_tensor
}

/// The tensors, validated.
struct Gates {
  var gate, beta: TensorView
  var raw: RawGate?
}

extension Validator {
  /// - Parameters:
  ///   - rows: rows of the gate; `sequences` is their name in messages where each sequence has one token.
  ///   - activation: the dtype of the op's rows.
  mutating func gates(
    _ given: GateArguments, rows: UInt32, areSequences: Bool = false, valueHeads: UInt32, keyDim: UInt32,
    activation: DType
  ) throws(Failure) -> Gates {
    let (form, dims) = (given.form, given.dims)
    let perHead = Dims(rows, valueHeads)
    let headLayout: StaticString = areSequences ? "[sequences, valueHeads]" : "[tokens, valueHeads]"
    let keyLayout: StaticString = areSequences ? "[sequences, valueHeads, keyDim]" : "[tokens, valueHeads, keyDim]"
    let scalars = Shape(rows, valueHeads, 1)
    let gateDTypes = form.isRaw ? DTypes.orF32(activation) : .f32
    let gate =
      dims == .perHead
      ? try input(given.gate, "gate", perHead, headLayout, gateDTypes, as: scalars)
      : try input(given.gate, "gate", Dims(rows, valueHeads, keyDim), keyLayout, gateDTypes)
    let beta = try input(given.beta, "beta", perHead, headLayout, .orF32(activation), as: scalars)
    return Gates(gate: gate, beta: beta, raw: try raw(given, form, dims, valueHeads: valueHeads, keyDim: keyDim))
  }

  private mutating func raw(
    _ given: GateArguments, _ form: GateForm, _ dims: GateDims, valueHeads: UInt32, keyDim: UInt32
  ) throws(Failure) -> RawGate? {
    guard form.isRaw else {
      try Self.requireAbsent(given.aLog, "aLog", form)
      try Self.requireAbsent(given.dtBias, "dtBias", form)
      return nil
    }
    guard !given.aLog.isAbsent else { throw Self.needed("aLog", form) }
    guard !given.dtBias.isAbsent else { throw Self.needed("dtBias", form) }
    let aLog = try input(given.aLog, "aLog", Dims(valueHeads), "[valueHeads]", .floats, .block)
    let dtBias =
      dims == .perHead
      ? try input(given.dtBias, "dtBias", Dims(valueHeads), "[valueHeads]", .floats, .block)
      : try input(given.dtBias, "dtBias", Dims(valueHeads, keyDim), "[valueHeads, keyDim]", .floats, .block)
    return RawGate(aLog: aLog, dtBias: dtBias)
  }

  private static func requireAbsent(
    _ tensor: gd_tensor, _ name: StaticString, _ form: GateForm
  ) throws(Failure) {
    guard tensor.isAbsent else {
      throw Failure(
        .invalidArgument, argument: "\(name)", expected: "none with gateForm \(form.publicName)", received: "a tensor")
    }
  }

  private static func needed(_ name: StaticString, _ form: GateForm) -> Failure {
    Failure(
      .invalidArgument, argument: "\(name)", expected: "a tensor, which gateForm \(form.publicName) needs",
      received: "none")
  }
}

extension Check {
  /// The bound is the lowest logarithm of the decay: at 0 or above, nothing would decay, or states would grow. Returns 0
  /// if the form has no bound.
  static func gateBound(_ bound: Float, _ form: GateForm) throws(Failure) -> Float {
    if form == .rawBounded {
      guard bound.isFinite, bound < 0 else {
        throw Failure(
          .invalidArgument, argument: "gateBound", expected: "a finite number below 0 with gateForm raw-bounded",
          received: bound.isNaN ? "none" : "\(bound)")
      }
      return bound
    }
    guard bound.isNaN else {
      throw Failure(
        .invalidArgument, argument: "gateBound", expected: "none with gateForm \(form.publicName)",
        received: "\(bound)")
    }
    return 0
  }
}
