import CPUKernels
import GatedDeltaTypes
import Testing

@testable import CPUBackend
@testable import KernelReferences

/// A random causalConv1d with its tensors.
struct ConvCase {
  var op: CausalConv1d
  var sequences: Sequences
  let x, weight, state, out: TestTensor
  let bias: TestTensor?

  init(
    lengths: [Int], read: [Int], write: [Int], channels: Int, width: Int, type: DType, outType: DType, stateType: DType,
    _ random: inout Random
  ) throws {
    let tokens = lengths.reduce(0, +) + 1
    let slots = max(lengths.count, 1) + 1
    x = try TestTensor(type, tokens: tokens, dim: channels, padding: 8)
    out = try TestTensor(outType, tokens: tokens, dim: channels, padding: 8)
    weight = try TestTensor(random.pick([.f32, .f16, .bf16]), tokens: channels, dim: width)
    bias = random.bool() ? try TestTensor(random.pick([.f32, .f16, .bf16]), tokens: 1, dim: channels) : nil
    state = try TestTensor(stateType, tokens: slots, heads: channels, dim: width - 1)
    x.fill(-2...2, &random)
    weight.fill(-1...1, &random)
    bias?.fill(-1...1, &random)
    // States contain values of x.
    for i in 0..<state.count { state[raw: i] = Rounding.round(random.float(-2...2), type) }
    out.fill(with: 77)
    sequences = Sequences(lengths: lengths, read: read, write: write)
    op = CausalConv1d(
      tokens: tokens, channels: channels, width: width, slots: slots,
      options: .init(activation: random.pick([.none, .silu])), x: x.view, weight: weight.view, bias: bias?.view,
      state: state.view, out: out.view)
  }

  /// The output's error, and whether every state is exact.
  func check(before: TestTensor) -> (out: Double, states: Bool) {
    var outs: [(Double, Double)] = []
    var exact = true
    for s in 0..<sequences.count {
      let rows = Int(sequences.starts[s])..<Int(sequences.starts[s + 1])
      for c in 0..<op.channels {
        let read = Int(sequences.readSlots[s])
        let old = (0..<op.width - 1).map { read < 0 ? 0 : before[read, c, $0] }
        let (column, state) = Reference.conv(
          x: rows.map { x[$0, 0, c] }, state: old, weight: (0..<op.width).map { weight[c, 0, $0] },
          bias: bias?[0, 0, c] ?? 0, activation: op.options.activation)
        for (row, y) in zip(rows, column) { outs.append((out[row, 0, c], y)) }
        let write = Int(sequences.writeSlots[s])
        if write >= 0 { exact = exact && state == (0..<op.width - 1).map { self.state[write, c, $0] } }
      }
    }
    return (relativeRMS(outs), exact)
  }
}

@Suite struct ConvAndNormTests {
  @Test(arguments: instructionSets) func convAgreesWithTheReference(_ isa: String) throws {
    let device = try device(isa, threads: 2)
    for seed in 0..<60 {
      var random = Random(seed: UInt64(seed))
      let count = random.int(0...4)
      let type = random.pick([DType.f32, .f16, .bf16])
      let write = Array((0...count).shuffled(using: &random).prefix(count)).map { random.int(0...4) == 0 ? -1 : $0 }
      let read = write.map { random.int(0...2) == 0 ? random.int(-1...count) : $0 }
      let one = try ConvCase(
        lengths: (0..<count).map { _ in random.pick([0, 1, 1, 2, 3, 9, 20]) }, read: read, write: write,
        channels: random.pick([1, 7, 8, 24, 100, 300]), width: random.int(2...9), type: type,
        outType: random.pick([type, .f32]), stateType: random.pick([type, .f32]), &random)
      let before = try one.state.copy()
      let guarded = one.out.rowBytes(one.op.tokens - 1..<one.op.tokens)
      try device.run([.causalConv1d(one.op, one.sequences)])
      let result = one.check(before: before)
      #expect(result.out <= bound(one.out.dtype), "seed \(seed)")
      #expect(result.states, "seed \(seed)")
      #expect(one.out.rowBytes(one.op.tokens - 1..<one.op.tokens) == guarded)
      for slot in 0..<one.op.slots where !write.contains(slot) {
        #expect(one.state.rowBytes(slot..<slot + 1) == before.rowBytes(slot..<slot + 1))
      }
    }
  }

