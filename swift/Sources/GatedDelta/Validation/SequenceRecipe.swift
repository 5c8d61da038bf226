import GatedDeltaTypes

/// How the sequences of one op are made from its index data: everything that a replay needs to make them again.
struct SequenceRecipe: Sendable {
  /// Far more than any batch, and few enough that the copies of hostile index data stay small.
  static let limit = 1 << 20

  enum Rows: Sendable {
    /// As `cuSeqlens` says, or one sequence of all tokens.
    case ragged(tokens: Int, cuSeqlens: IndexSource?)
    case oneEach
    /// The op has slots only.
    case none
  }

  var count: Int
  var rows: Rows
  /// 0 without a pool.
  var slots: Int
  var hasPool: Bool
  var readSlots: IndexSource?
  var writeSlots: IndexSource?

  /// Whether a replay may find other index data than the last one did.
  var isVariable: Bool {
    if case .ragged(_, let cuSeqlens?) = rows, cuSeqlens.isVariable { return true }
    return readSlots?.isVariable == true || writeSlots?.isVariable == true
  }

  /// Whether the index data is still what `sequences` were made of.
  func isCurrent(_ sequences: Sequences) -> Bool {
    if case .ragged(_, let cuSeqlens?) = rows, !cuSeqlens.holds(sequences.starts) { return false }
    return readSlots?.holds(sequences.readSlots) != false && writeSlots?.holds(sequences.writeSlots) != false
  }

  func resolve(_ checker: SlotChecker) throws(Failure) -> Sequences {
    let starts = try resolveStarts()
    let reads = try resolveReads()
    let writes: [Int32]
    let writeName: StaticString
    if let writeSlots {
      writes = writeSlots.read()
      writeName = "writeSlots"
      try check(writes, writeName)
    } else {
      writes = reads
      writeName = readSlots == nil ? "writeSlots" : "readSlots"
    }
    let staged = try checker.stagedReads(readSlots: reads, writeSlots: writes, slots: slots, writeName: writeName)
    return Sequences(count: count, starts: starts, readSlots: reads, writeSlots: writes, stagedReads: staged)
  }

  private func resolveStarts() throws(Failure) -> [Int32] {
    switch rows {
    case .none: return []
    case .oneEach: return (0...Int32(truncatingIfNeeded: count)).map { $0 }
    case .ragged(let tokens, nil): return [0, Int32(truncatingIfNeeded: tokens)]
    case .ragged(let tokens, let cuSeqlens?):
      let starts = cuSeqlens.read()
      var last: Int32 = 0
      for (position, start) in starts.enumerated() {
        if position == 0, start != 0 {
          throw Failure(.range, argument: "cuSeqlens[0]", expected: "0", received: "\(start)")
        }
        if start < last {
          throw Failure(
            .range, argument: "cuSeqlens[\(position)]", expected: "at least \(last), which comes before it",
            received: "\(start)")
        }
        last = start
      }
      if last > tokens {
        throw Failure(
          .range, argument: "cuSeqlens[\(count)]", expected: "at most \(tokens), the number of tokens",
          received: "\(last)")
      }
      return starts
    }
  }

  private func resolveReads() throws(Failure) -> [Int32] {
    if let readSlots {
      let reads = readSlots.read()
      try check(reads, "readSlots")
      return reads
    }
    guard hasPool else { return [Int32](repeating: -1, count: count) }
    guard count <= slots else {
      throw Failure(
        .range, argument: "readSlots", expected: "slots for \(count) sequences in a pool of \(slots)",
        received: "none, which means 0, 1, 2, ...")
    }
    return (0..<Int32(truncatingIfNeeded: count)).map { $0 }
  }

  private func check(_ values: [Int32], _ name: StaticString) throws(Failure) {
    let slots = self.slots
    for (sequence, slot) in values.enumerated() where slot < -1 || Int(slot) >= slots {
      throw Failure(
        .range, argument: "\(name)[\(sequence)]",
        expected: hasPool ? "-1 or a slot in 0..<\(slots)" : "-1, since there is no state", received: "\(slot)")
    }
  }
}
