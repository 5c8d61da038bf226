import GatedDeltaTypes
import Testing

@testable import CPUBackend
@testable import KernelReferences

/// Subnormal states, which one instruction for rounding to bf16 treats as zeros.
@Suite struct SubnormalStateTests {
  /// One token into states of 16-bit elements gives the rounded f32 states. Among the new elements are zeros, subnormal
  /// numbers, and both mixed with normal ones.
  @Test(arguments: instructionSets) func statesAreRoundedOnce(_ isa: String) throws {
    let device = try device(isa)
    defer { device.close() }
    for (seed, keyDim) in [128, 40, 8, 200].enumerated() {
      for (stateType, tiny) in [(DType.bf16, Float(0x1p-126)), (.f16, 0x1p-14)] {
        for share in [0, 3, 100] {
          var random = Random(seed: UInt64(seed))
          let one = try DeltaCase(.inPlace([1, 1], keyDim: keyDim, valueDim: 24, stateType: stateType), &random)
          for i in 0..<one.value.count { one.value[raw: i] *= tiny }
          for i in 0..<one.state.count {
            let normal = random.int(0...99) < share
            one.state[raw: i] = normal ? one.state[raw: i] : random.pick([0, -0.0, one.state[raw: i] * tiny])
          }
          let exact = try TestTensor(.f32, tokens: one.state.tokens, heads: one.state.heads, dim: one.state.dim)
          for i in 0..<one.state.count { exact[raw: i] = one.state[raw: i] }
          try device.run([.gatedDelta(one.op.with(state: exact.view, out: try one.out.copy().view), one.sequences)])
          try device.run([.gatedDelta(one.op, one.sequences)])
          let rounded = (0..<exact.count).map { Rounding.encode(Rounding.round(exact[raw: $0], stateType), stateType) }
          let stored = (0..<one.state.count).map { Rounding.encode(one.state[raw: $0], stateType) }
          #expect(stored == rounded, "\(stateType), \(keyDim), \(share) %")
          let subnormal = (0..<exact.count).filter { exact[raw: $0] != 0 && exact[raw: $0].magnitude < tiny }.count
          #expect(share > 0 || subnormal > 0)
        }
      }
    }
  }
}
