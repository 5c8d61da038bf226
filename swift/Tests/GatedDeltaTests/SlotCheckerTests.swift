import GatedDeltaTypes
import Testing

@testable import GatedDelta

@Suite struct SlotCheckerTests {
  /// The rule in its plainest form: nil if two sequences write one slot.
  static func plainly(_ reads: [Int32], _ writes: [Int32]) -> [Int32]? {
    for left in writes.indices where writes[left] >= 0 {
      for right in writes.indices where right > left && writes[right] == writes[left] { return nil }
    }
    return reads.indices.compactMap { reader in
      let isWritten = writes.indices.contains { $0 != reader && reads[reader] >= 0 && writes[$0] == reads[reader] }
      return isWritten ? Int32(reader) : nil
    }
  }

  static func checked(_ checker: SlotChecker, _ reads: [Int32], _ writes: [Int32], slots: Int) -> [Int32]? {
    do throws(Failure) {
      return try checker.stagedReads(readSlots: reads, writeSlots: writes, slots: slots, writeName: "writeSlots")
    } catch {
      #expect(error.code == .overlap && error.argument.hasPrefix("writeSlots["))
      return nil
    }
  }

  /// Both ways of checking against the plain rule, with one checker throughout, so that stale marks would show.
  @Test func agreesWithThePlainRule() {
    var generator = SplitMix(seed: 11)
    let checker = SlotChecker()
    var duplicates = 0
    var staged = 0
    for _ in 0..<3000 {
      let slots = 1 + Int(generator.next() % 12)
      let count = Int(generator.next() % 8)
      var writes = (0..<count).map { _ in Int32(generator.next() % UInt64(slots + 1)) - 1 }
      if generator.next() % 2 == 0 { writes = Array((0..<Int32(slots)).shuffled(using: &generator).prefix(count)) }
      let reads: [Int32]
      switch generator.next() % 3 {
      case 0: reads = writes
      case 1: reads = writes.shuffled(using: &generator)
      default: reads = writes.map { _ in Int32(generator.next() % UInt64(slots + 1)) - 1 }
      }
      let expected = Self.plainly(reads, writes)
      #expect(Self.checked(checker, reads, writes, slots: slots) == expected, "\(reads) \(writes)")
      #expect(Self.checked(checker, reads, writes, slots: SlotChecker.tableLimit + 1) == expected, "\(reads) \(writes)")
      duplicates += expected == nil ? 1 : 0
      staged += expected?.isEmpty == false ? 1 : 0
    }
    #expect(duplicates > 300 && staged > 300, "the cases are not varied enough")
  }

  /// Stores are writes of their sequences.
  @Test func storesCountAsWrites() {
    var generator = SplitMix(seed: 12)
    let checker = SlotChecker()
    var kinds = [0, 0, 0]
    for _ in 0..<3000 {
      let count = 1 + Int(generator.next() % 4)
      let slots = 4 + Int(generator.next() % 12)
      let free = (0..<Int32(slots)).shuffled(using: &generator)
      let writes = (0..<count).map { generator.next() % 4 == 0 ? -1 : free[$0] }
      let reads = writes.map { _ in Int32(generator.next() % UInt64(slots + 1)) - 1 }
      let clash = generator.next() % 3 == 0
      let stores = (0..<Int(generator.next() % 5)).map { position in
        SlotStore(
          slot: clash ? Int32(generator.next() % UInt64(slots)) : free[(count + position) % slots],
          sequence: Int32(generator.next() % UInt64(count)), name: "checkpoints.slots", position: position)
      }
      var all: [(Int32, Int32)] = stores.map { ($0.slot, $0.sequence) }
      for (sequence, slot) in writes.enumerated() where slot >= 0 { all.append((slot, Int32(sequence))) }
      var expected: [Int32]?
      if Set(all.map(\.0)).count == all.count {
        expected = reads.indices.filter { reader in
          all.contains { $0.0 == reads[reader] && Int($0.1) != reader }
        }.map { Int32($0) }
      }
      for limit in [slots, SlotChecker.tableLimit + 1] {
        let found = try? checker.stagedReads(
          readSlots: reads, writeSlots: writes, stores: stores, slots: limit, writeName: "writeSlots")
        #expect(found == expected, "\(reads) \(writes) \(stores)")
      }
      kinds[expected == nil ? 0 : expected == [] ? 1 : 2] += 1
    }
    #expect(kinds.allSatisfy { $0 > 300 }, "\(kinds)")
  }

  @Test func theLaterOfTwoWritesIsNamed() {
    let checker = SlotChecker()
    let stores = [SlotStore(slot: 2, sequence: 0, name: "snapshotSlots", position: 7)]
    for slots in [4, SlotChecker.tableLimit + 1] {
      do throws(Failure) {
        _ = try checker.stagedReads(
          readSlots: [], writeSlots: [1, 2], stores: stores, slots: slots, writeName: "writeSlots")
        Issue.record("accepted")
      } catch {
        #expect(error.argument == "snapshotSlots[7]" && error.received.contains("writeSlots[1]"))
      }
    }
  }

  @Test func aHundredThousandSequences() {
    let count = 100_000
    let writes = (0..<Int32(count)).map { $0 }
    let checker = SlotChecker()
    // A rotation: each sequence reads the slot that its neighbour writes.
    let reads = writes.map { ($0 + 1) % Int32(count) }
    for slots in [count, SlotChecker.tableLimit + 1] {
      #expect(Self.checked(checker, reads, writes, slots: slots) == writes)
      #expect(Self.checked(checker, writes, writes, slots: slots) == [])
      #expect(Self.checked(checker, writes.reversed(), writes.reversed(), slots: slots) == [])
      var twice = Array(writes.reversed())
      twice[count - 1] = twice[0]
      #expect(Self.checked(checker, twice, twice, slots: slots) == nil)
    }
  }
}
