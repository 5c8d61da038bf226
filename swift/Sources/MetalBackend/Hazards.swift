import Metal

/// What was read and written since the last barrier. Dispatches of a concurrent encoder may run at the same time, so one
/// that reads what an earlier one wrote, or writes what an earlier one touched, needs a barrier before it.
struct Hazards {
  private struct Access {
    var buffer: ObjectIdentifier
    var start: Int
    var end: Int
  }
  private var reads: [Access] = []
  private var writes: [Access] = []

  mutating func reset() {
    reads.removeAll(keepingCapacity: true)
    writes.removeAll(keepingCapacity: true)
  }

  /// Whether a dispatch with these arguments has to wait for those before it.
  func block(_ arguments: [Argument]) -> Bool {
    for argument in arguments {
      switch argument {
      case .reads(let region):
        if Self.meets(region, writes) { return true }
      case .writes(let region):
        if Self.meets(region, writes) || Self.meets(region, reads) { return true }
      case .absent: continue
      }
    }
    return false
  }

  mutating func add(_ arguments: [Argument]) {
    for argument in arguments {
      switch argument {
      case .reads(let region): reads.append(Self.access(region))
      case .writes(let region): writes.append(Self.access(region))
      case .absent: continue
      }
    }
  }

  private static func access(_ region: Region) -> Access {
    Access(
      buffer: ObjectIdentifier(region.buffer), start: region.offset, end: region.offset + region.byteCount)
  }

  private static func meets(_ region: Region, _ accesses: [Access]) -> Bool {
    let one = access(region)
    return accesses.contains { $0.buffer == one.buffer && $0.start < one.end && one.start < $0.end }
  }
}
