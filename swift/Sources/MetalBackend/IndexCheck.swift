import GatedDeltaTypes

/// The ids that an op's kernels have read, which are known when its submission has completed: a submission with one that
/// is of no expert fails, though all of its ops have run.
///
/// Its memory is the arena's, which the submission keeps until then. It holds the first row with a wrong id, or the largest
/// number; then a word for each row, its id where it is wrong.
struct IndexCheck: @unchecked Sendable {
  let region: Region
  private let op: ExpertLinear
  /// The token of the caller's op that is this op's first, where it is a part.
  private let firstToken: Int
  /// The name under which the op was encoded.
  fileprivate(set) var name: StaticString = ""

  init(_ op: ExpertLinear, firstToken: Int, _ arena: inout Arena) throws(Failure) {
    self.op = op
    self.firstToken = firstToken
    region = try arena.region(byteCount: 4 * (1 + op.rows))
    region.contents.storeBytes(of: .max, as: UInt32.self)
  }

  /// Called when the kernels have run.
  var failure: Failure? {
    let row = Int(region.contents.load(as: UInt32.self))
    guard row < op.rows else { return nil }
    let id = region.contents.load(fromByteOffset: 4 * (1 + row), as: Int32.self)
    var failure = op.failure(id: id, row: firstToken * op.chosen + row)
    failure.op = "\(name)"
    return failure
  }
}

extension Pass {
  /// Names the checks of the op that was encoded last.
  mutating func nameChecks(_ name: StaticString) {
    var index = checks.count - 1
    while index >= 0, checks[index].name.utf8CodeUnitCount == 0 {
      checks[index].name = name
      index -= 1
    }
  }
}
