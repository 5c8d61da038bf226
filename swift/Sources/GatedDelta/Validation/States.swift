import CGatedDelta
import GatedDeltaTypes

/// What `gatedDelta` and `causalConv1d` take of states beside their pool, as it comes.
struct StateArguments {
  var sourceSlots, snapshotCount: UInt32
  var source, snapshots: gd_tensor
  var snapshotSlots, checkpointOffsets, checkpointTokens, checkpointSlots: gd_index
}

/// What a state is, wherever it lies: rows of `row` elements, `heads` of them.
struct StateShape {
  var heads, row: UInt64
  /// Where the op has no pool, whose dtype it would be.
  var dtypes: DTypes
  var layout: Validator.Layout

  init(_ heads: some BinaryInteger, _ row: some BinaryInteger, _ dtypes: DTypes, _ layout: Validator.Layout) {
    self.heads = UInt64(truncatingIfNeeded: heads)
    self.row = UInt64(truncatingIfNeeded: row)
    self.dtypes = dtypes
    self.layout = layout
  }

  func times(_ count: some BinaryInteger) -> Shape { Shape(count, heads, row) }
}

extension Validator {
  /// A pool that may be absent, where its op then has no slots.
  mutating func pool(_ tensor: gd_tensor, _ name: StaticString, slots: UInt32, _ shape: StateShape) throws(Failure)
    -> TensorView?
  {
    if try isLeftOut(tensor, name, slots: slots) { return nil }
    return try output(tensor, name, shape.times(slots), shape.dtypes, shape.layout)
  }

  mutating func states(
    _ given: StateArguments, sequences: UInt32, pool: TensorView?, _ shape: StateShape
  ) throws(Failure) -> StateTensors {
    var states = StateTensors.none
    if try !isLeftOut(given.source, "source", slots: given.sourceSlots) {
      states.source = try input(
        given.source, "source", shape.times(given.sourceSlots), pool.map { DTypes($0.dtype) } ?? shape.dtypes,
        shape.layout)
      states.sourceSlots = Int(given.sourceSlots)
    }
    // Both factors are below 2^32.
    let entries = UInt64(given.snapshotCount) &* UInt64(sequences)
    guard entries <= UInt64(SequenceRecipe.limit), given.snapshotCount <= UInt32(SequenceRecipe.limit) else {
      throw Failure(
        .range, argument: "snapshots", expected: "at most \(SequenceRecipe.limit) in all",
        received: "\(given.snapshotCount) of each of \(sequences) sequences")
    }
    if !isAbsent(given.snapshots) {
      let known = (pool ?? states.source)?.dtype
      states.snapshots = try output(
        given.snapshots, "snapshots", shape.times(entries), known.map { DTypes($0) } ?? shape.dtypes, shape.layout)
      states.snapshotEntries = Int(entries)
    }
    return states
  }

  /// Nil where final states are all that is stored.
  mutating func stores(_ given: StateArguments, sequences: UInt32) throws(Failure) -> StoreRecipe? {
    let entries = Int(given.snapshotCount) &* Int(sequences)
    let slots = try index(given.snapshotSlots, "snapshotSlots", count: entries)
    guard given.snapshotCount == 0 || slots != nil || !isAbsent(given.snapshots) else {
      throw Failure(
        .invalidArgument, argument: "snapshots", expected: "a tensor, or snapshotSlots",
        received: "neither for \(given.snapshotCount) snapshots")
    }
    let checkpoints = try checkpoints(given, sequences: sequences)
    guard given.snapshotCount > 0 || checkpoints != nil else { return nil }
    return StoreRecipe(
      snapshotCount: Int(given.snapshotCount), hasSnapshotTensor: !isAbsent(given.snapshots), snapshotSlots: slots,
      checkpoints: checkpoints)
  }

  private mutating func checkpoints(_ given: StateArguments, sequences: UInt32) throws(Failure)
    -> StoreRecipe.Checkpoints?
  {
    let offsets = try index(given.checkpointOffsets, "checkpoints.offsets", count: Int(sequences) &+ 1)
    guard given.checkpointSlots.count <= UInt64(SequenceRecipe.limit) else {
      throw Failure(
        .range, argument: "checkpoints.slots", expected: "at most \(SequenceRecipe.limit)",
        received: "\(given.checkpointSlots.count)")
    }
    let slots = try index(given.checkpointSlots, "checkpoints.slots", count: Int(given.checkpointSlots.count))
    let tokens = try index(given.checkpointTokens, "checkpoints.tokens", count: Int(given.checkpointSlots.count))
    if offsets == nil, tokens == nil, slots == nil { return nil }
    guard let offsets else { throw Validator.missing("checkpoints.offsets") }
    guard let tokens else { throw Validator.missing("checkpoints.tokens") }
    guard let slots else { throw Validator.missing("checkpoints.slots") }
    return StoreRecipe.Checkpoints(offsets: offsets, tokens: tokens, slots: slots)
  }

  /// For index data that has no default.
  static func missing(_ name: StaticString) -> Failure {
    Failure(.invalidArgument, argument: "\(name)", expected: "index data", received: "none")
  }

  private func isLeftOut(_ tensor: gd_tensor, _ name: StaticString, slots: UInt32) throws(Failure) -> Bool {
    guard isAbsent(tensor) else { return false }
    guard slots == 0 else {
      throw Failure(
        .invalidArgument, argument: "\(name)", expected: "a tensor of \(slots) slots", received: "none")
    }
    return true
  }

  // MARK: Records

  /// What a gated delta op keeps, or a commit takes.
  mutating func records(
    _ key: gd_tensor, _ delta: gd_tensor, _ decay: gd_tensor, _ shapes: RecordShapes, isOutput: Bool
  ) throws(Failure) -> Records {
    Records(
      key: try record(key, "records.key", shapes.key, isOutput: isOutput),
      delta: try record(delta, "records.delta", shapes.delta, isOutput: isOutput),
      decay: try record(decay, "records.decay", shapes.decay, isOutput: isOutput))
  }

  private mutating func record(
    _ tensor: gd_tensor, _ name: StaticString, _ shape: Shape, isOutput: Bool
  ) throws(Failure) -> TensorView {
    isOutput
      ? try output(tensor, name, shape, .f32, .vectorBlock) : try input(tensor, name, shape, .f32, .vectorBlock)
  }
}

struct RecordShapes {
  var key, delta, decay: Shape

  init(
    tokens: UInt32, keyHeads: UInt32, valueHeads: UInt32, keyDim: UInt32, valueDim: UInt32, gateDims: GateDims
  ) {
    key = Shape(tokens, keyHeads, keyDim)
    delta = Shape(tokens, valueHeads, valueDim)
    decay = Shape(tokens, valueHeads, gateDims == .perKey ? keyDim : 1)
  }
}
