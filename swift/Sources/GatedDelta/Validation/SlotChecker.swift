import GatedDeltaTypes

/// Checks the slots of one op: finds slots written twice, and reads that need a copy because another sequence writes
/// their slot. One per device, used by its thread only: it keeps a table from slot to writer, whose entries are stamped
/// with the check that made them, so that no check has to clear it.
final class SlotChecker: @unchecked Sendable {
  /// Pools of more slots than this are checked by sorting instead, which costs no memory per slot.
  static let tableLimit = 1 << 20

  private var writers: [UInt64] = []
  private var stamp: UInt64 = 0
  /// The same for the pages of an attention.
  let pages = PageChecker()

  /// The sequences whose read slot another one writes, in order. Slots must be -1 or in 0..<slots.
  /// - Parameters:
  ///   - readSlots: empty if reads come from elsewhere.
  ///   - stores: slots written in addition to the final states.
  func stagedReads(
    readSlots: [Int32], writeSlots: [Int32], stores: [SlotStore] = [], slots: Int, writeName: StaticString
  ) throws(Failure) -> [Int32] {
    // Ascending slots, each read by its own writer: the usual decode step.
    if stores.isEmpty, readSlots.isEmpty || readSlots == writeSlots, SlotChecker.isAscending(writeSlots) { return [] }
    let writes = Writes(slots: writeSlots, stores: stores, name: writeName)
    return slots <= SlotChecker.tableLimit ? try byTable(readSlots, writes, slots) : try bySorting(readSlots, writes)
  }

  private static func isAscending(_ slots: [Int32]) -> Bool {
    var last: Int32 = -1
    for slot in slots {
      if slot <= last { return false }
      last = slot
    }
    return true
  }

  /// Everything that an op writes, numbered: final states first, then stores.
  private struct Writes {
    let slots: [Int32]
    let stores: [SlotStore]
    let name: StaticString

    var count: Int { slots.count &+ stores.count }

    func slot(_ number: Int) -> Int32 { number < slots.count ? slots[number] : stores[number &- slots.count].slot }

    func sequence(_ number: Int) -> Int32 {
      number < slots.count ? Int32(truncatingIfNeeded: number) : stores[number &- slots.count].sequence
    }

    func name(_ number: Int) -> String {
      guard number >= slots.count else { return "\(name)[\(number)]" }
      let store = stores[number &- slots.count]
      return "\(store.name)[\(store.position)]"
    }

    func writtenTwice(_ first: Int, _ second: Int) -> Failure {
      Failure(
        .overlap, argument: name(second), expected: "slots that are written once each",
        received: "\(slot(second)), which \(name(first)) writes as well")
    }
  }

  private func byTable(_ readSlots: [Int32], _ writes: Writes, _ slots: Int) throws(Failure) -> [Int32] {
    if writers.count < slots { writers = [UInt64](repeating: 0, count: slots) }
    stamp &+= 1
    // The upper half is the stamp: 2^32 checks later a stale entry would look fresh, so start over before then.
    if stamp >> 32 != 0 {
      writers = [UInt64](repeating: 0, count: slots)
      stamp = 1
    }
    let base = stamp << 32
    for number in 0..<writes.count {
      let slot = writes.slot(number)
      guard slot >= 0 else { continue }
      let entry = writers[Int(slot)]
      if entry >> 32 == stamp { throw writes.writtenTwice(Int(truncatingIfNeeded: entry & 0xffff_ffff), number) }
      writers[Int(slot)] = base | UInt64(truncatingIfNeeded: number)
    }
    var staged: [Int32] = []
    for (sequence, slot) in readSlots.enumerated() where slot >= 0 {
      let entry = writers[Int(slot)]
      if entry >> 32 == stamp, Int(writes.sequence(Int(truncatingIfNeeded: entry & 0xffff_ffff))) != sequence {
        staged.append(Int32(truncatingIfNeeded: sequence))
      }
    }
    return staged
  }

  private func bySorting(_ readSlots: [Int32], _ writes: Writes) throws(Failure) -> [Int32] {
    // Slot above, number below: sorting brings the writers of one slot together, the earliest first.
    var entries: [UInt64] = []
    for number in 0..<writes.count where writes.slot(number) >= 0 {
      entries.append(UInt64(truncatingIfNeeded: writes.slot(number)) << 32 | UInt64(truncatingIfNeeded: number))
    }
    entries.sort()
    for (left, right) in zip(entries, entries.dropFirst()) where left >> 32 == right >> 32 {
      throw writes.writtenTwice(Int(truncatingIfNeeded: left & 0xffff_ffff), Int(truncatingIfNeeded: right & 0xffff_ffff))
    }
    var staged: [Int32] = []
    for (sequence, slot) in readSlots.enumerated() where slot >= 0 {
      let wanted = UInt64(truncatingIfNeeded: slot)
      var low = 0
      var high = entries.count
      while low < high {
        let middle = low &+ (high &- low) / 2
        if entries[middle] >> 32 < wanted { low = middle &+ 1 } else { high = middle }
      }
      if low < entries.count, entries[low] >> 32 == wanted,
        Int(writes.sequence(Int(truncatingIfNeeded: entries[low] & 0xffff_ffff))) != sequence
      {
        staged.append(Int32(truncatingIfNeeded: sequence))
      }
    }
    return staged
  }
}

/// A slot that an op writes in addition to the final states, and the element of index data that names it.
struct SlotStore: Sendable {
  var slot: Int32
  var sequence: Int32
  var name: StaticString
  var position: Int
}
