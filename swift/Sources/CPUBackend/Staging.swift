import CPUKernels
import GatedDeltaTypes

/// Copies of the slots that an op reads and also writes for another sequence: every read sees the pool as it was before
/// the op. Empty and free for an op in place.
final class Staging {
  /// The copies to make before the op runs.
  private(set) var copies: [gd_cpu_slot_copy] = []
  /// By sequence; empty if nothing is staged.
  private var copyOfSequence: [UnsafeMutableRawPointer?] = []
  private var memory: PageRange?
  private var capacity = 0

  func clear() {
    guard !copies.isEmpty else { return }
    copies.removeAll(keepingCapacity: true)
    copyOfSequence.removeAll(keepingCapacity: true)
  }

  /// One copy per slot, however many sequences read it.
  func plan(_ sequences: Sequences, _ pool: Pool) throws(Failure) {
    var placeOfSlot: [Int32: Int] = [:]
    for sequence in sequences.stagedReads {
      let slot = sequences.readSlots[Int(sequence)]
      if slot >= 0 && placeOfSlot[slot] == nil { placeOfSlot[slot] = placeOfSlot.count }
    }
    let (bytes, overflow) = placeOfSlot.count.multipliedReportingOverflow(by: pool.slotBytes)
    guard let start = try reserve(overflow ? Int.max : bytes) else { return }
    copyOfSequence.append(contentsOf: repeatElement(nil, count: sequences.count))
    for sequence in sequences.stagedReads {
      guard let place = placeOfSlot[sequences.readSlots[Int(sequence)]] else { continue }
      copyOfSequence[Int(sequence)] = start + place &* pool.slotBytes
    }
    for (slot, place) in placeOfSlot {
      copies.append(gd_cpu_slot_copy(read: pool.slot(slot), write: start + place &* pool.slotBytes))
    }
  }

  /// The address of the sequence's old state, if it was copied.
  func copy(of sequence: Int) -> UnsafeMutableRawPointer? {
    copyOfSequence.isEmpty ? nil : copyOfSequence[sequence]
  }

  private func reserve(_ bytes: Int) throws(Failure) -> UnsafeMutableRawPointer? {
    if bytes > capacity || memory == nil {
      memory = nil
      capacity = 0
      memory = try PageRange(byteCount: bytes, alignment: 4096)
      capacity = bytes
    }
    return memory?.start
  }
}
