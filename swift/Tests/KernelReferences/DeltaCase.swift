import GatedDeltaTypes

@testable import CPUBackend

/// A random gatedDelta with its tensors.
struct DeltaCase {
  var op: GatedDelta
  var sequences: Sequences
  let query, key, value, gate, beta, out: TestTensor
  let raw: (aLog: TestTensor, dtBias: TestTensor)?
  let state: TestTensor

  /// Arguments that are left out are random.
  struct Shape {
    var lengths: [Int]
    var read: [Int]
    var write: [Int]
    var slots: Int
    var keyHeads: Int
    var valueHeads: Int
    var keyDim: Int
    var valueDim: Int
    var activation: DType = .f32
    var stateType: DType = .f32
    var outType: DType?
    var gateForm: GateForm?
    var gateDims: GateDims?

    /// Ragged sequences over slots of their own, in place.
    static func inPlace(
      _ lengths: [Int], keyHeads: Int = 2, valueHeads: Int = 4, keyDim: Int = 32, valueDim: Int = 24,
      activation: DType = .f32, stateType: DType = .f32, outType: DType? = nil, gateDims: GateDims? = nil
    ) -> Shape {
      Shape(
        lengths: lengths, read: Array(lengths.indices), write: Array(lengths.indices), slots: max(lengths.count, 1),
        keyHeads: keyHeads, valueHeads: valueHeads, keyDim: keyDim, valueDim: valueDim, activation: activation,
        stateType: stateType, outType: outType, gateDims: gateDims)
    }

    /// Any legal case.
    static func any(_ random: inout Random) -> Shape {
      let count = random.int(0...4)
      let slots = max(count, 1) + random.int(0...2)
      let write = Array((0..<slots).shuffled(using: &random).prefix(count)).map { random.int(0...5) == 0 ? -1 : $0 }
      let read = write.map { random.int(0...2) == 0 ? random.int(-1...(slots - 1)) : $0 }
      let keyHeads = random.int(1...3)
      let keyDim = random.pick([8, 16, 24, 40, 64, 128, 256])
      // The reference is slow: long sequences have small heads.
      let lengths = keyDim <= 24 ? [0, 1, 7, 8, 9, 33, 65] : [0, 1, 1, 2, 3, 5]
      return Shape(
        lengths: (0..<count).map { _ in random.pick(lengths) }, read: read, write: write,
        slots: slots, keyHeads: keyHeads, valueHeads: keyHeads * random.int(1...3),
        keyDim: keyDim, valueDim: random.pick(keyDim < 128 ? [8, 16, 24, 40] : [8, 24]),
        activation: random.pick([.f32, .f16, .bf16]), stateType: random.pick([.f32, .f32, .f16, .bf16]))
    }
  }

  init(_ shape: Shape, _ random: inout Random) throws {
    let tokens = shape.lengths.reduce(0, +) + random.int(0...2)
    let (hk, hv, dk, dv) = (shape.keyHeads, shape.valueHeads, shape.keyDim, shape.valueDim)
    let form = shape.gateForm ?? random.pick(GateForm.allCases)
    let dims = shape.gateDims ?? random.pick(GateDims.allCases)
    let betaForm = random.pick(BetaForm.allCases)
    let norm = random.pick(QKNorm.allCases)
    let either = [shape.activation, .f32]
    let gateDim = dims == .perKey ? dk : 1
    query = try TestTensor(shape.activation, tokens: tokens, heads: hk, dim: dk, padding: 8 * random.int(0...1))
    key = try TestTensor(shape.activation, tokens: tokens, heads: hk, dim: dk, padding: 8 * random.int(0...1))
    value = try TestTensor(shape.activation, tokens: tokens, heads: hv, dim: dv, padding: 8 * random.int(0...1))
    out = try TestTensor(shape.outType ?? random.pick(either), tokens: tokens, heads: hv, dim: dv, padding: 8)
    let gateType = form.isRaw ? random.pick(either) : .f32
    gate = try TestTensor(gateType, tokens: tokens, heads: hv, dim: gateDim, padding: random.int(0...3))
    beta = try TestTensor(random.pick(either), tokens: tokens, heads: hv, dim: 1, padding: random.int(0...3))
    state = try TestTensor(shape.stateType, tokens: shape.slots, heads: hv, dim: dv * dk)
    // Without normalisation keys are short, as normalised ones are: else the recurrence itself grows without bound.
    let size: Float = norm == .none ? 1 / Float(dk).squareRoot() : 1
    query.fill(-size...size, &random)
    key.fill(-size...size, &random)
    value.fill(-1...1, &random)
    out.fill(with: 77)
    state.fill(-0.5...0.5, &random)
    beta.fill(betaForm == .given ? 0...1 : -3...3, &random)
    switch form {
    case .decay: gate.fill(0.5...1, &random)
    case .log: gate.fill(-1...0, &random)
    case .negLog: gate.fill(0...1, &random)
    default: gate.fill(-4...4, &random)
    }
    if form.isRaw {
      let aLog = try TestTensor(random.pick([.f32, .bf16, .f16]), tokens: 1, heads: hv, dim: 1)
      let dtBias = try TestTensor(random.pick([.f32, .bf16, .f16]), tokens: 1, heads: hv, dim: gateDim)
      aLog.fill(form == .rawSSM ? -1...0 : -2...0.5, &random)
      dtBias.fill(-2...2, &random)
      raw = (aLog, dtBias)
    } else {
      raw = nil
    }
    sequences = Sequences(lengths: shape.lengths, read: shape.read, write: shape.write)
    op = GatedDelta(
      tokens: tokens, keyHeads: hk, valueHeads: hv, keyDim: dk, valueDim: dv, slots: shape.slots,
      options: .init(
        gateForm: form, gateDims: dims, betaForm: betaForm, headMap: random.pick(HeadMap.allCases), qkNorm: norm,
        algorithm: random.pick([.auto, .recurrent]), qkNormEps: random.pick([1e-6, 1e-3]),
        scale: random.pick([1, 0.25]), gateBound: -2),
      query: query.view, key: key.view, value: value.view, gate: gate.view, beta: beta.view,
      raw: raw.map { RawGate(aLog: $0.aLog.view, dtBias: $0.dtBias.view) }, state: state.view, out: out.view)
  }

