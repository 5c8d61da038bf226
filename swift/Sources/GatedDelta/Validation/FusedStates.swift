import CGatedDelta
import GatedDeltaTypes

/// The states of a fused op: in a pool and, if they come from elsewhere, in a source.
struct FusedStates {
  var state: TensorView
  var source: TensorView?
  var slots: UInt32
  /// Nil: sequence s reads state s.
  var ids: IndexSource?
  /// Nil: sequence s writes state s.
  var writeSlots: [Int32]?

  init(pair: (state: TensorView, source: TensorView?), count: UInt32) {
    state = pair.state
    source = pair.source
    slots = count
  }

  init(state: TensorView, slots: UInt32, ids: IndexSource, writeSlots: [Int32]) {
    self.state = state
    self.slots = slots
    self.ids = ids
    self.writeSlots = writeSlots
  }

  /// Sequences of equal lengths.
  func recipe(sequences: UInt32, tokens: UInt32) -> SequenceRecipe {
    SequenceRecipe(
      count: Int(sequences), rows: .each(tokens: Int(tokens)), slots: Int(slots), hasPool: true,
      sourceSlots: source.map { _ in Int(sequences) }, readSlots: ids, readName: "ids",
      writeSlots: writeSlots.map { .copied($0) })
  }
}

extension Validator {
  /// States, and their destination: the same range, in place, or a disjoint one. The destination is the op's pool, the
  /// states are its source if they are elsewhere.
  mutating func statePair(
    _ from: (tensor: gd_tensor, name: StaticString), _ to: (tensor: gd_tensor, name: StaticString), _ dims: Dims,
    _ layout: StaticString, _ placement: Layout, as shape: Shape
  ) throws(Failure) -> (state: TensorView, source: TensorView?) {
    let state = try output(to.tensor, to.name, dims, layout, .f32, placement, as: shape)
    let source = try input(from.tensor, from.name, dims, layout, .f32, placement, as: shape)
    guard source.pointer == state.pointer else { return (state, source) }
    forget(source)
    return (state, nil)
  }

  mutating func ids(_ given: gd_index, count: UInt32) throws(Failure) -> IndexSource {
    try requiredIndex(given, "ids", count: Int(count), "ids, one a sequence")
  }
}

extension Check {
  /// Slots rsHead, rsHead + 1, ..., one per sequence.
  static func destinations(_ rsHead: Int32, count: UInt32, slots: UInt32, of cache: StaticString) throws(Failure)
    -> [Int32]
  {
    let slots = UInt64(slots)
    guard UInt64(count) <= slots else {
      throw Failure(
        .shape, argument: "\(cache)", expected: "at least \(count) slots, one a sequence", received: "\(slots)")
    }
    guard rsHead >= 0, UInt64(rsHead) &+ UInt64(count) <= slots else {
      throw Failure(
        .range, argument: "rsHead",
        expected: "an integer in 0..\(slots &- UInt64(count)), the first of \(count) of \(slots) slots",
        received: "\(rsHead)")
    }
    return (0..<Int64(count)).map { Int32(truncatingIfNeeded: Int64(rsHead) &+ $0) }
  }
}
