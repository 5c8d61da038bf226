import GatedDeltaTypes

/// The rules by which the snapshots and checkpoints of one op are made from its index data.
struct StoreRecipe: Sendable {
  /// The number per sequence; 0 if there are none.
  var snapshotCount: Int
  /// Whether they go to a tensor, and the slots they go to.
  var hasSnapshotTensor: Bool
  var snapshotSlots: IndexSource?
  var checkpoints: Checkpoints?

  struct Checkpoints: Sendable {
    var offsets, tokens, slots: IndexSource
    var isVariable: Bool { offsets.isVariable || tokens.isVariable || slots.isVariable }
  }

  /// The index data as it was read, for finding out whether it has changed since.
  struct Indices: Sendable {
    var snapshotSlots: [Int32] = []
    var offsets: [Int32] = []
    var tokens: [Int32] = []
    var slots: [Int32] = []
  }

  struct Resolved {
    var stores: StateStores
    var written: [SlotStore]
    var indices: Indices
  }

  var isVariable: Bool { snapshotSlots?.isVariable == true || checkpoints?.isVariable == true }

  func isCurrent(_ indices: Indices) -> Bool {
    if let snapshotSlots, !snapshotSlots.holds(indices.snapshotSlots) { return false }
    guard let checkpoints else { return true }
    return checkpoints.offsets.holds(indices.offsets) && checkpoints.tokens.holds(indices.tokens)
      && checkpoints.slots.holds(indices.slots)
  }

  /// - Parameter check: checks that a slot is one of the pool's.
  func resolve(
    starts: [Int32], check: (Int32, StaticString, Int, _ least: Int32) throws(Failure) -> Void
  ) throws(Failure) -> Resolved {
    var indices = Indices()
    if let snapshotSlots {
      indices.snapshotSlots = snapshotSlots.read()
      for (position, slot) in indices.snapshotSlots.enumerated() { try check(slot, "snapshotSlots", position, -1) }
    }
    if let checkpoints {
      indices.offsets = checkpoints.offsets.read()
      indices.tokens = checkpoints.tokens.read()
      indices.slots = checkpoints.slots.read()
      try StoreRecipe.checkOffsets(indices.offsets, limit: indices.slots.count)
    }

    let sequences = starts.count &- 1
    var resolved = Resolved(stores: StateStores(offsets: [0], stores: []), written: [], indices: indices)
    resolved.stores.offsets.reserveCapacity(starts.count)
    for sequence in 0..<sequences {
      let length = starts[sequence &+ 1] &- starts[sequence]
      let first = resolved.stores.stores.count
      addSnapshots(of: sequence, among: sequences, length: length, to: &resolved)
      if checkpoints != nil { try StoreRecipe.addCheckpoints(of: sequence, length: length, to: &resolved, check) }
      if resolved.stores.stores.count &- first > 1 {
        resolved.stores.stores[first...].sort { $0.tokens < $1.tokens }
      }
      resolved.stores.offsets.append(Int32(truncatingIfNeeded: resolved.stores.stores.count))
    }
    return resolved
  }

  private func addSnapshots(of sequence: Int, among sequences: Int, length: Int32, to resolved: inout Resolved) {
    // Snapshots from before the call's first token keep their previous content.
    for back in 0..<min(snapshotCount, Int(length)) {
      let tokens = length &- Int32(truncatingIfNeeded: back)
      if hasSnapshotTensor {
        let entry = Int32(truncatingIfNeeded: back &* sequences &+ sequence)
        resolved.stores.stores.append(StateStores.Store(tokens: tokens, target: .snapshot(entry)))
      }
      guard snapshotSlots != nil else { continue }
      let position = sequence &* snapshotCount &+ back
      let slot = resolved.indices.snapshotSlots[position]
      guard slot >= 0 else { continue }
      resolved.add(slot, after: tokens, of: sequence, "snapshotSlots", position)
    }
  }

  private static func addCheckpoints(
    of sequence: Int, length: Int32, to resolved: inout Resolved,
    _ check: (Int32, StaticString, Int, _ least: Int32) throws(Failure) -> Void
  ) throws(Failure) {
    let range = Int(resolved.indices.offsets[sequence])..<Int(resolved.indices.offsets[sequence &+ 1])
    for position in range {
      let tokens = resolved.indices.tokens[position]
      let slot = resolved.indices.slots[position]
      guard tokens >= 0, tokens <= length else {
        throw Failure(
          .range, argument: "checkpoints.tokens[\(position)]",
          expected: "0..\(length), the tokens of sequence \(sequence)", received: "\(tokens)")
      }
      try check(slot, "checkpoints.slots", position, 0)
      resolved.add(slot, after: tokens, of: sequence, "checkpoints.slots", position)
    }
  }

  private static func checkOffsets(_ offsets: [Int32], limit: Int) throws(Failure) {
    var last: Int32 = 0
    for (position, offset) in offsets.enumerated() {
      guard position > 0 || offset == 0 else {
        throw Failure(.range, argument: "checkpoints.offsets[0]", expected: "0", received: "\(offset)")
      }
      guard offset >= last else {
        throw Failure(
          .range, argument: "checkpoints.offsets[\(position)]", expected: "at least \(last), which comes before it",
          received: "\(offset)")
      }
      last = offset
    }
    guard Int(last) <= limit else {
      throw Failure(
        .range, argument: "checkpoints.offsets[\(offsets.count &- 1)]",
        expected: "at most \(limit), the number of checkpoints", received: "\(last)")
    }
  }
}

extension StoreRecipe.Resolved {
  fileprivate mutating func add(
    _ slot: Int32, after tokens: Int32, of sequence: Int, _ name: StaticString, _ position: Int
  ) {
    stores.stores.append(StateStores.Store(tokens: tokens, target: .slot(slot)))
    written.append(
      SlotStore(slot: slot, sequence: Int32(truncatingIfNeeded: sequence), name: name, position: position))
  }
}
