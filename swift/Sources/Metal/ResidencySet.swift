/// Allocations that a queue's command buffers may use without naming them. Like Apple's, it keeps its contents alive, and changes
/// take effect when they are committed.
final class EmulatedResidencySet: MTLResidencySet, @unchecked Sendable {
  private let condition = Condition()
  // Guarded by `condition`.
  private var committed: [ObjectIdentifier: any MTLAllocation] = [:]
  private var wanted: [ObjectIdentifier: any MTLAllocation] = [:]
  private var commits = 0

  func addAllocation(_ allocation: any MTLAllocation) {
    condition.locked { wanted[ObjectIdentifier(allocation)] = allocation }
  }

  func removeAllocation(_ allocation: any MTLAllocation) {
    _ = condition.locked { wanted.removeValue(forKey: ObjectIdentifier(allocation)) }
  }

  func containsAllocation(_ anAllocation: any MTLAllocation) -> Bool {
    condition.locked { wanted[ObjectIdentifier(anAllocation)] != nil }
  }

  func commit() {
    // The released allocations end outside the lock.
    let before = condition.locked {
      let before = committed
      committed = wanted
      commits += 1
      return before
    }
    withExtendedLifetime(before) {}
  }

  /// How many allocations it holds, committed or not yet, and how often it was committed.
  var counts: (resident: Int, wanted: Int, commits: Int) {
    condition.locked { (committed.count, wanted.count, commits) }
  }

  func holds(_ allocation: any MTLAllocation) -> Bool {
    condition.locked { committed[ObjectIdentifier(allocation)] != nil }
  }
}