  /// k, q, v, decay and beta of a token and head, in double.
  func inputs(
    _ token: Int, _ head: Int
  ) -> (key: [Double], query: [Double], value: [Double], decay: [Double], beta: Double) {
    let keyHead = Reference.keyHead(head, op.options.headMap, keyHeads: op.keyHeads, valueHeads: op.valueHeads)
    let eps = Double(op.options.qkNormEps)
    let k = Reference.normalise((0..<op.keyDim).map { key[token, keyHead, $0] }, op.options.qkNorm, eps: eps)
    let q = Reference.normalise((0..<op.keyDim).map { query[token, keyHead, $0] }, op.options.qkNorm, eps: eps)
    let decay = (0..<op.keyDim).map { i in
      let at = op.options.gateDims == .perKey ? i : 0
      return Reference.decay(
        op.options.gateForm, gate[token, head, at], aLog: raw?.aLog[0, head, 0] ?? 0,
        bias: raw?.dtBias[0, head, at] ?? 0, bound: Double(op.options.gateBound))
    }
    return (
      k, q.map { $0 * Double(op.options.scale) }, (0..<op.valueDim).map { value[token, head, $0] }, decay,
      Reference.beta(op.options.betaForm, beta[token, head, 0])
    )
  }

  /// The state of a slot's head as rows; zeros for -1.
  static func rows(_ pool: TestTensor, _ slot: Int, _ head: Int, _ dv: Int, _ dk: Int) -> [[Double]] {
    (0..<dv).map { row in (0..<dk).map { slot < 0 ? 0 : pool[slot, head, row * dk + $0] } }
  }

  /// Runs the reference from the current pool, and compares outputs and states with the content of `after` and `out`.
  func errors(before: TestTensor) -> (out: Double, state: Double) {
    var outs: [(Double, Double)] = []
    var states: [(Double, Double)] = []
    for s in 0..<sequences.count {
      for head in 0..<op.valueHeads {
        var rows = DeltaCase.rows(before, Int(sequences.readSlots[s]), head, op.valueDim, op.keyDim)
        for token in Int(sequences.starts[s])..<Int(sequences.starts[s + 1]) {
          let x = inputs(token, head)
          let o = Reference.step(&rows, key: x.key, query: x.query, value: x.value, decay: x.decay, beta: x.beta)
          for i in 0..<op.valueDim { outs.append((out[token, head, i], o[i])) }
        }
        let slot = Int(sequences.writeSlots[s])
        guard slot >= 0 else { continue }
        for row in 0..<op.valueDim {
          for i in 0..<op.keyDim { states.append((state[slot, head, row * op.keyDim + i], rows[row][i])) }
        }
      }
    }
    return (relativeRMS(outs), relativeRMS(states))
  }

  /// The same inputs and options for part of the tokens, on this state and output.
  func part(_ lengths: [Int], from starts: [Int], read: [Int], write: [Int]) -> Op {
    var sequences = Sequences(lengths: lengths, read: read, write: write)
    // One sequence at a time: its rows are found by moving the tensors.
    precondition(lengths.count == 1)
    let start = starts[0]
    let op = op.with(
      tokens: lengths[0], query: op.query.after(start), key: op.key.after(start), value: op.value.after(start),
      gate: op.gate.after(start), beta: op.beta.after(start), out: op.out.after(start))
    sequences.starts = [0, Int32(lengths[0])]
    return .gatedDelta(op, sequences)
  }
}
