import GatedDeltaTypes

/// The ids that an op's kernels have read, which are known when its submission has completed: a submission with an id of
/// no expert, or of no row of an embedding, fails, although all of its ops have run.
///
/// The memory is the arena's, which the submission keeps until then. It holds the first row with a wrong id, or the largest
/// number; then a word for each row: its id, if that is wrong.
struct IndexCheck: @unchecked Sendable {
  let region: Region
  private let rows: Int
  /// The failure for an id of a row.
  private let failure: (_ id: Int32, _ row: Int) -> Failure
  /// The name under which the op was encoded.
  fileprivate(set) var name: StaticString = ""

  /// - Parameter firstToken: the token of the caller's op that is this op's first, if it is a part.
  init(_ op: ExpertLinear, firstToken: Int, _ arena: inout Arena) throws(Failure) {
    try self.init(rows: op.rows, &arena) { op.failure(id: $0, row: firstToken * op.chosen + $1) }
  }

  init(_ op: Embedding, _ arena: inout Arena) throws(Failure) {
    try self.init(rows: op.rows, &arena) { op.failure(id: $0, row: $1) }
  }

  private init(rows: Int, _ arena: inout Arena, _ failure: @escaping (_ id: Int32, _ row: Int) -> Failure) throws(Failure) {
    self.rows = rows
    self.failure = failure
    region = try arena.region(byteCount: 4 * (1 + rows))
    region.contents.storeBytes(of: .max, as: UInt32.self)
  }

  /// Called when the kernels have run.
  var found: Failure? {
    let row = Int(region.contents.load(as: UInt32.self))
    guard row < rows else { return nil }
    let id = region.contents.load(fromByteOffset: 4 * (1 + row), as: Int32.self)
    var failure = failure(id, row)
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
