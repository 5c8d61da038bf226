/// The ragged batch of one op: which rows belong to which sequence, and which slots each reads and writes. Validated:
/// starts are non-decreasing, begin at 0 and end within the op's rows; slots are -1 or inside the pool; no slot is
/// written twice.
public struct Sequences: Sendable {
  public var count: Int
  /// `count + 1` row offsets.
  public var starts: [Int32]
  /// -1 starts from zero.
  public var readSlots: [Int32]
  /// -1 drops the final state.
  public var writeSlots: [Int32]
  /// Indices of the sequences whose read slot another sequence of this op writes. Every read sees the pool as it was
  /// before the op, so a backend copies the slots that these read aside before it writes any.
  public var stagedReads: [Int32]

  public init(
    count: Int, starts: [Int32], readSlots: [Int32], writeSlots: [Int32], stagedReads: [Int32]
  ) {
    self.count = count
    self.starts = starts
    self.readSlots = readSlots
    self.writeSlots = writeSlots
    self.stagedReads = stagedReads
  }
}
