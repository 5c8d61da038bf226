import GatedDeltaTypes
import Testing

@testable import GatedDelta

@Suite struct ShapeTests {
  /// Marks every element that the strides reach.
  static func elements(_ shape: Shape, _ strides: Strides) -> [UInt64] {
    var elements: [UInt64] = []
    for token in 0..<shape.tokens {
      for head in 0..<shape.heads {
        for index in 0..<shape.row { elements.append(token * strides.token + head * strides.head + index) }
      }
    }
    return elements
  }

  @Test func extentsAndOverlapsAgreeWithWhatIsTouched() throws {
    var generator = SplitMix(seed: 5)
    var apart = 0
    for _ in 0..<4000 {
      let shape = Shape(generator.next() % 5, generator.next() % 5, generator.next() % 7)
      let strides = try #require(Strides(token: generator.next() % 40, head: generator.next() % 12, of: shape))
      let elements = Self.elements(shape, strides)
      #expect(strides.extent(of: shape) == elements.max().map { $0 + 1 } ?? 0)
      let isShared = Set(elements).count != elements.count
      // Rows that interleave without sharing an element are refused as well; the other way round would be a bug.
      if isShared { #expect(strides.rowsOverlap(in: shape), "\(shape) \(strides)") }
      apart += strides.rowsOverlap(in: shape) ? 0 : 1
      let packed = try #require(Strides(token: 0, head: 0, of: shape))
      #expect(!packed.rowsOverlap(in: shape))
      #expect(packed.extent(of: shape) == (shape.isEmpty ? 0 : shape.tokens * shape.heads * shape.row))
    }
    #expect(apart > 500)
  }

  @Test func headsFirstIsALegalOutput() throws {
    let shape = Shape(10, 3, 8)
    let strides = try #require(Strides(token: 8, head: 80, of: shape))
    #expect(!strides.rowsOverlap(in: shape) && strides.extent(of: shape) == 240)
  }

  @Test func numbersThatDoNotFitAreFoundOut() {
    let huge = Shape(UInt32.max, UInt32.max, UInt64.max)
    #expect(Strides(token: 0, head: 0, of: huge) == nil)
    #expect(Strides(token: .max, head: 8, of: Shape(2, 2, 8)) == nil)
    let strides = Strides(token: 1 << 62, head: 1 << 62, of: Shape(4, 2, 8))
    #expect(strides != nil && strides?.extent(of: Shape(4, 2, 8)) == nil)
    #expect(strides?.extent(of: Shape(5, 1, 8)) == nil)
    // Strides that are never used are made contiguous.
    let single = Strides(token: .max, head: .max, of: Shape(1, 1, 8))
    #expect(single?.token == 8 && single?.head == 8 && single?.extent(of: Shape(1, 1, 8)) == 8)
  }
}
