/// The memory read and written since the last barrier. Dispatches of a concurrent encoder may run at the same time, so
/// one that reads memory that an earlier one wrote, or writes memory that an earlier one touched, needs a barrier
/// before it.
struct Hazards {
  private var reads = AddressSet<UInt>()
  private var writes = AddressSet<UInt>()

  mutating func reset() {
    reads.removeAll()
    writes.removeAll()
  }

  /// True if a dispatch with these arguments must wait for those before it, or if so many ranges are tracked already
  /// that finding out would take longer than waiting.
  func block(_ arguments: [Argument]) -> Bool {
    if reads.isFull || writes.isFull { return true }
    for argument in arguments {
      switch argument {
      case .reads(let region): if writes.meets(region.addresses) { return true }
      case .writes(let region): if writes.meets(region.addresses) || reads.meets(region.addresses) { return true }
      case .absent: continue
      }
    }
    return false
  }

  mutating func add(_ arguments: [Argument]) {
    for argument in arguments {
      switch argument {
      case .reads(let region): reads.insert(region.addresses)
      case .writes(let region): writes.insert(region.addresses)
      case .absent: continue
      }
    }
  }
}

/// Addresses, as ranges in ascending order that neither overlap nor touch: adjacent ones are merged, and a search is
/// binary. A test counts how often addresses are compared.
struct AddressSet<Address: Comparable> {
  /// The number of ranges from which on a barrier is cheaper than further tracking.
  static var limit: Int { 256 }

  private(set) var ranges: [Range<Address>] = []

  /// One dispatch adds fewer than 32.
  var isFull: Bool { ranges.count > Self.limit - 32 }

  mutating func removeAll() { ranges.removeAll(keepingCapacity: true) }

  /// The first range that ends at `address` or after it.
  private func first(endingFrom address: Address) -> Int {
    var (low, high) = (0, ranges.count)
    while low < high {
      let middle = (low + high) / 2
      if ranges[middle].upperBound < address { low = middle + 1 } else { high = middle }
    }
    return low
  }

  func meets(_ range: Range<Address>) -> Bool {
    guard !range.isEmpty else { return false }
    var index = first(endingFrom: range.lowerBound)
    // A range that only touches is before the one that may overlap.
    while index < ranges.count, ranges[index].lowerBound < range.upperBound {
      if ranges[index].upperBound > range.lowerBound { return true }
      index += 1
    }
    return false
  }

  mutating func insert(_ range: Range<Address>) {
    guard !range.isEmpty else { return }
    let start = first(endingFrom: range.lowerBound)
    var end = start
    var merged = range
    while end < ranges.count, ranges[end].lowerBound <= range.upperBound {
      merged = min(merged.lowerBound, ranges[end].lowerBound)..<max(merged.upperBound, ranges[end].upperBound)
      end += 1
    }
    if end == start {
      ranges.insert(merged, at: start)
    } else {
      ranges[start] = merged
      ranges.removeSubrange((start + 1)..<end)
    }
  }
}
