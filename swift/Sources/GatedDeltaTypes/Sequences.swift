/// The ragged batch of one op: the rows of each sequence, and the slots that each reads and writes. Validated: starts
/// are non-decreasing, begin at 0 and end within the op's rows; slots are -1 or inside the pool (read slots inside the
/// source, if the op has one); no slot is written twice.
public struct Sequences: Sendable {
  private struct Fields: Sendable {
    var count: Int
    var starts, readSlots, writeSlots, stagedReads: [Int32]
    var stores: StateStores?
    var counts: [Int32]?
    var pages: PagedSequences?
  }
  /// All fields are behind one reference: ops are copied with their sequences on the way to every backend, and a copy
  /// then retains one object instead of eight.
  private final class Storage: Sendable {
    let fields: Fields
    init(_ fields: Fields) { self.fields = fields }
  }
  private var storage: Storage

  private mutating func change(_ body: (inout Fields) -> Void) {
    var fields = storage.fields
    body(&fields)
    storage = Storage(fields)
  }

  public var count: Int {
    _read { yield storage.fields.count }
    set { change { $0.count = newValue } }
  }
  /// `count + 1` row offsets.
  public var starts: [Int32] {
    _read { yield storage.fields.starts }
    set { change { $0.starts = newValue } }
  }
  /// -1 starts from zero. In an `embedding`: its ids, which are all that there is except for their count.
  public var readSlots: [Int32] {
    _read { yield storage.fields.readSlots }
    set { change { $0.readSlots = newValue } }
  }
  /// -1 drops the final state.
  public var writeSlots: [Int32] {
    _read { yield storage.fields.writeSlots }
    set { change { $0.writeSlots = newValue } }
  }
  /// Indices of the sequences whose read slot another sequence of this op writes. Every read sees the pool as it was
  /// before the op, so a backend copies these slots before it writes any. Empty if reads come from a source.
  public var stagedReads: [Int32] {
    _read { yield storage.fields.stagedReads }
    set { change { $0.stagedReads = newValue } }
  }
  /// Nil if only final states are stored.
  public var stores: StateStores? {
    _read { yield storage.fields.stores }
    set { change { $0.stores = newValue } }
  }
  /// In a commit: the number of its rows that each sequence takes, 0 or more. Nil for the other ops, which take all.
  public var counts: [Int32]? {
    _read { yield storage.fields.counts }
    set { change { $0.counts = newValue } }
  }
  /// In an attention, whose sequences have pages instead of slots; nil for the other ops.
  public var pages: PagedSequences? {
    _read { yield storage.fields.pages }
    set { change { $0.pages = newValue } }
  }

  /// The sequences of an attention.
  public init(count: Int, starts: [Int32], pages: PagedSequences) {
    storage = Storage(
      Fields(count: count, starts: starts, readSlots: [], writeSlots: [], stagedReads: [], pages: pages))
  }

  public init(
    count: Int, starts: [Int32], readSlots: [Int32], writeSlots: [Int32], stagedReads: [Int32],
    stores: StateStores? = nil, counts: [Int32]? = nil
  ) {
    storage = Storage(
      Fields(
        count: count, starts: starts, readSlots: readSlots, writeSlots: writeSlots, stagedReads: stagedReads,
        stores: stores, counts: counts))
  }

  /// The same without the sequences that have no rows, write no slot and store nothing; nil if there are no such
  /// sequences. At least one sequence stays.
  public func withoutIdle() -> Sequences? {
    guard count > 1, writeSlots.contains(where: { $0 < 0 }) else { return nil }
    let kept = (0..<count).filter { !isIdle($0) }
    if kept.count == count { return nil }
    return only(kept.isEmpty ? [0] : kept)
  }

  private func isIdle(_ sequence: Int) -> Bool {
    guard writeSlots[sequence] < 0 else { return false }
    if !starts.isEmpty, starts[sequence] != starts[sequence &+ 1] { return false }
    return stores?.of(sequence).isEmpty ?? true
  }

  /// These sequences, in ascending order, if all others have no rows and store nothing.
  private func only(_ kept: [Int]) -> Sequences {
    var result = Sequences(
      count: kept.count, starts: [], readSlots: readSlots.isEmpty ? [] : kept.map { readSlots[$0] },
      writeSlots: kept.map { writeSlots[$0] }, stagedReads: [], counts: counts.map { counts in kept.map { counts[$0] } })
    if !starts.isEmpty { result.starts = kept.map { starts[$0] } + [starts[count]] }
    if !stagedReads.isEmpty {
      let staged = Set(stagedReads)
      result.stagedReads = kept.indices.filter { staged.contains(Int32(truncatingIfNeeded: kept[$0])) }.map {
        Int32(truncatingIfNeeded: $0)
      }
    }
    if let stores {
      result.stores = StateStores(
        offsets: kept.map { stores.offsets[$0] } + [stores.offsets[count]], stores: stores.stores)
    }
    return result
  }
}

/// States that an op stores before the end: its snapshots and checkpoints, sequence by sequence.
public struct StateStores: Sendable, Equatable {
  public enum Target: Sendable, Equatable {
    case slot(Int32)
    /// An entry of the snapshot tensor.
    case snapshot(Int32)
  }

  public struct Store: Sendable, Equatable {
    /// The number of the sequence's tokens after which it is stored, from 0 (the state as it was read) to all of them.
    public var tokens: Int32
    public var target: Target

    public init(tokens: Int32, target: Target) {
      self.tokens = tokens
      self.target = target
    }
  }

  /// One entry more than sequences: the stores of sequence s are `offsets[s]..<offsets[s + 1]`.
  public var offsets: [Int32]
  /// Ascending by tokens within a sequence.
  public var stores: [Store]

  public init(offsets: [Int32], stores: [Store]) {
    self.offsets = offsets
    self.stores = stores
  }

  public func of(_ sequence: Int) -> ArraySlice<Store> {
    stores[Int(offsets[sequence])..<Int(offsets[sequence &+ 1])]
  }
}
