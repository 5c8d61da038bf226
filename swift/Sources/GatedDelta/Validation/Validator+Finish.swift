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

  /// The sequences of an op, made once everything else about it is known to be right.
  mutating func resolve(_ recipe: borrowing SequenceRecipe) throws(Failure) -> Batch {
    // Checking a hundred thousand slots takes a while, which is nothing to hold up other threads for.
    endLookups()
    return try recipe.resolve(device.slotChecker)
  }

  /// The last step of every op: the backend's own rules, and into the target with it. An op that can neither read nor
  /// write a thing stays here, so that no backend has to think about empty tensors.
  mutating func finish(
    _ op: consuming Op, _ recipe: consuming SequenceRecipe? = nil, _ batch: consuming Batch? = nil, isEmpty: Bool
  ) throws(Failure) {
    endLookups()
    try device.backend.check(op)
    switch target {
    case .device(let device):
      if !isEmpty { device.encode(EncodedOp(op, name: self.op, borrows: borrows)) }
    case .plan(let plan):
      plan.remember(uses)
      if !isEmpty { plan.record(EncodedOp(op, name: self.op, borrows: borrows), recipe, batch) }
    }
  }
}
