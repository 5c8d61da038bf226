import GatedDeltaTypes

/// The rules by which the pages of an attention's sequences are found from its index data.
struct PageRecipe: Sendable {
  /// The most entries of a page table: 256 sequences of a million tokens in pages of 16.
  static let limit = 1 << 24

  struct Layout: Sendable, Equatable {
    var pages, pageTokens, rotaryDim: Int
    var theta: Float
  }

  var layout: Layout
  var pagesPerSequence: Int
  var pastTokens, pageTable: IndexSource
  var positions: IndexSource?

  var isVariable: Bool { pastTokens.isVariable || pageTable.isVariable || positions?.isVariable == true }

  func isCurrent(_ known: PagedSequences) -> Bool {
    guard pastTokens.holds(known.pastTokens), pageTable.holds(known.pageTable) else { return false }
    guard let positions else { return known.positions == nil }
    return known.positions.map(positions.holds) ?? false
  }

  /// The layers of a model get the same index data, which is compared in each and checked in the first.
  func resolve(starts: [Int32], _ checker: PageChecker) throws(Failure) -> PagedSequences {
    if let last = checker.last, let pages = last.pages, last.layout == layout, last.starts == starts,
      pages.pagesPerSequence == pagesPerSequence, isCurrent(pages)
    {
      return pages
    }
    let pages = try check(starts, checker)
    checker.last = PageChecker.Checked(layout: layout, starts: starts, pages: pages)
    return pages
  }

  private func check(_ starts: [Int32], _ checker: PageChecker) throws(Failure) -> PagedSequences {
    let past = pastTokens.read()
    let table = pageTable.read()
    let given = positions?.read()
    let used = try starts.indices.dropLast().map { sequence throws(Failure) in
      try self.used(sequence, past: past[sequence], rows: starts[sequence &+ 1] &- starts[sequence])
    }
    for (sequence, pages) in used.enumerated() {
      for place in 0..<pages.count {
        let page = table[sequence &* pagesPerSequence &+ place]
        guard page >= 0, Int(page) < layout.pages else {
          throw Failure(
            .range, argument: "pageTable[\(sequence), \(place)]", expected: "a page in 0..<\(layout.pages)",
            received: "\(page)")
        }
      }
    }
    try checker.check(used, table, pagesPerSequence: pagesPerSequence, pages: layout.pages)
    return PagedSequences(
      pastTokens: past, pageTable: table, pagesPerSequence: pagesPerSequence, positions: given,
      rotation: try rotation(starts, past, given, checker.rotary))
  }

  /// The pages of a sequence: the number it uses, and the index of the first one that it writes to.
  private func used(_ sequence: Int, past: Int32, rows: Int32) throws(Failure) -> UsedPages {
    guard past >= 0 else {
      throw Failure(.range, argument: "pastTokens[\(sequence)]", expected: "0 or more", received: "\(past)")
    }
    guard rows > 0 else { return UsedPages(count: 0, firstWritten: 0) }
    let (tokens, overflow) = past.addingReportingOverflow(rows)
    guard !overflow else {
      throw Failure(
        .range, argument: "pastTokens[\(sequence)]", expected: "at most \(Int32.max &- rows), with \(rows) tokens more",
        received: "\(past)")
    }
    let count = (Int(tokens) &+ layout.pageTokens &- 1) / layout.pageTokens
    guard count <= pagesPerSequence else {
      throw Failure(
        .range, argument: "pageTable",
        expected: "\(count) pages of \(layout.pageTokens) tokens for the \(tokens) tokens of sequence \(sequence)",
        received: "\(pagesPerSequence)")
    }
    return UsedPages(count: count, firstWritten: Int(past) / layout.pageTokens)
  }

  /// The positions of the rows of all sequences.
  private func rotation(
    _ starts: [Int32], _ past: [Int32], _ given: [Int32]?, _ rotary: RotaryAngles
  ) throws(Failure) -> [Float] {
    let rows = Int(starts[starts.count &- 1])
    var positions: [Int32]
    if let given {
      positions = Array(given.prefix(rows))
      for (row, position) in positions.enumerated() where position < 0 {
        throw Failure(.range, argument: "positions[\(row)]", expected: "0 or more", received: "\(position)")
      }
    } else {
      guard layout.rotaryDim > 0 else { return [] }
      positions = []
      positions.reserveCapacity(rows)
      for sequence in past.indices {
        // The sum of past tokens and rows fits, as was checked.
        for row in 0..<(starts[sequence &+ 1] &- starts[sequence]) { positions.append(past[sequence] &+ row) }
      }
    }
    return layout.rotaryDim == 0 ? [] : rotary.table(positions, dim: layout.rotaryDim, theta: layout.theta)
  }
}

/// The number of table entries of a sequence that are page numbers, and the index of the first one written to.
struct UsedPages: Sendable {
  var count, firstWritten: Int
}

/// Checks that no page that a sequence writes to is in use elsewhere. One per device, used by its thread only.
final class PageChecker: @unchecked Sendable {
  /// Index data that was checked.
  struct Checked {
    let layout: PageRecipe.Layout
    let starts: [Int32]
    /// Nil once no op has it any more.
    weak var pages: PagedSequences?
  }
  var last: Checked?
  let rotary = RotaryAngles()
  /// By page: the number of the check that found it written, in the upper half, and its writer, in the lower half.
  private var writers: [UInt64] = []
  private var stamp: UInt64 = 0
  /// With more pages than this, the writers are kept by page in a dictionary.
  static let tableLimit = 1 << 20

  func check(
    _ used: [UsedPages], _ table: [Int32], pagesPerSequence: Int, pages: Int
  ) throws(Failure) {
    if pages <= PageChecker.tableLimit {
      if writers.count < pages { writers = [UInt64](repeating: 0, count: pages) }
      stamp &+= 1
      if stamp >> 32 != 0 {
        writers = [UInt64](repeating: 0, count: pages)
        stamp = 1
      }
      let base = stamp << 32
      try check(
        used, table, pagesPerSequence, writer: { page in
          let entry = self.writers[Int(page)]
          return entry >> 32 == self.stamp ? Int(truncatingIfNeeded: entry & 0xffff_ffff) : nil
        }, write: { page, place in self.writers[Int(page)] = base | UInt64(truncatingIfNeeded: place) })
    } else {
      var places: [Int32: Int] = [:]
      try check(used, table, pagesPerSequence, writer: { places[$0] }, write: { places[$0] = $1 })
    }
  }

  private func check(
    _ used: [UsedPages], _ table: [Int32], _ width: Int, writer: (Int32) -> Int?, write: (Int32, Int) -> Void
  ) throws(Failure) {
    for (sequence, pages) in used.enumerated() where pages.count > 0 {
      for place in pages.firstWritten..<pages.count {
        let page = table[sequence &* width &+ place]
        if let other = writer(page) { throw PageChecker.usedTwice(page, sequence, place, other, width) }
        write(page, sequence &* width &+ place)
      }
    }
    for (sequence, pages) in used.enumerated() {
      for place in 0..<pages.firstWritten {
        let page = table[sequence &* width &+ place]
        if let other = writer(page) { throw PageChecker.usedTwice(page, sequence, place, other, width) }
      }
    }
  }

  private static func usedTwice(_ page: Int32, _ sequence: Int, _ place: Int, _ other: Int, _ width: Int) -> Failure {
    Failure(
      .overlap, argument: "pageTable[\(sequence), \(place)]", expected: "a page that no sequence writes to elsewhere",
      received: "\(page), which pageTable[\(other / width), \(other % width)] writes to")
  }
}
