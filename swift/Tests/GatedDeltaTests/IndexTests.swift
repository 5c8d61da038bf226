import CGatedDelta
import GatedDeltaTypes
import Testing

@testable import GatedDelta

@Suite struct IndexTests {
  /// Encodes a convolution over 6 tokens and 4 slots with the given index data and returns its sequences.
  static func sequences(
    _ fixture: Fixture, starts: [Int32]? = nil, reads: [Int32]? = nil, writes: [Int32]? = nil, slots: Int = 4
  ) throws -> Sequences? {
    var op = try fixture.causalConv1d(slots: slots)
    if let starts { op.cu_seqlens = try fixture.index(starts).index }
    if let reads { op.read_slots = try fixture.index(reads).index }
    if let writes { op.write_slots = try fixture.index(writes).index }
    guard gd_encode_causal_conv1d(fixture.device, &op) == GD_OK else { return nil }
    return try #require(try fixture.committedOps().first).sequences
  }

  @Test func whatIsAbsentHasItsDefault() throws {
    let fixture = try Fixture()
    let plain = try #require(try Self.sequences(fixture))
    #expect(plain.starts == [0, 6] && plain.readSlots == [0] && plain.writeSlots == [0])
    let three = try #require(try Self.sequences(fixture, starts: [0, 1, 1, 6]))
    #expect(three.readSlots == [0, 1, 2] && three.writeSlots == [0, 1, 2] && three.stagedReads.isEmpty)
    let reads = try #require(try Self.sequences(fixture, starts: [0, 2, 4], reads: [3, -1]))
    #expect(reads.writeSlots == [3, -1])
    let writes = try #require(try Self.sequences(fixture, starts: [0, 2, 4], writes: [1, 0]))
    #expect(writes.readSlots == [0, 1] && writes.writeSlots == [1, 0] && writes.stagedReads == [0, 1])
    let stateless = try #require(try Self.sequences(fixture, starts: [0, 2, 4], slots: 0))
    #expect(stateless.readSlots == [-1, -1] && stateless.writeSlots == [-1, -1])
  }

  @Test func startsThatAreNoneAreRefused() throws {
    let fixture = try Fixture()
    for (starts, argument) in [
      ([1, 6], "cuSeqlens[0]"), ([-1, 6], "cuSeqlens[0]"), ([0, 4, 3], "cuSeqlens[2]"), ([0, .min], "cuSeqlens[1]"),
      ([0, 7], "cuSeqlens[1]"), ([0, 3, .max, 6], "cuSeqlens[3]"), ([0, 1, 2, 3, 7], "cuSeqlens[4]"),
    ] as [([Int32], String)] {
      #expect(try Self.sequences(fixture, starts: starts) == nil)
      #expect(LastError().argument == argument, "\(starts): \(LastError())")
    }
    let short = try #require(try Self.sequences(fixture, starts: [0, 2]))
    #expect(short.starts == [0, 2])
  }

  @Test func slotsOutsideThePoolAreRefused() throws {
    let fixture = try Fixture()
    for bad in [-2, 4, Int32.min, Int32.max] {
      #expect(try Self.sequences(fixture, starts: [0, 1, 2], reads: [0, bad]) == nil)
      #expect(LastError().argument == "readSlots[1]", "\(LastError())")
      #expect(try Self.sequences(fixture, starts: [0, 1, 2], writes: [bad, 0]) == nil)
      #expect(LastError().argument == "writeSlots[0]", "\(LastError())")
    }
    #expect(try Self.sequences(fixture, starts: [0, 1, 2], reads: [-1, 0], slots: 0) == nil)
    #expect(LastError().argument == "readSlots[1]" && LastError().expected.contains("no state"))
    #expect(try Self.sequences(fixture, starts: [0, 1, 1, 1, 1, 1]) == nil)
    #expect(LastError().argument == "readSlots", "five sequences, four slots: \(LastError())")
  }

  @Test func noSlotIsWrittenTwice() throws {
    let fixture = try Fixture()
    #expect(try Self.sequences(fixture, starts: [0, 1, 2, 3], writes: [2, 0, 2]) == nil)
    #expect(LastError().argument == "writeSlots[2]" && LastError().received.contains("writeSlots[0]"))
    #expect(try Self.sequences(fixture, starts: [0, 1, 2], reads: [1, 1]) == nil)
    #expect(LastError().argument == "readSlots[1]", "reads stand for the writes too: \(LastError())")
    let dropped = try #require(try Self.sequences(fixture, starts: [0, 1, 2], reads: [1, 1], writes: [-1, -1]))
    #expect(dropped.stagedReads.isEmpty)
    let fork = try #require(try Self.sequences(fixture, starts: [0, 1, 2], reads: [1, 1], writes: [1, 3]))
    #expect(fork.stagedReads == [1])
  }

