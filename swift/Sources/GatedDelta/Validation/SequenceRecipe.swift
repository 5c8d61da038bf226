import GatedDeltaTypes

/// The rules by which the sequences of one op are made from its index data: everything that a replay needs to remake
/// them.
struct SequenceRecipe: Sendable {
  /// Far more than any batch, and few enough that the copies of hostile index data stay small.
  static let limit = 1 << 20

  enum Rows: Sendable {
    /// As `cuSeqlens` specifies, or one sequence of all tokens.
    case ragged(tokens: Int, cuSeqlens: IndexSource?)
    case each(tokens: Int)
    /// The op has slots only.
    case none
    /// The op reads rows by number, `readSlots`, each in 0..<slots: there is no pool, and nothing starts from zero.
    case gathered
  }

  var count: Int
  var rows: Rows
  /// 0 without a pool.
  var slots: Int
  var hasPool: Bool
  /// The number of slots that read slots index instead of the pool; nil if they index the pool.
  var sourceSlots: Int?
  var readSlots: IndexSource?
  var readName: StaticString = "readSlots"
  var writeSlots: IndexSource?
  /// Counts of a commit.
  var counts: IndexSource?
  /// Nil if only final states are stored.
  var stores: StoreRecipe?
  /// Pages of an attention, which has no slots.
  var pages: PageRecipe?

  /// True if a replay may find index data that differs from the last.
  var isVariable: Bool {
    if case .ragged(_, let cuSeqlens?) = rows, cuSeqlens.isVariable { return true }
    return readSlots?.isVariable == true || writeSlots?.isVariable == true || counts?.isVariable == true
      || stores?.isVariable == true || pages?.isVariable == true
  }

  /// True if the index data is still that of `batch`.
  func isCurrent(_ batch: Batch) -> Bool {
    let sequences = batch.given?.sequences ?? batch.sequences
    if case .ragged(_, let cuSeqlens?) = rows, !cuSeqlens.holds(sequences.starts) { return false }
    if let counts, let known = sequences.counts, !counts.holds(known) { return false }
    if let stores, let known = batch.storeIndices, !stores.isCurrent(known) { return false }
    if let pages, let known = sequences.pages, !pages.isCurrent(known) { return false }
    return readSlots?.holds(sequences.readSlots) != false && writeSlots?.holds(sequences.writeSlots) != false
  }

  func resolve(_ checker: SlotChecker) throws(Failure) -> Batch {
    if case .gathered = rows { return try resolveGathered() }
    let starts = try resolveStarts()
    if let pages {
      let paged = try pages.resolve(starts: starts, checker.pages)
      return Batch(sequences: Sequences(count: count, starts: starts, pages: paged), given: nil)
    }
    let reads = try resolveReads()
    let writes: [Int32]
    let writeName: StaticString
    if let writeSlots {
      writes = writeSlots.read()
      writeName = "writeSlots"
    } else {
      writes = hasPool ? reads : [Int32](repeating: -1, count: count)
      writeName = readSlots == nil || sourceSlots != nil ? "writeSlots" : readName
    }
    if writeSlots != nil || sourceSlots != nil { try check(writes, writeName, slots, hasPool) }
    let counts = try resolveCounts(starts)
    let stores = try resolveStores(starts)
    let staged = try checker.stagedReads(
      readSlots: sourceSlots == nil ? reads : [], writeSlots: writes, stores: stores?.written ?? [], slots: slots,
      writeName: writeName)
    let given = Sequences(
      count: count, starts: starts, readSlots: reads, writeSlots: writes, stagedReads: staged,
      stores: stores.flatMap { $0.stores.stores.isEmpty ? nil : $0.stores }, counts: counts)
    guard let busy = given.withoutIdle() else { return Batch(sequences: given, given: nil, storeIndices: stores?.indices) }
    return Batch(sequences: busy, given: GivenSequences(given), storeIndices: stores?.indices)
  }

  private func resolveGathered() throws(Failure) -> Batch {
    let numbers = readSlots?.read() ?? []
    for (position, number) in numbers.enumerated() where number < 0 || Int(number) >= slots {
      throw Failure(
        .range, argument: "\(readName)[\(position)]", expected: "a row in 0..<\(slots)", received: "\(number)")
    }
    let sequences = Sequences(count: count, starts: [], readSlots: numbers, writeSlots: [], stagedReads: [])
    return Batch(sequences: sequences, given: nil, storeIndices: nil)
  }

  private func resolveStarts() throws(Failure) -> [Int32] {
    switch rows {
    case .none, .gathered: return []
    // The core has checked that the product is at most the number of rows.
    case .each(let tokens): return (0...count).map { Int32(truncatingIfNeeded: $0 &* tokens) }
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
    let slots = sourceSlots ?? slots
    let hasAny = hasPool || sourceSlots != nil
    if let readSlots {
      let reads = readSlots.read()
      try check(reads, readName, slots, hasAny)
      return reads
    }
    guard hasAny else { return [Int32](repeating: -1, count: count) }
    guard count <= slots else {
      throw Failure(
        .range, argument: "\(readName)", expected: "slots for \(count) sequences in a pool of \(slots)",
        received: "none, which means 0, 1, 2, ...")
    }
    return (0..<Int32(truncatingIfNeeded: count)).map { $0 }
  }

  private func resolveCounts(_ starts: [Int32]) throws(Failure) -> [Int32]? {
    guard let counts = counts?.read() else { return nil }
    for (sequence, count) in counts.enumerated() {
      let length = starts[sequence &+ 1] &- starts[sequence]
      guard count >= 0, count <= length else {
        throw Failure(
          .range, argument: "counts[\(sequence)]", expected: "0..\(length), the sequence's tokens",
          received: "\(count)")
      }
    }
    return counts
  }

  private func resolveStores(_ starts: [Int32]) throws(Failure) -> StoreRecipe.Resolved? {
    guard let stores else { return nil }
    return try stores.resolve(starts: starts) { (slot, name, position, least) throws(Failure) in
      try check(slot, name, position, slots, hasPool, least: least)
    }
  }

  private func check(_ values: [Int32], _ name: StaticString, _ slots: Int, _ hasAny: Bool) throws(Failure) {
    for (sequence, slot) in values.enumerated() where slot < -1 || Int(slot) >= slots {
      try check(slot, name, sequence, slots, hasAny, least: -1)
    }
  }

  private func check(
    _ slot: Int32, _ name: StaticString, _ position: Int, _ slots: Int, _ hasAny: Bool, least: Int32
  ) throws(Failure) {
    guard slot < least || Int(slot) >= slots else { return }
    let inside = least < 0 ? "-1 or a slot in 0..<\(slots)" : "a slot in 0..<\(slots)"
    throw Failure(
      .range, argument: "\(name)[\(position)]",
      expected: hasAny ? inside : least < 0 ? "-1, since there is no state" : "none, since there is no state",
      received: "\(slot)")
  }
}

/// The sequences of an op as its index data gives them, and the part of that data that they do not show.
struct Batch: Sendable {
  /// The sequences that have work to do.
  var sequences: Sequences
  /// All sequences, if some have no work to do.
  var given: GivenSequences?
  var storeIndices: StoreRecipe.Indices?
}

/// The sequences of a batch as its index data gives them.
final class GivenSequences: Sendable {
  let sequences: Sequences

  init(_ sequences: Sequences) { self.sequences = sequences }
}
