import GatedDeltaTypes

extension Sequences {
  /// Lengths and slots, and the slots that they require to be staged.
  init(lengths: [Int], read: [Int], write: [Int]) {
    var starts: [Int32] = [0]
    for length in lengths { starts.append((starts.last ?? 0) + Int32(length)) }
    let staged = lengths.indices.filter { reader in
      read[reader] >= 0 && lengths.indices.contains { $0 != reader && write[$0] == read[reader] }
    }
    self.init(
      count: lengths.count, starts: starts, readSlots: read.map { Int32($0) }, writeSlots: write.map { Int32($0) },
      stagedReads: staged.map { Int32($0) })
  }
}