  @Test func indexDataIsTakenFromUnalignedPointers() throws {
    let fixture = try Fixture()
    let bytes = UnsafeMutableRawPointer.allocate(byteCount: 32, alignment: 8)
    defer { bytes.deallocate() }
    let pointer = (bytes + 3).assumingMemoryBound(to: Int32.self)
    for (position, value) in [Int32(0), 5, 6].enumerated() {
      (bytes + 3 + position * 4).storeBytes(of: value, as: Int32.self)
    }
    var op = try fixture.causalConv1d(sequences: 2)
    op.cu_seqlens = gd_index(buffer: 0, offset: 0, pointer: pointer, count: 3)
    #expect(gd_encode_causal_conv1d(fixture.device, &op) == GD_OK, "\(LastError())")
    #expect(try #require(try fixture.committedOps().first).sequences?.starts == [0, 5, 6])
  }

  @Test func indexDataThatIsNotThereIsRefused() throws {
    let fixture = try Fixture()
    let valid = try fixture.causalConv1d(sequences: 2)
    let inside = try fixture.index([9, 0, 2, 4]).index
    let values = SharedWords(3)
    func at(_ offset: UInt64, count: UInt64 = 3, pointer: UnsafeMutablePointer<Int32>? = nil) -> gd_index {
      gd_index(buffer: inside.buffer, offset: offset, pointer: pointer, count: count)
    }
    for (name, index, status) in [
      ("no count", at(4, count: 0), GD_ERROR_SHAPE),
      ("a count beyond memory", at(0, count: .max), GD_ERROR_RANGE),
      ("a count beyond its memory", at(0, count: 5), GD_ERROR_SHAPE),
      ("a count without data", gd_index(buffer: 0, offset: 0, pointer: nil, count: 3), GD_ERROR_INVALID_ARGUMENT),
      ("an offset beyond the end", at(8), GD_ERROR_SHAPE),
      ("an offset beyond integers", at(.max - 3), GD_ERROR_SHAPE),
      ("an offset between elements", at(2), GD_ERROR_RANGE),
      ("two places", at(4, pointer: values.words), GD_ERROR_INVALID_ARGUMENT),
      ("no buffer", gd_index(buffer: 12345, offset: 0, pointer: nil, count: 3), GD_ERROR_HANDLE),
    ] {
      var op = valid
      op.cu_seqlens = index
      #expect(gd_encode_causal_conv1d(fixture.device, &op) == status, "\(name): \(LastError())")
      #expect(LastError().argument == "cuSeqlens", "\(name)")
    }
    var op = valid
    op.cu_seqlens = at(4)
    #expect(gd_encode_causal_conv1d(fixture.device, &op) == GD_OK, "\(LastError())")
    #expect(try fixture.committedOps().count == 1)
  }

  @Test func laterWritesHaveNoEffect() throws {
    let fixture = try Fixture()
    let (index, memory) = try fixture.index([0, 2, 6])
    var op = try fixture.causalConv1d(sequences: 2)
    op.cu_seqlens = index
    #expect(gd_encode_causal_conv1d(fixture.device, &op) == GD_OK)
    memory[1] = -77
    #expect(try #require(try fixture.committedOps().first).sequences?.starts == [0, 2, 6])
  }

  /// Another thread flips the data all the time: whichever values an encode sees, it passes on valid ones.
  @Test func dataThatChangesDuringTheCheckCannotSlipThrough() async throws {
    let flag = StopFlag()
    let (memory, writer) = (SharedWords(3), StopFlag())
    memory.words[2] = 6
    async let flipping: Void = {
      var generator = SplitMix(seed: 3)
      while !flag.isSet {
        memory.words[1] = generator.next() % 3 == 0 ? Int32.max : Int32(generator.next() % 7)
      }
      writer.set()
    }()
    do {
      let fixture = try Fixture()
      var op = try fixture.causalConv1d(sequences: 2)
      op.cu_seqlens = gd_index(buffer: 0, offset: 0, pointer: memory.words, count: 3)
      var accepted = 0
      for _ in 0..<3000 {
        guard gd_encode_causal_conv1d(fixture.device, &op) == GD_OK else { continue }
        let sequences = try fixture.committedOps().first?.sequences
        let starts = try #require(sequences).starts
        #expect(starts[0] == 0 && (0...6).contains(starts[1]) && starts[2] == 6)
        accepted += 1
        fixture.backend.next()?.finish(nil)
      }
      #expect(accepted > 0)
    }
    flag.set()
    await flipping
    #expect(writer.isSet)
  }
}
