import CGatedDelta
import GatedDeltaTypes

/// The index data of a ragged batch, unchecked.
struct RaggedArguments {
  var cuSeqlens, readSlots, writeSlots: gd_index

  /// The number of sequences. If it is left to the default but slots imply another number, `cuSeqlens` is missing.
  func sequences() throws(Failure) -> Int {
    guard cuSeqlens.isAbsent else {
      guard cuSeqlens.count >= 1 else {
        throw Failure(.shape, argument: "cuSeqlens", expected: "sequences + 1 offsets", received: "none")
      }
      try Check.sequences(cuSeqlens.count &- 1, "cuSeqlens")
      return Int(cuSeqlens.count) &- 1
    }
    let (name, count) = readSlots.isAbsent ? ("writeSlots", writeSlots) : ("readSlots", readSlots)
    let isAgreed = readSlots.isAbsent || writeSlots.isAbsent || readSlots.count == writeSlots.count
    guard count.count <= 1 || !isAgreed else {
      throw Failure(
        .invalidArgument, argument: "cuSeqlens",
        expected: "\(count.count &+ 1) offsets for the \(count.count) sequences of \(name)",
        received: "none, which means one sequence")
    }
    return 1
  }
}

extension Validator {
  /// The sequences of an op over a ragged batch.
  mutating func ragged(
    _ given: RaggedArguments, tokens: UInt32, sequences: Int, slots: UInt32, hasPool: Bool
  ) throws(Failure) -> SequenceRecipe {
    SequenceRecipe(
      count: sequences,
      rows: .ragged(tokens: Int(tokens), cuSeqlens: try index(given.cuSeqlens, "cuSeqlens", count: sequences &+ 1)),
      slots: Int(slots), hasPool: hasPool,
      readSlots: try index(given.readSlots, "readSlots", count: sequences, "slots, one a sequence"),
      writeSlots: try index(given.writeSlots, "writeSlots", count: sequences, "slots, one a sequence"))
  }
}
