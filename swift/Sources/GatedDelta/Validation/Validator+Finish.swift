import GatedDeltaTypes

extension Validator {
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
