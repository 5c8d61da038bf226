import GatedDeltaTypes
import Testing

@testable import GatedDelta

/// Sequences that have nothing to do reach no backend: there may be a million of them.
@Suite struct IdleTests {
  static func sequences(
    _ starts: [Int32], _ read: [Int32], _ write: [Int32], staged: [Int32] = [], stores: StateStores? = nil,
    counts: [Int32]? = nil
  ) -> Sequences {
    Sequences(
      count: write.count, starts: starts, readSlots: read, writeSlots: write, stagedReads: staged, stores: stores,
      counts: counts)
  }

  @Test func whatHasRowsOrWritesStays() {
    #expect(Self.sequences([0, 2, 3], [0, 1], [0, 1]).withoutIdle() == nil)
    #expect(Self.sequences([0, 2, 3], [0, 1], [-1, -1]).withoutIdle() == nil, "their outputs are wanted")
    #expect(Self.sequences([0, 0, 0], [0, 1], [0, 1]).withoutIdle() == nil, "they copy a state")
    #expect(Self.sequences([0, 0], [0], [-1]).withoutIdle() == nil, "one stays")
  }

  @Test func theOthersGo() throws {
    let some = try #require(
      Self.sequences([0, 0, 2, 2, 3], [4, 5, 6, 7], [-1, 1, -1, 2], staged: [1, 3], counts: [0, 1, 0, 1]).withoutIdle())
    #expect(some.count == 2 && some.starts == [0, 2, 3] && some.readSlots == [5, 7] && some.writeSlots == [1, 2])
    #expect(some.stagedReads == [0, 1] && some.counts == [1, 1])
    let all = try #require(Self.sequences([0, 0, 0, 0], [0, 0, 0], [-1, -1, -1]).withoutIdle())
    #expect(all.count == 1 && all.starts == [0, 0] && all.readSlots == [0] && all.writeSlots == [-1])
    let copies = try #require(Self.sequences([], [3, -1, 2], [0, -1, 1]).withoutIdle())
    #expect(copies.starts.isEmpty && copies.readSlots == [3, 2] && copies.writeSlots == [0, 1])
  }

  @Test func whatStoresAStateStays() throws {
    let store = StateStores.Store(tokens: 0, target: .slot(2))
    let stores = StateStores(offsets: [0, 0, 1, 1], stores: [store])
    let kept = try #require(Self.sequences([0, 0, 0, 0], [0, 1, 2], [-1, -1, -1], stores: stores).withoutIdle())
    #expect(kept.count == 1 && kept.readSlots == [1] && kept.stores == StateStores(offsets: [0, 1], stores: [store]))
  }

  /// A replay compares all of its index data, not only the part that is run.
  @Test func aPlanStillKnowsItsIndexData() throws {
    let recipe = SequenceRecipe(
      count: 3, rows: .ragged(tokens: 4, cuSeqlens: .copied([0, 0, 4, 4])), slots: 2, hasPool: true,
      readSlots: .copied([0, 1, 0]), writeSlots: .copied([-1, 1, -1]))
    let batch = try recipe.resolve(SlotChecker())
    #expect(batch.sequences.count == 1 && batch.given?.sequences.count == 3 && recipe.isCurrent(batch))
  }
}
