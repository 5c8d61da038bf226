/// Sources and destinations of states other than an op's pool, all in the pool's dtype.
public struct StateTensors: Sendable {
  /// Read slots index it instead of the pool; it overlaps no output.
  public var source: TensorView?
  public var sourceSlots: Int
  /// Entries that `StateStores` names, each of a slot's shape.
  public var snapshots: TensorView?
  public var snapshotEntries: Int

  public static let none = StateTensors(source: nil, sourceSlots: 0, snapshots: nil, snapshotEntries: 0)

  public init(source: TensorView?, sourceSlots: Int, snapshots: TensorView?, snapshotEntries: Int) {
    self.source = source
    self.sourceSlots = sourceSlots
    self.snapshots = snapshots
    self.snapshotEntries = snapshotEntries
  }

  /// The dtype of an op's states; arbitrary if there are none.
  func dtype(or pool: TensorView?) -> DType { (pool ?? source ?? snapshots)?.dtype ?? .f32 }
}

/// The records that a gated delta op keeps of every token for a later commit: float32, contiguous.
public struct Records: Sendable {
  /// The normalised keys [tokens, keyHeads, keyDim].
  public var key: TensorView
  /// d = beta (v - S k), [tokens, valueHeads, valueDim].
  public var delta: TensorView
  /// a, [tokens, valueHeads] or, per key dimension, [tokens, valueHeads, keyDim].
  public var decay: TensorView

  public init(key: TensorView, delta: TensorView, decay: TensorView) {
    self.key = key
    self.delta = delta
    self.decay = decay
  }
}

/// Applies each sequence's first `Sequences.counts` records to its state.
public final class CommitGatedDelta: Sendable {
  public let tokens, keyHeads, valueHeads, keyDim, valueDim, slots: Int
  public let gateDims: GateDims
  public let options: Options
  public let records: Records
  public let state: TensorView

  public init(
    tokens: Int, keyHeads: Int, valueHeads: Int, keyDim: Int, valueDim: Int, slots: Int, gateDims: GateDims,
    options: Options, records: Records, state: TensorView
  ) {
    self.tokens = tokens
    self.keyHeads = keyHeads
    self.valueHeads = valueHeads
    self.keyDim = keyDim
    self.valueDim = valueDim
    self.slots = slots
    self.gateDims = gateDims
    self.options = options
    self.records = records
    self.state = state
  }
}

/// Moves each sequence's convolution state on by its first `Sequences.counts` rows of `x`.
public final class CommitCausalConv1d: Sendable {
  public let tokens, channels, width, slots: Int
  public let x, state: TensorView

  public init(tokens: Int, channels: Int, width: Int, slots: Int, x: TensorView, state: TensorView) {
    self.tokens = tokens
    self.channels = channels
    self.width = width
    self.slots = slots
    self.x = x
    self.state = state
  }
}
