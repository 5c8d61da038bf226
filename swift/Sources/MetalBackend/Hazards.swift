/// What was read and written since the last barrier. Dispatches of a concurrent encoder may run at the same time, so
/// one that reads what an earlier one wrote, or writes what an earlier one touched, needs a barrier before it.
struct Hazards {
  private var reads: [Range<UInt>] = []
  private var writes: [Range<UInt>] = []

  mutating func reset() {
    reads.removeAll(keepingCapacity: true)
    writes.removeAll(keepingCapacity: true)
  }

  /// Whether a dispatch with these arguments has to wait for those before it.
  func block(_ arguments: [Argument]) -> Bool {
    arguments.contains { argument in
      switch argument {
      case .reads(let region): Self.meets(region, writes)
      case .writes(let region): Self.meets(region, writes) || Self.meets(region, reads)
      case .absent: false
      }
    }
  }

  mutating func add(_ arguments: [Argument]) {
    for argument in arguments {
      switch argument {
      case .reads(let region): reads.append(region.addresses)
      case .writes(let region): writes.append(region.addresses)
      case .absent: continue
      }
    }
  }

  private static func meets(_ region: Region, _ ranges: [Range<UInt>]) -> Bool {
    ranges.contains { $0.overlaps(region.addresses) }
  }
}
