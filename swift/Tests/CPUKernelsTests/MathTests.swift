import CPUKernels
import GatedDeltaTypes
import Testing

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

@testable import CPUBackend
@testable import KernelReferences

@Suite struct MathTests {
  typealias Map = @convention(c) (UnsafePointer<Float>?, UnsafeMutablePointer<Float>?, Int64) -> Void

  func apply(_ map: Map?, _ input: [Float]) -> [Float] {
    var output = [Float](repeating: -1, count: input.count)
    map?(input, &output, Int64(input.count))
    return output
  }

  /// The error in units in the last place of the true value.
  func units(_ x: Float, _ truth: Double) -> Double {
    let exponent = max(Double(truth.magnitude).exponent, -126)
    return abs(Double(x) - truth) / Double(sign: .plus, exponent: Int(exponent) - 23, significand: 1)
  }

  func inputs(_ range: ClosedRange<Float>) -> [Float] {
    var random = Random(seed: 7)
    return (0..<20_000).map { _ in random.float(range) }
      + (0..<4_000).map { _ in
        Float(sign: random.bool() ? .plus : .minus, exponent: random.int(-40...6), significand: 1.37)
      }.filter { range.contains($0) }
  }

  @Test(arguments: instructionSets) func functionsAreAccurate(_ isa: String) throws {
    let table = try kernels(isa)
    var worst: [Double] = [0, 0, 0]
    for (x, y) in zip(inputs(-104...89), apply(table.exp, inputs(-104...89))) where exp(Double(x)) < 3.4e38 {
      worst[0] = max(worst[0], units(y, exp(Double(x))))
    }
    for (x, y) in zip(inputs(-110...110), apply(table.sigmoid, inputs(-110...110))) {
      worst[1] = max(worst[1], units(y, Reference.sigmoid(Double(x))))
    }
    for (x, y) in zip(inputs(-110...110), apply(table.softplus, inputs(-110...110))) {
      worst[2] = max(worst[2], units(y, Reference.softplus(Double(x))))
    }
    #expect(worst[0] < 1.1)
    #expect(worst[1] < 2.5)
    #expect(worst[2] < 2.5)
  }

  /// The functions of norms and convolutions: the bounds that math.h states, and the ends of their domains.
  @Test(arguments: instructionSets) func activationsAreAccurate(_ isa: String) throws {
    let table = try kernels(isa)
    for (range, most) in [(Float(-20)...20, 3e-7), (-87...100, 5e-7)] {
      var worst = [0.0, 0.0]
      let x = inputs(range)
      for (x, (silu, sigmoid)) in zip(x, zip(apply(table.silu, x), apply(table.activation_sigmoid, x))) where x != 0 {
        let truth = Reference.sigmoid(Double(x))
        worst[0] = max(worst[0], abs(Double(silu) / (Double(x) * truth) - 1))
        worst[1] = max(worst[1], abs(Double(sigmoid) / truth - 1))
      }
      #expect(worst[0] < most && worst[1] < most, "\(range): \(worst)")
    }
    let last = inputs(-88.7 ... -87)
    for (x, silu) in zip(last, apply(table.silu, last)) {
      #expect(abs(Double(silu) / (Double(x) * Reference.sigmoid(Double(x))) - 1) < 5e-7, "\(x)")
    }
    let extremes: [Float] = [-.infinity, -1e30, -88, 0, -0.0, 88, 1e30, .infinity, .nan]
    let silus = apply(table.silu, extremes)
    #expect(silus.prefix(2).allSatisfy { $0 < 0 && $0 > -3e-37 } && silus[2] < 0 && silus[2] > -5.4e-37)
    #expect(silus[3..<8] == [0, 0, 88, 1e30, .infinity])
    #expect(silus[4].sign == .minus && silus[8].isNaN)
    let sigmoids = apply(table.activation_sigmoid, extremes)
    #expect(sigmoids.prefix(3).allSatisfy { $0 > 0 && $0 < 2e-38 } && sigmoids[3..<8] == [0.5, 0.5, 1, 1, 1])
    #expect(sigmoids[8].isNaN)
  }

  @Test(arguments: instructionSets) func limitsAreExact(_ isa: String) throws {
    let table = try kernels(isa)
    let extremes: [Float] = [-.infinity, -1e30, -104, 0, -0.0, 88.8, 1e30, .infinity, .nan]
    let exponentials = apply(table.exp, extremes)
    #expect(exponentials.prefix(8) == [0, 0, 0, 1, 1, .infinity, .infinity, .infinity])
    #expect(exponentials[8].isNaN)
    let sigmoids = apply(table.sigmoid, extremes)
    #expect(sigmoids.prefix(8) == [0, 0, 0, 0.5, 0.5, 1, 1, 1])
    #expect(sigmoids[8].isNaN)
    let softpluses = apply(table.softplus, extremes)
    #expect(softpluses[0] == 0 && softpluses[1] == 0 && softpluses[6] == 1e30 && softpluses[7] == .infinity)
    #expect(softpluses[8].isNaN)
  }

  @Test(arguments: instructionSets) func bitsDoNotDependOnTheLane(_ isa: String) throws {
    let table = try kernels(isa)
    for map in [table.exp, table.sigmoid, table.softplus, table.silu, table.activation_sigmoid] {
      let whole = apply(map, inputs(-90...80))
      for start in [1, 5, 13] {
        let part = apply(map, Array(inputs(-90...80).dropFirst(start).prefix(500)))
        #expect(part.map(\.bitPattern) == whole.dropFirst(start).prefix(500).map(\.bitPattern))
      }
    }
  }

  @Test(arguments: instructionSets) func conversionsRoundToNearestEven(_ isa: String) throws {
    let table = try kernels(isa)
    var random = Random(seed: 3)
    var floats: [Float] = [0, -0.0, 65504, 65519.996, 65520, -65520, 1e30, 0x1p-24, 0x1p-25, 0x1.8p-24]
    floats += [.infinity, -.infinity]
    for _ in 0..<20_000 { floats.append(Float(bitPattern: UInt32(truncatingIfNeeded: random.next()))) }
    for _ in 0..<2000 { floats.append(Float(bitPattern: UInt32(truncatingIfNeeded: random.next()) & 0x807f_ffff)) }
    for _ in 0..<20_000 { floats.append(random.float(-2...2) * 0x1p-12) }
    for dtype in [DType.f16, .bf16] {
      var bits = [UInt16](repeating: 0, count: floats.count)
      table.convert(floats, DType.f32.rawValue, &bits, dtype.rawValue, Int64(floats.count))
      for (x, y) in zip(floats, bits) {
        if x.isNaN {
          #expect(Rounding.decode(y, dtype).isNaN)
        } else if y != Rounding.encode(x, dtype) {
          Issue.record("\(x) became \(String(y, radix: 16)) in \(dtype)")
        }
      }
      let all = (0...UInt16.max).map { $0 }
      var back = [Float](repeating: 0, count: all.count)
      table.convert(all, dtype.rawValue, &back, DType.f32.rawValue, Int64(all.count))
      for (bits, x) in zip(all, back) {
        let truth = Rounding.decode(bits, dtype)
        #expect(truth.isNaN ? x.isNaN : x.bitPattern == truth.bitPattern)
      }
    }
  }
}
