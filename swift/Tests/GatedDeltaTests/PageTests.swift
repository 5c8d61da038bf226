import CGatedDelta
import GatedDeltaTypes
import Testing

@testable import GatedDelta

/// The index data of attentions that follow one another, as a model's layers do: it is checked once, and again wherever it
/// differs.
@Suite struct PageTests {
  /// Encodes ops and returns the pages of those that are accepted.
  static func pages(_ fixture: Fixture, _ ops: gd_attention...) throws -> [PagedSequences] {
    for var op in ops { try #require(gd_encode_attention(fixture.device, &op) == GD_OK, "\(LastError())") }
    return try fixture.committedOps().map { try #require($0.sequences?.pages) }
  }

  @Test func equalDataIsCheckedOnce() throws {
    let fixture = try Fixture()
    let first = try fixture.attention()
    var second = try fixture.attention(heads: 2)
    #expect(first.page_table.buffer != second.page_table.buffer)
    var pages = try Self.pages(fixture, first, second, first)
    #expect(pages[0] === pages[1] && pages[0] === pages[2])
    second.positions = gd_index()
    pages = try Self.pages(fixture, first, second)
    #expect(pages[0] !== pages[1] && pages[0].positions != nil && pages[1].positions == nil)
    #expect(pages[0].rotation == pages[1].rotation, "they are the tokens' own positions")
  }

  @Test func eachDifferenceIsSeen() throws {
    let fixture = try Fixture()
    let first = try fixture.attention()
    let changes: [(inout gd_attention) throws -> Void] = [
      { $0.rope_theta = 500 }, { $0.rotary_dim = 4 }, { $0.page_table = try fixture.index([0, -1, 2, 1]).index },
      { $0.past_tokens = try fixture.index([0, 5]).index }, { $0.cu_seqlens = try fixture.index([0, 1, 4]).index },
      { $0.positions = try fixture.index([0, 0, 0, 0, 0]).index },
    ]
    for change in changes {
      var second = first
      try change(&second)
      let pages = try Self.pages(fixture, first, second)
      #expect(pages[0] !== pages[1])
    }
  }

  /// Index data that differs little from an accepted op's is refused as if it came first.
  @Test func everyRefusalStays() throws {
    let fixture = try Fixture()
    var op = try fixture.attention()
    let (table, entries) = try fixture.index([0, -1, 3, 1])
    let (past, counts) = try fixture.index([1, 5])
    (op.page_table, op.past_tokens) = (table, past)
    let sound = op
    func refusal(_ change: (inout gd_attention) throws -> Void) throws -> String? {
      var other = sound
      try #require(gd_encode_attention(fixture.device, &other) == GD_OK, "\(LastError())")
      try change(&other)
      let status = gd_encode_attention(fixture.device, &other)
      (entries[2], counts[1]) = (3, 5)
      return status == GD_OK ? nil : LastError().argument
    }
    #expect(try refusal { _ in entries[2] = 4 } == "pageTable[1, 0]")
    #expect(try refusal { _ in entries[2] = -1 } == "pageTable[1, 0]")
    #expect(try refusal { _ in entries[2] = 0 } == "pageTable[1, 0]", "sequence 0 writes to it")
    #expect(try refusal { _ in counts[1] = -1 } == "pastTokens[1]")
    #expect(try refusal { _ in counts[1] = 6 } == "pageTable", "three pages")
    #expect(
      try refusal {
        $0.key_pages = try fixture.tensor(.f16, 3, 2, 4, 16)
        $0.value_pages = try fixture.tensor(.f16, 3, 2, 4, 16)
      } == "pageTable[1, 0]", "a smaller pool")
    #expect(
      try refusal {
        $0.key_pages = try fixture.tensor(.f16, 4, 2, 2, 16)
        $0.value_pages = try fixture.tensor(.f16, 4, 2, 2, 16)
      } == "pageTable", "smaller pages")
    #expect(try refusal { $0.positions = try fixture.index([1, 2, 5, 6, -7]).index } == "positions[4]")
    #expect(try refusal { $0.cu_seqlens = try fixture.index([0, 6, 5]).index } == "cuSeqlens[2]")
    #expect(try refusal { _ in } == nil)
  }

  /// A failed check leaves nothing behind that a later op could take for checked.
  @Test func aRefusedTableIsRefusedAgain() throws {
    let fixture = try Fixture()
    var op = try fixture.attention()
    op.page_table = try fixture.index([0, -1, 4, 1]).index
    for _ in 0..<2 {
      #expect(gd_encode_attention(fixture.device, &op) == GD_ERROR_RANGE)
      #expect(LastError().argument == "pageTable[1, 0]")
    }
    #expect(try fixture.committedOps().isEmpty)
  }

  @Test func aReplayChecksNewDataOnce() throws {
    let fixture = try Fixture()
    let plan = try fixture.plan()
    var op = try fixture.attention()
    let (past, counts) = try fixture.index([1, 5])
    op.past_tokens = past
    for _ in 0..<3 { try #require(gd_encode_attention(plan, &op) == GD_OK, "\(LastError())") }
    counts[0] = 2
    try #require(gd_plan_run(plan, nil) == GD_OK, "\(LastError())")
    let pages = try fixture.backend.submissions[0].ops.map { try #require($0.op.sequences?.pages) }
    #expect(pages.map(\.pastTokens) == [[2, 5], [2, 5], [2, 5]] && pages.allSatisfy { $0 === pages[0] })
    counts[0] = 3
    #expect(gd_plan_run(plan, nil) == GD_ERROR_RANGE && LastError().argument == "pageTable[0, 1]", "\(LastError())")
  }

  /// Only ops hold checked index data.
  @Test func nothingIsKeptForNoOp() throws {
    let fixture = try Fixture()
    weak var pages: PagedSequences?
    do {
      pages = try Self.pages(fixture, try fixture.attention())[0]
      #expect(pages != nil)
      while let submission = fixture.backend.next() { submission.finish(nil) }
    }
    #expect(pages == nil)
  }
}