  @Test(arguments: instructionSets) func convBitsDoNotDependOnThreadsAndCalls(_ isa: String) throws {
    for width in [2, 4, 7] {
      var results: [[UInt8]] = []
      for (threads, split) in [(1, [12]), (3, [12]), (4, Array(repeating: 1, count: 12)), (1, [1, 2, 9])] {
        var random = Random(seed: UInt64(width))
        let one = try ConvCase(
          lengths: [12], read: [0], write: [0], channels: 270, width: width, type: .bf16, outType: .f32,
          stateType: .bf16, &random)
        let device = try device(isa, threads: threads)
        var start = 0
        for length in split {
          let op = one.op.with(x: one.op.x.after(start), out: one.op.out.after(start))
          try device.run([.causalConv1d(op, Sequences(lengths: [length], read: [0], write: [0]))])
          start += length
        }
        results.append(one.out.bytes + one.state.bytes)
      }
      for result in results.dropFirst() { #expect(result == results[0]) }
    }
  }

  @Test(arguments: instructionSets) func aFreshConvIgnoresTheSlot(_ isa: String) throws {
    for length in [0, 1, 2, 6] {
      var results: [[UInt8]] = []
      for old in [Float.nan, 0] {
        var random = Random(seed: 4)
        let one = try ConvCase(
          lengths: [length], read: [-1], write: [0], channels: 24, width: 4, type: .f16, outType: .f16,
          stateType: .f32, &random)
        one.state.fill(with: old)
        try device(isa).run([.causalConv1d(one.op, one.sequences)])
        results.append(one.out.bytes + one.state.rowBytes(0..<1))
      }
      #expect(results[0] == results[1])
    }
  }

  @Test(arguments: instructionSets) func normAgreesWithTheReference(_ isa: String) throws {
    for seed in 0..<60 {
      var random = Random(seed: UInt64(seed))
      let type = random.pick([DType.f32, .f16, .bf16])
      let tokens = random.int(0...3)
      let heads = random.int(1...3)
      let dim = random.pick([1, 3, 8, 16, 24, 100, 128, 1000, 1024, 1025, 2500])
      let xType = random.pick([type, .f32])
      let x = try TestTensor(xType, tokens: tokens, heads: heads, dim: dim, padding: random.int(0...1) * 8)
      let z = try TestTensor(type, tokens: tokens, heads: heads, dim: dim, padding: random.int(0...1) * 8)
      let weight = try TestTensor(random.pick([.f32, .f16, .bf16]), tokens: 1, dim: dim)
      let out = try TestTensor(random.pick([type, .f32]), tokens: tokens, heads: heads, dim: dim, padding: 8)
      x.fill(-3...3, &random)
      z.fill(-6...6, &random)
      weight.fill(-2...2, &random)
      out.fill(with: 77)
      let op = GatedRMSNorm(
        tokens: tokens, heads: heads, dim: dim,
        options: .init(
          activation: random.pick([.silu, .sigmoid]), order: random.pick(NormOrder.allCases),
          eps: random.pick([1e-6, 1e-2])),
        x: x.view, z: z.view, weight: weight.view, out: out.view)
      let before = out.bytes
      try device(isa, threads: 2).run([.gatedRMSNorm(op)])
      var pairs: [(Double, Double)] = []
      for token in 0..<tokens {
        for head in 0..<heads {
          let truth = Reference.gatedNorm(
            x: (0..<dim).map { x[token, head, $0] }, z: (0..<dim).map { z[token, head, $0] },
            weight: (0..<dim).map { weight[0, 0, $0] }, activation: op.options.activation, order: op.options.order,
            eps: Double(op.options.eps))
          for i in 0..<dim {
            pairs.append((out[token, head, i], truth[i]))
            out[token, head, i] = 77
          }
        }
      }
      #expect(relativeRMS(pairs) <= bound(out.dtype), "seed \(seed): \(op)")
      #expect(out.bytes == before)
    }
  }

  @Test(arguments: instructionSets) func linearAgreesWithTheReference(_ isa: String) throws {
    for seed in 0..<40 {
      var random = Random(seed: UInt64(seed))
      let type = random.pick([DType.f32, .f16, .bf16])
      let rows = random.pick([0, 1, 2, 5, 9])
      let inputs = random.pick([1, 8, 15, 16, 100, 256])
      let outputs = random.pick([1, 3, 16, 37])
      let x = try TestTensor(type, tokens: rows, dim: inputs, padding: 8)
      let weight = try TestTensor(random.pick([.f32, .f16, .bf16]), tokens: outputs, dim: inputs)
      let out = try TestTensor(random.pick([type, .f32]), tokens: rows, dim: outputs, padding: 8)
      x.fill(-1...1, &random)
      weight.fill(-1...1, &random)
      out.fill(with: 77)
      let before = out.bytes
      let op = Linear(
        rows: rows, inFeatures: inputs, outFeatures: outputs, x: x.view, weight: weight.view, out: out.view)
      try device(isa, threads: 2).run([.linear(op)])
      var pairs: [(Double, Double)] = []
      var whole: [Double] = []
      for row in 0..<rows {
        for o in 0..<outputs {
          let truth = (0..<inputs).reduce(0.0) { $0 + x[row, 0, $1] * weight[o, 0, $1] }
          pairs.append((out[row, 0, o], truth))
          whole.append(out[row, 0, o])
          out[row, 0, o] = 77
        }
      }
      #expect(relativeRMS(pairs) <= bound(out.dtype, 4e-6), "seed \(seed): \(op)")
      #expect(out.bytes == before)

      // Each row alone, on one thread, has the same bits.
      for row in 0..<rows {
        let one = Linear(rows: 1, x: op.x.after(row), matrix: op.matrix, out: op.out.after(row))
        try device(isa).run([.linear(one)])
      }
      #expect((0..<rows).flatMap { row in (0..<outputs).map { out[row, 0, $0] } } == whole)
    }
  }
}
