/// Validated ops. Shapes, layouts and formulas are those of `gated_delta.h`; names are the public ones. What varies
/// between replays of a plan (index data) is apart, in `Sequences`.

public struct GatedDelta: Sendable {
  public var tokens, keyHeads, valueHeads, keyDim, valueDim, slots: Int
  public var gateForm: GateForm
  public var gateDims: GateDims
  public var betaForm: BetaForm
  public var headMap: HeadMap
  public var qkNorm: QKNorm
  public var algorithm: Algorithm
  public var qkNormEps, scale, gateBound: Float
  public var query, key, value, gate, beta: TensorView
  /// Present exactly where `gateForm.isRaw`.
  public var raw: RawGate?
  /// Absent where no slot is read or written.
  public var state: TensorView?
  public var out: TensorView
  public var states: StateTensors
  /// What a commit takes; absent where none is to follow.
  public var records: Records?

  public init(
    tokens: Int, keyHeads: Int, valueHeads: Int, keyDim: Int, valueDim: Int, slots: Int, gateForm: GateForm,
    gateDims: GateDims, betaForm: BetaForm, headMap: HeadMap, qkNorm: QKNorm, algorithm: Algorithm, qkNormEps: Float,
    scale: Float, gateBound: Float, query: TensorView, key: TensorView, value: TensorView, gate: TensorView,
    beta: TensorView, raw: RawGate?, state: TensorView?, out: TensorView, states: StateTensors = .none,
    records: Records? = nil
  ) {
    self.tokens = tokens
    self.keyHeads = keyHeads
    self.valueHeads = valueHeads
    self.keyDim = keyDim
    self.valueDim = valueDim
    self.slots = slots
    self.gateForm = gateForm
    self.gateDims = gateDims
    self.betaForm = betaForm
    self.headMap = headMap
    self.qkNorm = qkNorm
    self.algorithm = algorithm
    self.qkNormEps = qkNormEps
    self.scale = scale
    self.gateBound = gateBound
    self.query = query
    self.key = key
    self.value = value
    self.gate = gate
    self.beta = beta
    self.raw = raw
    self.state = state
    self.out = out
    self.states = states
    self.records = records
  }

  /// Of states, wherever they lie.
  public var stateDType: DType { states.dtype(or: state) }
}

/// What the raw gate forms take beside the gate.
public struct RawGate: Sendable {
  public var aLog, dtBias: TensorView
  public init(aLog: TensorView, dtBias: TensorView) {
    self.aLog = aLog
    self.dtBias = dtBias
  }
}

public struct CausalConv1d: Sendable {
  public var tokens, channels, width, slots: Int
  public var activation: Activation
  public var x, weight: TensorView
  public var bias, state: TensorView?
  public var out: TensorView
  public var states: StateTensors

  public init(
    tokens: Int, channels: Int, width: Int, slots: Int, activation: Activation, x: TensorView, weight: TensorView,
    bias: TensorView?, state: TensorView?, out: TensorView, states: StateTensors = .none
  ) {
    self.tokens = tokens
    self.channels = channels
    self.width = width
    self.slots = slots
    self.activation = activation
    self.x = x
    self.weight = weight
    self.bias = bias
    self.state = state
    self.out = out
    self.states = states
  }

  /// Of states, wherever they lie.
  public var stateDType: DType { states.dtype(or: state) }
}

public struct GatedRMSNorm: Sendable {
  public var tokens, heads, dim: Int
  public var activation: Activation
  public var order: NormOrder
  public var eps: Float
  public var x, z, weight, out: TensorView

  public init(
    tokens: Int, heads: Int, dim: Int, activation: Activation, order: NormOrder, eps: Float, x: TensorView,
    z: TensorView, weight: TensorView, out: TensorView
  ) {
    self.tokens = tokens
    self.heads = heads
    self.dim = dim
    self.activation = activation
    self.order = order
    self.eps = eps
    self.x = x
    self.z = z
    self.weight = weight
    self.out = out
  }
}

public struct GatedDeltaStep: Sendable {
  public var sequences, keyHeads, valueHeads, keyDim, valueDim, width, slots: Int
  public var gateForm: GateForm
  public var gateDims: GateDims
  public var betaForm: BetaForm
  public var headMap: HeadMap
  public var qkNorm: QKNorm
  public var convActivation, normActivation: Activation
  public var normOrder: NormOrder
  public var qkNormEps, scale, gateBound, normEps: Float
  public var x, convWeight: TensorView
  public var convBias: TensorView?
  /// Absent, both, where no slot is read or written.
  public var convState, state: TensorView?
  public var gate, beta: TensorView
  public var raw: RawGate?
  public var z, normWeight, out: TensorView

  public init(
    sequences: Int, keyHeads: Int, valueHeads: Int, keyDim: Int, valueDim: Int, width: Int, slots: Int,
    gateForm: GateForm, gateDims: GateDims, betaForm: BetaForm, headMap: HeadMap, qkNorm: QKNorm,
    convActivation: Activation, normActivation: Activation, normOrder: NormOrder, qkNormEps: Float, scale: Float,
    gateBound: Float, normEps: Float, x: TensorView, convWeight: TensorView, convBias: TensorView?,
    convState: TensorView?, state: TensorView?, gate: TensorView, beta: TensorView, raw: RawGate?, z: TensorView,
    normWeight: TensorView, out: TensorView
  ) {
    self.sequences = sequences
    self.keyHeads = keyHeads
    self.valueHeads = valueHeads
    self.keyDim = keyDim
    self.valueDim = valueDim
    self.width = width
    self.slots = slots
    self.gateForm = gateForm
    self.gateDims = gateDims
    self.betaForm = betaForm
    self.headMap = headMap
    self.qkNorm = qkNorm
    self.convActivation = convActivation
    self.normActivation = normActivation
    self.normOrder = normOrder
    self.qkNormEps = qkNormEps
    self.scale = scale
    self.gateBound = gateBound
    self.normEps = normEps
    self.x = x
    self.convWeight = convWeight
    self.convBias = convBias
    self.convState = convState
    self.state = state
    self.gate = gate
    self.beta = beta
    self.raw = raw
    self.z = z
    self.normWeight = normWeight
    self.out = out
  }
}

public struct Linear: Sendable {
  public var rows, inFeatures, outFeatures: Int
  public var x, weight, out: TensorView

  public init(rows: Int, inFeatures: Int, outFeatures: Int, x: TensorView, weight: TensorView, out: TensorView) {
    self.rows = rows
    self.inFeatures = inFeatures
    self.outFeatures = outFeatures
    self.x = x
    self.weight = weight
    self.out = out
  }
}

public struct CopySlots: Sendable {
  public var slots, slotElements: Int
  public var pool: TensorView

  public init(slots: Int, slotElements: Int, pool: TensorView) {
    self.slots = slots
    self.slotElements = slotElements
    self.pool = pool
  }
}

public enum Op: Sendable {
  case gatedDelta(GatedDelta, Sequences)
  case causalConv1d(CausalConv1d, Sequences)
  case gatedRMSNorm(GatedRMSNorm)
  case gatedDeltaStep(GatedDeltaStep, Sequences)
  case linear(Linear)
  case copySlots(CopySlots, Sequences)
  case commitGatedDelta(CommitGatedDelta, Sequences)
  case commitCausalConv1d(CommitCausalConv1d, Sequences)
}
