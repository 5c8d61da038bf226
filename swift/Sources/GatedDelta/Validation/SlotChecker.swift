import GatedDeltaTypes

/// Checks the slots of one op: which are written twice, and which reads need a copy because another sequence writes
/// their slot. One per device, used by its thread only: it keeps a table from slot to writer, whose entries are stamped
/// with the check that made them, so that no check has to clear it.
final class SlotChecker: @unchecked Sendable {
  /// Pools of more slots than this are checked by sorting instead, which costs no memory by the slot.
  static let tableLimit = 1 << 20

  private var writers: [UInt64] = []
  private var stamp: UInt64 = 0

  /// The sequences whose read slot another one writes, in order. Slots are -1 or in 0..<slots already.
  func stagedReads(
    readSlots: [Int32], writeSlots: [Int32], slots: Int, writeName: StaticString
  ) throws(Failure) -> [Int32] {
    // Ascending slots, each read by its own writer: the usual decode step.
    if readSlots == writeSlots, SlotChecker.isAscending(writeSlots) { return [] }
    return slots <= SlotChecker.tableLimit
      ? try byTable(readSlots, writeSlots, slots, writeName) : try bySorting(readSlots, writeSlots, writeName)
  }

  private static func isAscending(_ slots: [Int32]) -> Bool {
    var last: Int32 = -1
    for slot in slots {
      if slot <= last { return false }
      last = slot
    }
    return true
  }

  private func byTable(
    _ readSlots: [Int32], _ writeSlots: [Int32], _ slots: Int, _ writeName: StaticString
  ) throws(Failure) -> [Int32] {
    if writers.count < slots { writers = [UInt64](repeating: 0, count: slots) }
    stamp &+= 1
    // The upper half is the stamp: 2^32 checks later a stale entry would look fresh, so start over before that.
    if stamp >> 32 != 0 {
      writers = [UInt64](repeating: 0, count: slots)
      stamp = 1
    }
    let base = stamp << 32
    for (sequence, slot) in writeSlots.enumerated() where slot >= 0 {
      let entry = writers[Int(slot)]
      if entry >> 32 == stamp {
        throw SlotChecker.writtenTwice(slot, Int(truncatingIfNeeded: entry & 0xffff_ffff), sequence, writeName)
      }
      writers[Int(slot)] = base | UInt64(truncatingIfNeeded: sequence)
    }
    var staged: [Int32] = []
    for (sequence, slot) in readSlots.enumerated() where slot >= 0 {
      let entry = writers[Int(slot)]
      if entry >> 32 == stamp, entry & 0xffff_ffff != UInt64(truncatingIfNeeded: sequence) {
        staged.append(Int32(truncatingIfNeeded: sequence))
      }
    }
    return staged
  }

  private func bySorting(
    _ readSlots: [Int32], _ writeSlots: [Int32], _ writeName: StaticString
  ) throws(Failure) -> [Int32] {
    // Slot above, sequence below: sorting brings the writers of one slot together, the earliest first.
    var entries: [UInt64] = []
    for (sequence, slot) in writeSlots.enumerated() where slot >= 0 {
      entries.append(UInt64(truncatingIfNeeded: slot) << 32 | UInt64(truncatingIfNeeded: sequence))
    }
    entries.sort()
    for (left, right) in zip(entries, entries.dropFirst()) where left >> 32 == right >> 32 {
      throw SlotChecker.writtenTwice(
        Int32(truncatingIfNeeded: left >> 32), Int(truncatingIfNeeded: left & 0xffff_ffff),
        Int(truncatingIfNeeded: right & 0xffff_ffff), writeName)
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
        entries[low] & 0xffff_ffff != UInt64(truncatingIfNeeded: sequence)
      {
        staged.append(Int32(truncatingIfNeeded: sequence))
      }
    }
    return staged
  }

  private static func writtenTwice(_ slot: Int32, _ first: Int, _ second: Int, _ name: StaticString) -> Failure {
    Failure(
      .overlap, argument: "\(name)[\(second)]", expected: "slots that are written once each",
      received: "\(slot), which \(name)[\(first)] writes as well")
  }
}
