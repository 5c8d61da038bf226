import CGatedDelta
import GatedDeltaTypes

/// The state arguments of `gatedDelta` and `causalConv1d` other than the pool, unchecked.
struct StateArguments {
  var source, snapshots: gd_tensor
  var snapshotSlots, checkpointOffsets, checkpointTokens, checkpointSlots: gd_index
}

/// The shape of one state.
enum StateShape {
  /// [valueHeads, valueDim, keyDim]
  case recurrent(UInt32, UInt32, UInt32)
  /// [channels, width - 1], in the activation dtype or f32.
  case convolution(UInt32, UInt32, DType)

  var dtypes: DTypes {
    switch self {
    case .recurrent: .floats
    case .convolution(_, _, let activation): .orF32(activation)
    }
  }

  var placement: Validator.Layout {
    switch self {
    case .recurrent: .vectorBlock
    case .convolution: .block
    }
  }

  var rank: Int {
    switch self {
    case .recurrent: 3
    case .convolution: 2
    }
  }

  func dims(_ slots: UInt32) -> Dims {
    switch self {
    case .recurrent(let heads, let valueDim, let keyDim): Dims(slots, heads, valueDim, keyDim)
    case .convolution(let channels, let columns, _): Dims(slots, channels, columns)
    }
  }

  func dims(_ count: UInt32, _ sequences: UInt32) -> Dims {
    switch self {
    case .recurrent(let heads, let valueDim, let keyDim): Dims(count, sequences, heads, valueDim, keyDim)
    case .convolution(let channels, let columns, _): Dims(count, sequences, channels, columns)
    }
  }

  /// The shape of `count` states, as the backends see it.
  func shape(_ count: UInt64) -> Shape {
    switch self {
    case .recurrent(let heads, let valueDim, let keyDim): Shape(count, heads, UInt64(valueDim) &* UInt64(keyDim))
    case .convolution(let channels, let columns, _): Shape(count, channels, columns)
    }
  }

  func isRecurrent<Value>(_ recurrent: Value, _ convolution: Value) -> Value {
    switch self {
    case .recurrent: recurrent
    case .convolution: convolution
    }
  }

  var poolLayout: StaticString {
    isRecurrent("[slots, valueHeads, valueDim, keyDim]", "[slots, channels, width - 1]")
  }
  var sourceLayout: StaticString {
    isRecurrent("[sourceSlots, valueHeads, valueDim, keyDim]", "[sourceSlots, channels, width - 1]")
  }
  var snapshotLayout: StaticString {
    isRecurrent("[K, sequences, valueHeads, valueDim, keyDim]", "[K, sequences, channels, width - 1]")
  }
}

/// A pool and the number of its slots; nil and 0 if it is absent.
struct Pool {
  var view: TensorView?
  var slots: UInt32

  static let none = Pool(view: nil, slots: 0)
}

extension Validator {
  mutating func pool(_ tensor: gd_tensor, _ name: StaticString, _ state: StateShape) throws(Failure) -> Pool {
    let slots = try dims(tensor, name, state.poolLayout, rank: state.rank &+ 1)[0]
    let view = try output(
      tensor, name, state.dims(slots), state.poolLayout, state.dtypes, state.placement, as: state.shape(UInt64(slots)))
    return Pool(view: view, slots: slots)
  }

  mutating func optionalPool(
    _ tensor: gd_tensor, _ name: StaticString, _ state: StateShape
  ) throws(Failure) -> Pool {
    tensor.isAbsent ? .none : try pool(tensor, name, state)
  }

