import CPUKernels
import GatedDeltaTypes
import Testing

@testable import CPUBackend
@testable import KernelReferences

/// The fused step against the chain of ops that it replaces: equal bits, in outputs and both states.
@Suite struct StepTests {
  struct Setup {
    var step: GatedDeltaStep
    var chain: [Op]
    let sequences: Sequences
    let convState, state, out, chainConvState, chainState, chainOut: TestTensor
  }

  func setup(_ seed: Int) throws -> Setup {
    var random = Random(seed: UInt64(seed))
    let count = random.int(1...4)
    let (hk, dk, dv) = (random.int(1...3), random.pick([8, 24, 64, 128]), random.pick([8, 16, 40]))
    let hv = hk * random.int(1...3)
    let width = random.int(2...5)
    let channels = 2 * hk * dk + hv * dv
    let type = random.pick([DType.f32, .f16, .bf16])
    let either = [type, .f32]
    let form = random.pick(GateForm.allCases)
    let dims = random.pick(GateDims.allCases)
    let gateDim = dims == .perKey ? dk : 1
    let slots = count + 1
    func tensor(
      _ type: DType, _ tokens: Int, _ heads: Int, _ dim: Int, _ range: ClosedRange<Float>, padding: Int = 0
    ) throws -> TestTensor {
      let tensor = try TestTensor(type, tokens: tokens, heads: heads, dim: dim, padding: padding)
      tensor.fill(range, &random)
      return tensor
    }
    let x = try tensor(type, count, 1, channels, -1...1, padding: 8)
    let convWeight = try tensor(random.pick([.f32, .bf16]), channels, 1, width, -1...1)
    let bias: TestTensor? = random.bool() ? try tensor(.f32, 1, 1, channels, -1...1) : nil
    let convState = try tensor(random.pick(either), slots, channels, width - 1, -1...1)
    let state = try tensor(random.pick([.f32, .f16, .bf16]), slots, hv, dv * dk, -0.5...0.5)
    let decays = form == .decay || form == .negLog
    let gate = try tensor(form.isRaw ? random.pick(either) : .f32, count, hv, gateDim, decays ? 0.1...1 : -1...0)
    let beta = try tensor(random.pick(either), count, hv, 1, 0...1)
    let aLog = try tensor(.f32, 1, hv, 1, -1...0)
    let dtBias = try tensor(.f32, 1, hv, gateDim, -1...1)
    let z = try tensor(type, count, hv, dv, -3...3, padding: 8)
    let normWeight = try tensor(random.pick([.f32, .bf16, .f16]), 1, 1, dv, 0...2)
    let out = try TestTensor(random.pick(either), tokens: count, heads: hv, dim: dv, padding: 8)
    let raw = form.isRaw ? RawGate(aLog: aLog.view, dtBias: dtBias.view) : nil
    let write = Array((0..<slots).shuffled(using: &random).prefix(count)).map { random.int(0...5) == 0 ? -1 : $0 }
    let read = write.map { random.int(0...1) == 0 ? random.int(-1...(slots - 1)) : $0 }
    let sequences = Sequences(lengths: write.map { _ in 1 }, read: read, write: write)
    let step = GatedDeltaStep(
      sequences: count, keyHeads: hk, valueHeads: hv, keyDim: dk, valueDim: dv, width: width, slots: slots,
      options: .init(
        gateForm: form, gateDims: dims, betaForm: random.pick(BetaForm.allCases),
        headMap: random.pick(HeadMap.allCases), qkNorm: random.pick(QKNorm.allCases),
        convActivation: random.pick([.none, .silu]), normActivation: random.pick([.silu, .sigmoid]),
        normOrder: random.pick(NormOrder.allCases), scale: 0.3, gateBound: -1.5),
      x: x.view, convWeight: convWeight.view, convBias: bias?.view, convState: convState.view, state: state.view,
      gate: gate.view, beta: beta.view, raw: raw, z: z.view, normWeight: normWeight.view, out: out.view)
    let options = step.options

    let chainConvState = try convState.copy()
    let chainState = try state.copy()
    let chainOut = try out.copy()
    let mixed = try TestTensor(type, tokens: count, heads: 1, dim: channels)
    let core = try TestTensor(.f32, tokens: count, heads: hv, dim: dv)
    func part(_ offset: Int, _ stride: Int) -> TensorView {
      TensorView(
        memory: mixed.memory, offset: offset * type.size, dtype: type, tokenStride: channels, headStride: stride)
    }
    let conv = CausalConv1d(
      tokens: count, channels: channels, width: width, slots: slots,
      options: .init(activation: options.convActivation), x: x.view, weight: convWeight.view, bias: bias?.view,
      state: chainConvState.view, out: mixed.view)
    let delta = GatedDelta(
      tokens: count, keyHeads: hk, valueHeads: hv, keyDim: dk, valueDim: dv, slots: slots,
      options: .init(
        gateForm: form, gateDims: dims, betaForm: options.betaForm, headMap: options.headMap, qkNorm: options.qkNorm,
        qkNormEps: options.qkNormEps, scale: options.scale, gateBound: options.gateBound),
      query: part(0, dk), key: part(hk * dk, dk), value: part(2 * hk * dk, dv), gate: gate.view, beta: beta.view,
      raw: raw, state: chainState.view, out: core.view)
    let norm = GatedRMSNorm(
      tokens: count, heads: hv, dim: dv,
      options: .init(activation: options.normActivation, order: options.normOrder, eps: options.normEps), x: core.view,
      z: z.view, weight: normWeight.view, out: chainOut.view)
    return Setup(
      step: step, chain: [.causalConv1d(conv, sequences), .gatedDelta(delta, sequences), .gatedRMSNorm(norm)],
      sequences: sequences, convState: convState, state: state, out: out, chainConvState: chainConvState,
      chainState: chainState, chainOut: chainOut)
  }

  @Test(arguments: instructionSets) func fusedEqualsTheChain(_ isa: String) throws {
    for seed in 0..<80 {
      let setup = try setup(seed)
      try device(isa, threads: 1 + seed % 3).run([.gatedDeltaStep(setup.step, setup.sequences)])
      try device(isa).run(setup.chain)
      #expect(setup.out.bytes == setup.chainOut.bytes, "seed \(seed): \(setup.step)")
      #expect(setup.state.bytes == setup.chainState.bytes, "seed \(seed): \(setup.step)")
      #expect(setup.convState.bytes == setup.chainConvState.bytes, "seed \(seed): \(setup.step)")
      #expect(setup.out.rowBytes(0..<1).contains { $0 != 0 })
    }
  }
}
