import CGatedDelta
import GatedDeltaTypes

extension Validator {
  mutating func optionalInput(
    _ tensor: gd_tensor, _ name: StaticString, _ shape: Shape, _ dtypes: DTypes
  ) throws(Failure) -> TensorView? {
    isAbsent(tensor) ? nil : try input(tensor, name, shape, dtypes, .block)
  }

  /// The sequences of an op over a ragged batch.
  mutating func ragged(
    tokens: UInt32, sequences: UInt32, slots: UInt32, hasPool: Bool, _ cuSeqlens: gd_index, _ readSlots: gd_index,
    _ writeSlots: gd_index
  ) throws(Failure) -> SequenceRecipe {
    let count = Int(sequences)
    let starts = try index(cuSeqlens, "cuSeqlens", count: count &+ 1)
    guard starts != nil || count == 1 else {
      throw Failure(
        .invalidArgument, argument: "cuSeqlens", expected: "\(count &+ 1) offsets for \(count) sequences",
        received: "none, which means one sequence")
    }
    return SequenceRecipe(
      count: count, rows: .ragged(tokens: Int(tokens), cuSeqlens: starts), slots: Int(slots), hasPool: hasPool,
      readSlots: try index(readSlots, "readSlots", count: count),
      writeSlots: try index(writeSlots, "writeSlots", count: count))
  }

  /// The last steps of every op: its sequences, the backend's own rules, and whether there is anything to do at all.
  mutating func finish(
    _ recipe: SequenceRecipe, isEmpty: Bool, _ make: (Sequences) -> Op
  ) throws(Failure) -> ValidatedOp {
    // Checking a hundred thousand slots takes a while, which is nothing to hold up other threads for.
    endLookups()
    let op = make(try recipe.resolve(device.slotChecker))
    try device.backend.check(op)
    return ValidatedOp(op: isEmpty ? nil : op, recipe: recipe)
  }

  mutating func finish(_ op: Op, isEmpty: Bool) throws(Failure) -> ValidatedOp {
    endLookups()
    try device.backend.check(op)
    return ValidatedOp(op: isEmpty ? nil : op, recipe: nil)
  }
}
