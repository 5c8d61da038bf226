import GatedDeltaTypes

extension Validator {
  /// The sequences of an op, made once everything else about it is known to be right.
  mutating func resolve(_ recipe: borrowing SequenceRecipe) throws(Failure) -> Batch {
    // Checking a hundred thousand slots takes a while: other threads must not wait for it.
    endLookups()
    return try recipe.resolve(device.slotChecker)
  }

  /// The last step of every op: the backend's own rules, then encoding into the target. An op that can neither read nor
  /// write anything ends here, so that no backend has to handle empty tensors.
  mutating func finish(
    _ op: consuming Op, _ recipe: consuming SequenceRecipe? = nil, _ batch: consuming Batch? = nil, isEmpty: Bool
  ) throws(Failure) {
    endLookups()
    try device.backend.check(op)
    switch target {
    case .device(let device):
      if !isEmpty { device.encode(EncodedOp(op, name: self.op, borrows: borrows), reading: files) }
    case .plan(let plan):
      plan.remember(uses)
      if !isEmpty { plan.record(EncodedOp(op, name: self.op, borrows: borrows), recipe, batch, reading: files) }
    }
  }
}
