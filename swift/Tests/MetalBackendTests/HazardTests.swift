import GatedDeltaTypes
import Testing

@testable import KernelReferences
@testable import MetalBackend

#if os(Linux)
  @testable import Metal
#else
  import Metal
#endif

@Suite(.enabled(if: Devices.haveDevice, "there is no Metal device")) struct HazardTests {
  let memory: MetalMemory
  let other: MetalMemory

  init() throws {
    let device = try Devices.bare()
    memory = MetalMemory(try #require(device.makeBuffer(length: 32768)), byteCount: 32768, .own)
    let over = device.makeBuffer(bytesNoCopy: memory.pointer, length: 32768)
    other = MetalMemory(try #require(over), byteCount: 32768, .wrapped)
  }

  /// A range of `memory`, through its buffer or through another buffer over the same memory.
  func region(_ bytes: Range<Int>, _ through: MetalMemory? = nil) -> Region {
    Region(through ?? memory, offset: bytes.lowerBound, byteCount: bytes.count)
  }

  /// True if the second dispatch must wait for the first.
  func blocks(_ first: Argument, _ second: Argument) -> Bool {
    var hazards = Hazards()
    hazards.add([.absent, first])
    return hazards.block([.absent, second])
  }

  @Test func whatIsWrittenIsWaitedFor() {
    #expect(blocks(.writes(region(0..<64)), .reads(region(0..<64))))
    #expect(blocks(.writes(region(0..<64)), .writes(region(32..<96))))
    #expect(blocks(.reads(region(0..<64)), .writes(region(63..<64))))
    #expect(blocks(.writes(region(0..<1024)), .reads(region(512..<516))))
  }

  @Test func whatIsOnlyReadIsNot() {
    #expect(!blocks(.reads(region(0..<64)), .reads(region(0..<64))))
  }

  @Test func neighboursAndEmptyRegionsAreNot() {
    #expect(!blocks(.writes(region(0..<64)), .reads(region(64..<128))))
    #expect(!blocks(.writes(region(64..<128)), .writes(region(0..<64))))
    #expect(!blocks(.writes(region(0..<64)), .reads(region(32..<32))))
    #expect(!blocks(.writes(region(32..<32)), .reads(region(0..<64))))
    #expect(!blocks(.absent, .writes(region(0..<64))))
  }

  @Test func twoBuffersOverOneMemoryAreSeenThrough() {
    #expect(blocks(.writes(region(0..<64)), .reads(region(0..<64, other))))
    #expect(!blocks(.writes(region(0..<64)), .reads(region(64..<128, other))))
  }

  @Test func aBarrierSettlesAll() {
    var hazards = Hazards()
    hazards.add([.writes(region(0..<64)), .reads(region(64..<128))])
    #expect(hazards.block([.reads(region(0..<4))]) && hazards.block([.writes(region(100..<104))]))
    hazards.reset()
    #expect(!hazards.block([.writes(region(0..<128))]))
  }

  /// Against a list of all ranges that is searched from end to end.
  @Test func aSetOfAddressesIsTheUnionOfItsRanges() {
    var random = Random(seed: 11)
    for _ in 0..<40 {
      var set = AddressSet<UInt>()
      var all: [Range<UInt>] = []
      for _ in 0..<60 {
        let start = UInt(random.int(0...400))
        let range = start..<(start + UInt(random.int(0...12)))
        let wanted = all.contains { $0.overlaps(range) }
        #expect(set.meets(range) == wanted)
        set.insert(range)
        all.append(range)
        #expect(zip(set.ranges, set.ranges.dropFirst()).allSatisfy { $0.upperBound < $1.lowerBound })
      }
    }
  }

  /// The number of tracked ranges is bounded: a barrier comes before it grows further.
  @Test func whatIsKeptIsBounded() {
    var hazards = Hazards()
    var barriers = 0
    for i in 0..<2000 {
      let argument = Argument.reads(region(8 * i..<8 * i + 4))
      if hazards.block([argument]) {
        barriers += 1
        hazards.reset()
      }
      hazards.add([argument])
    }
    #expect((1...2000 / (AddressSet<UInt>.limit - 32)).contains(barriers))
  }

  /// The comparisons for looking up and adding one range, by the number of ranges: logarithmic, up to the bound.
  @Test func comparisonsDoNotGrowWithWhatIsThere() {
    var set = AddressSet<Counted>()
    var most: [Int: Int] = [:]
    var random = Random(seed: 12)
    while !set.isFull {
      let start = 16 * random.int(0...100_000)
      let range = Counted(start)..<Counted(start + 8)
      let before = Counted.comparisons
      let isThere = set.meets(range)
      if !isThere { set.insert(range) }
      let bits = Int.bitWidth - set.ranges.count.leadingZeroBitCount
      most[bits] = max(most[bits] ?? 0, Counted.comparisons - before)
    }
    for (bits, comparisons) in most { #expect(comparisons <= 2 * bits + 12, "\(comparisons) for \(1 << bits) ranges") }
    #expect(most.keys.max() == 8)
  }

  @Test func tensorsCoverWhatTheirStridesReach() throws {
    let view = TensorView(memory: memory, offset: 128, dtype: .f16, tokenStride: 64, headStride: 16)
    let start = UInt(bitPattern: memory.pointer)
    #expect(try view.region(tokens: 3, heads: 2, width: 8).addresses == start + 128..<start + 128 + 2 * (128 + 16 + 8))
    #expect(try view.region(tokens: 0, heads: 2, width: 8).isEmpty)
    #expect(try view.region(elements: 5).addresses.count == 10)
    let foreign = TensorView(
      memory: Memory(pointer: memory.pointer, byteCount: 64, origin: .wrapped), offset: 0, dtype: .f32, tokenStride: 1,
      headStride: 1)
    #expect(throws: Failure.self) { try foreign.region(elements: 1) }
  }
}

@Suite(.enabled(if: Devices.haveDevice, "there is no Metal device")) struct ArenaTests {
  @Test func piecesAreAlignedAndApart() throws {
    let pool = ArenaPool(device: try Devices.bare())
    var arena = Arena(pool: pool)
    var seen: [Range<UInt>] = []
    for bytes in [1, 4, 255, 256, 257, 100_000, 200_000, 1 << 20, 4] {
      let region = try arena.region(byteCount: bytes)
      #expect(region.addresses.count == bytes)
      region.bound { buffer, offset in #expect(offset % 256 == 0 && offset + bytes <= buffer.length) }
      #expect(!seen.contains { $0.overlaps(region.addresses) })
      seen.append(region.addresses)
    }
    #expect(arena.chunks.count == 5)
  }

  /// Hundreds of submissions of a piece each may be in flight; one of thousands of pieces takes few chunks.
  @Test func chunksGrow() throws {
    let pool = ArenaPool(device: try Devices.bare())
    var arena = Arena(pool: pool)
    _ = try arena.region(byteCount: 4)
    #expect(arena.chunks.map(\.byteCount) == [16 << 10])
    for _ in 0..<4096 { _ = try arena.region(byteCount: 256) }
    let sizes = arena.chunks.map(\.byteCount)
    #expect(sizes == [16, 32, 64, 128, 256, 256, 256, 256].prefix(sizes.count).map { $0 << 10 })
    #expect(sizes.count >= 6)
    // Free chunks are used in the order of their sizes, in whatever order they were returned.
    pool.giveBack(arena.chunks.shuffled())
    var next = Arena(pool: pool)
    for _ in 0..<4097 { _ = try next.region(byteCount: 256) }
    #expect(next.chunks.map(\.byteCount) == sizes)
    #expect(next.chunks.allSatisfy { chunk in arena.chunks.contains { $0.buffer === chunk.buffer } })
  }

  @Test func indexDataIsCopied() throws {
    var arena = Arena(pool: ArenaPool(device: try Devices.bare()))
    _ = try arena.region(byteCount: 300)
    let values: [Int32] = [3, -1, .min, .max]
    let region = try arena.region(copying: values)
    let start = region.bound { $0.contents() + $1 }
    #expect(start == region.contents)
    #expect(values.indices.map { start.load(fromByteOffset: 4 * $0, as: Int32.self) } == values)
    #expect(try arena.region(copying: [Int32]()).addresses.count == 4)
    let long = [UInt32](repeating: 7, count: 100_000)
    let far = try arena.region(copying: long)
    #expect(far.contents.load(fromByteOffset: 399_996, as: UInt32.self) == 7)
  }

  @Test func chunksAreUsedAgainUpToABound() throws {
    let pool = ArenaPool(device: try Devices.bare())
    var arena = Arena(pool: pool)
    _ = try arena.region(byteCount: 10)
    _ = try arena.region(byteCount: ArenaPool.keptBytes)
    let first = try #require(arena.chunks.first)
    pool.giveBack(arena.chunks)
    #expect(try pool.take(atLeast: 1).buffer === first.buffer)
    // The large one was more than is kept.
    #expect(try pool.take(atLeast: 1 << 20).byteCount == 1 << 20)
  }

  @Test func moreThanABufferHoldsIsAnError() throws {
    let device = try Devices.bare()
    var arena = Arena(pool: ArenaPool(device: device))
    #expect { try arena.region(byteCount: device.maxBufferLength + 1) } throws: { error in
      (error as? Failure)?.code == .outOfMemory
    }
  }
}

/// An address that counts its comparisons.
private struct Counted: Comparable {
  /// Of the one test that uses it.
  nonisolated(unsafe) static var comparisons = 0

  let value: Int
  init(_ value: Int) { self.value = value }

  static func < (a: Counted, b: Counted) -> Bool {
    comparisons += 1
    return a.value < b.value
  }
  static func == (a: Counted, b: Counted) -> Bool {
    comparisons += 1
    return a.value == b.value
  }
}
