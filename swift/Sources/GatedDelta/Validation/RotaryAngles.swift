import GatedDeltaTypes

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// Cosines and sines of the rotary position embedding, from float64 arithmetic: the angle of pair i at a position is
/// position theta^(-2 i / dim). A position is 1024 high + low, and the cosine and sine of its angle come from the
/// product of two cached unit numbers, so that a row costs a few multiplications. The error of a result is about 2^-52,
/// plus the rounding to float32. One per device, used by its thread only.
final class RotaryAngles: @unchecked Sendable {
  private struct Key: Equatable {
    var dim: Int
    var theta: Float
  }

  /// Unit numbers of one base: cosine and sine of each pair.
  private final class Base {
    let key: Key
    let frequencies: [Double]
    /// Rows of 2 pairs doubles, by low part; computed when first needed.
    var low: [Double]
    var hasLow: [Bool]
    var high: [Int32: [Double]] = [:]

    init(_ key: Key) {
      self.key = key
      let pairs = key.dim / 2
      frequencies = (0..<pairs).map { pow(Double(key.theta), -2 * Double($0) / Double(key.dim)) }
      low = [Double](repeating: 0, count: RotaryAngles.step &* pairs &* 2)
      hasLow = [Bool](repeating: false, count: RotaryAngles.step)
    }
  }

  static let step = 1024
  /// The limit of high parts: beyond it, all are computed again.
  private static let mostHigh = 256
  /// The bases used most recently, the latest first.
  private var bases: [Base] = []
  private static let mostBases = 4

  /// For each position `dim` floats: cosines of all pairs, then sines. Positions are 0 or greater, `dim` is even and
  /// positive.
  func table(_ positions: [Int32], dim: Int, theta: Float) -> [Float] {
    let base = self.base(Key(dim: dim, theta: theta))
    let pairs = dim / 2
    return [Float](unsafeUninitializedCapacity: positions.count &* dim) { table, count in
      for (row, position) in positions.enumerated() {
        let high = self.high(base, position >> 10)
        let low = self.low(base, Int(position & 1023))
        for pair in 0..<pairs {
          let (a, b) = (high[2 &* pair], high[2 &* pair &+ 1])
          let (c, d) = (base.low[low &+ 2 &* pair], base.low[low &+ 2 &* pair &+ 1])
          table[row &* dim &+ pair] = Float(a * c - b * d)
          table[row &* dim &+ pairs &+ pair] = Float(a * d + b * c)
        }
      }
      count = positions.count &* dim
    }
  }

  private func base(_ key: Key) -> Base {
    if let place = bases.firstIndex(where: { $0.key == key }) {
      if place > 0 { bases.insert(bases.remove(at: place), at: 0) }
    } else {
      if bases.count == RotaryAngles.mostBases { bases.removeLast() }
      bases.insert(Base(key), at: 0)
    }
    return bases[0]
  }

  private func high(_ base: Base, _ part: Int32) -> [Double] {
    if let row = base.high[part] { return row }
    if base.high.count >= RotaryAngles.mostHigh { base.high.removeAll(keepingCapacity: true) }
    let row = base.frequencies.flatMap { frequency in
      let angle = Double(part) * Double(RotaryAngles.step) * frequency
      return [cos(angle), sin(angle)]
    }
    base.high[part] = row
    return row
  }

  /// The offset of the row of a low part.
  private func low(_ base: Base, _ part: Int) -> Int {
    let start = part &* base.frequencies.count &* 2
    if !base.hasLow[part] {
      for (pair, frequency) in base.frequencies.enumerated() {
        base.low[start &+ 2 &* pair] = cos(Double(part) * frequency)
        base.low[start &+ 2 &* pair &+ 1] = sin(Double(part) * frequency)
      }
      base.hasLow[part] = true
    }
    return start
  }
}