  /// Source and snapshots. The number of snapshots per sequence comes from the tensor, or else from the slots.
  mutating func states(
    _ given: StateArguments, sequences: Int, pool: TensorView?, _ state: StateShape
  ) throws(Failure) -> (tensors: StateTensors, snapshotCount: Int) {
    var states = StateTensors.none
    if !given.source.isAbsent {
      let slots = try dims(given.source, "source", state.sourceLayout, rank: state.rank &+ 1)[0]
      states.source = try input(
        given.source, "source", state.dims(slots), state.sourceLayout, pool.map { DTypes($0.dtype) } ?? state.dtypes,
        state.placement, as: state.shape(UInt64(slots)))
      states.sourceSlots = Int(slots)
    }
    guard pool != nil || given.snapshotSlots.isAbsent else { throw Self.needsPool("snapshotSlots") }
    guard pool != nil || given.checkpointSlots.isAbsent else { throw Self.needsPool("checkpoints") }
    guard !given.snapshots.isAbsent else {
      return (states, try Self.snapshotCount(given.snapshotSlots, sequences: sequences))
    }
    let count = try dims(given.snapshots, "snapshots", state.snapshotLayout, rank: state.rank &+ 2)[0]
    // Both factors are below 2^31.
    let entries = UInt64(count) &* UInt64(sequences)
    try Self.checkEntries(entries, UInt64(count), of: "snapshots", sequences)
    let known = (pool ?? states.source)?.dtype
    states.snapshots = try output(
      given.snapshots, "snapshots", state.dims(count, UInt32(sequences)), state.snapshotLayout,
      known.map { DTypes($0) } ?? state.dtypes, state.placement, as: state.shape(entries))
    states.snapshotEntries = Int(entries)
    return (states, Int(count))
  }

  private static func snapshotCount(_ slots: gd_index, sequences: Int) throws(Failure) -> Int {
    guard !slots.isAbsent, sequences > 0 else { return 0 }
    try checkEntries(slots.count, slots.count / UInt64(sequences), of: "snapshotSlots", sequences)
    guard slots.count % UInt64(sequences) == 0 else {
      throw Failure(
        .shape, argument: "snapshotSlots", expected: "as many slots for each of \(sequences) sequences",
        received: "\(slots.count)")
    }
    return Int(slots.count) / sequences
  }

  private static func checkEntries(
    _ entries: UInt64, _ count: UInt64, of name: StaticString, _ sequences: Int
  ) throws(Failure) {
    guard entries <= UInt64(SequenceRecipe.limit), count <= UInt64(SequenceRecipe.limit) else {
      throw Failure(
        .range, argument: "\(name)", expected: "at most \(SequenceRecipe.limit) in all",
        received: "\(count) of each of \(sequences) sequences")
    }
  }

  private static func needsPool(_ name: StaticString) -> Failure {
    Failure(.invalidArgument, argument: "\(name)", expected: "none without state", received: "slots")
  }

  /// Nil if only final states are stored.
  mutating func stores(
    _ given: StateArguments, sequences: Int, snapshotCount: Int
  ) throws(Failure) -> StoreRecipe? {
    let slots = try index(
      given.snapshotSlots, "snapshotSlots", count: snapshotCount &* sequences, "slots, as many as snapshots")
    let checkpoints = try checkpoints(given, sequences: sequences)
    guard snapshotCount > 0 || checkpoints != nil else { return nil }
    return StoreRecipe(
      snapshotCount: snapshotCount, hasSnapshotTensor: !given.snapshots.isAbsent, snapshotSlots: slots,
      checkpoints: checkpoints)
  }

  private mutating func checkpoints(
    _ given: StateArguments, sequences: Int
  ) throws(Failure) -> StoreRecipe.Checkpoints? {
    if given.checkpointOffsets.isAbsent, given.checkpointTokens.isAbsent, given.checkpointSlots.isAbsent { return nil }
    guard given.checkpointTokens.count <= UInt64(SequenceRecipe.limit) else {
      throw Failure(
        .range, argument: "checkpoints.tokens", expected: "at most \(SequenceRecipe.limit)",
        received: "\(given.checkpointTokens.count)")
    }
    let count = Int(given.checkpointTokens.count)
    return StoreRecipe.Checkpoints(
      offsets: try requiredIndex(
        given.checkpointOffsets, "checkpoints.offsets", count: sequences &+ 1, "offsets, one more than sequences"),
      tokens: try requiredIndex(given.checkpointTokens, "checkpoints.tokens", count: count, "tokens"),
      slots: try requiredIndex(given.checkpointSlots, "checkpoints.slots", count: count, "slots, as many as tokens"))
  }
}
