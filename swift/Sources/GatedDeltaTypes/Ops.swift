/// Validated ops. Shapes, layouts and formulas are those of `gated_delta.h`; names are the public ones. Index data,
/// which varies between replays of a plan, is kept separately in `Sequences`.

public final class GatedDelta: Sendable {
  public let tokens, keyHeads, valueHeads, keyDim, valueDim, slots: Int
  public let options: Options
  public let query, key, value, gate, beta: TensorView
  /// Present if and only if `options.gateForm.isRaw`.
  public let raw: RawGate?
  /// Absent if no slot is read or written.
  public let state: TensorView?
  public let out: TensorView
  public let states: StateTensors
  /// The records for a later commit; absent if there will be none.
  public let records: Records?

  public init(
    tokens: Int, keyHeads: Int, valueHeads: Int, keyDim: Int, valueDim: Int, slots: Int, options: Options,
    query: TensorView, key: TensorView, value: TensorView, gate: TensorView, beta: TensorView, raw: RawGate?,
    state: TensorView?, out: TensorView, states: StateTensors = .none, records: Records? = nil
  ) {
    self.tokens = tokens
    self.keyHeads = keyHeads
    self.valueHeads = valueHeads
    self.keyDim = keyDim
    self.valueDim = valueDim
    self.slots = slots
    self.options = options
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

  /// The dtype of the states, in the pool and elsewhere.
  public var stateDType: DType { states.dtype(or: state) }
}

/// The additional arguments of the raw gate forms.
public struct RawGate: Sendable {
  public var aLog, dtBias: TensorView
  public init(aLog: TensorView, dtBias: TensorView) {
    self.aLog = aLog
    self.dtBias = dtBias
  }
}

public final class CausalConv1d: Sendable {
  public let tokens, channels, width, slots: Int
  public let options: Options
  public let x, weight: TensorView
  public let bias, state: TensorView?
  public let out: TensorView
  public let states: StateTensors

  public init(
    tokens: Int, channels: Int, width: Int, slots: Int, options: Options, x: TensorView, weight: TensorView,
    bias: TensorView?, state: TensorView?, out: TensorView, states: StateTensors = .none
  ) {
    self.tokens = tokens
    self.channels = channels
    self.width = width
    self.slots = slots
    self.options = options
    self.x = x
    self.weight = weight
    self.bias = bias
    self.state = state
    self.out = out
    self.states = states
  }

  /// The dtype of the states, in the pool and elsewhere.
  public var stateDType: DType { states.dtype(or: state) }
}

public final class GatedRMSNorm: Sendable {
  public let tokens, heads, dim: Int
  public let options: Options
  public let x, z, weight, out: TensorView

  public init(
    tokens: Int, heads: Int, dim: Int, options: Options, x: TensorView, z: TensorView, weight: TensorView,
    out: TensorView
  ) {
    self.tokens = tokens
    self.heads = heads
    self.dim = dim
    self.options = options
    self.x = x
    self.z = z
    self.weight = weight
    self.out = out
  }
}

public final class GatedDeltaStep: Sendable {
  public let sequences, keyHeads, valueHeads, keyDim, valueDim, width, slots: Int
  public let options: Options
  public let x, convWeight: TensorView
  public let convBias: TensorView?
  /// Both absent if no slot is read or written.
  public let convState, state: TensorView?
  public let gate, beta: TensorView
  public let raw: RawGate?
  public let z, normWeight, out: TensorView

  public init(
    sequences: Int, keyHeads: Int, valueHeads: Int, keyDim: Int, valueDim: Int, width: Int, slots: Int,
    options: Options, x: TensorView, convWeight: TensorView, convBias: TensorView?, convState: TensorView?,
    state: TensorView?, gate: TensorView, beta: TensorView, raw: RawGate?, z: TensorView, normWeight: TensorView,
    out: TensorView
  ) {
    self.sequences = sequences
    self.keyHeads = keyHeads
    self.valueHeads = valueHeads
    self.keyDim = keyDim
    self.valueDim = valueDim
    self.width = width
    self.slots = slots
    self.options = options
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

public final class CopySlots: Sendable {
  public let slots, slotElements: Int
  public let pool: TensorView

  public init(slots: Int, slotElements: Int, pool: TensorView) {
    self.slots = slots
    self.slotElements = slotElements
    self.pool = pool
  }
}
