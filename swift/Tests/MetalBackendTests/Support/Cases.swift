import GatedDeltaTypes

@testable import KernelReferences

/// Makes the tensors of one op on one backend; the same seed makes the same op on another.
struct Maker {
  let backend: any Backend
  var random: Random
  /// The outputs of the op, to be compared.
  private(set) var outputs: [TensorView] = []

  init(_ backend: any Backend, seed: UInt64) {
    self.backend = backend
    random = Random(seed: seed)
  }

  /// Rows of `dim`, with room between them where they may have it, at random.
  mutating func tensor(
    _ dtype: DType, tokens: Int, heads: Int = 1, dim: Int, in range: ClosedRange<Float> = -1...1, strided: Bool = true
  ) throws -> TensorView {
    let step = dim % 8 == 0 ? 8 : 1
    let padding = strided ? step * random.int(0...2) : 0
    let headStride = dim + padding
    let tokenStride = heads * headStride + (strided ? step * random.int(0...1) : 0)
    let offset = strided ? step * random.int(0...2) : 0
    let count = offset + max(tokens, 1) * tokenStride
    let memory = try backend.allocate(byteCount: count * dtype.size)
    let view = TensorView(
      memory: memory, offset: offset * dtype.size, dtype: dtype, tokenStride: max(tokenStride, 1),
      headStride: max(headStride, 1))
    for index in 0..<count { memory.write(random.float(range), dtype, index) }
    return view
  }

  mutating func output(_ dtype: DType, tokens: Int, heads: Int = 1, dim: Int, strided: Bool = true) throws -> TensorView
  {
    let view = try tensor(dtype, tokens: tokens, heads: heads, dim: dim, strided: strided)
    outputs.append(view)
    return view
  }
}

extension Memory {
  func write(_ value: Float, _ dtype: DType, _ index: Int) {
    switch dtype {
    case .f32: pointer.storeBytes(of: value, toByteOffset: 4 * index, as: Float.self)
    case .bf16: pointer.storeBytes(of: UInt16(value.bitPattern >> 16), toByteOffset: 2 * index, as: UInt16.self)
    // Powers of two and their like are exact in any format; tests of rounding are elsewhere.
    default: pointer.storeBytes(of: Half.bits(value), toByteOffset: 2 * index, as: UInt16.self)
    }
  }

  func read(_ dtype: DType, _ index: Int) -> Float {
    switch dtype {
    case .f32: pointer.load(fromByteOffset: 4 * index, as: Float.self)
    case .bf16: Float(bitPattern: UInt32(pointer.load(fromByteOffset: 2 * index, as: UInt16.self)) << 16)
    default: Half.value(pointer.load(fromByteOffset: 2 * index, as: UInt16.self))
    }
  }

  var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: pointer, count: byteCount) }
}

/// float16, which Swift has not on every processor: enough for test data, by truncation.
enum Half {
  static func bits(_ value: Float) -> UInt16 {
    let exponent = value.magnitude < 6.1e-5 ? 0 : Int(value.exponent) + 15
    guard exponent > 0 else { return value.sign == .minus ? 0x8000 : 0 }
    let fraction = UInt16(value.bitPattern >> 13 & 0x3ff)
    return (value.sign == .minus ? 0x8000 : 0) | UInt16(min(exponent, 30)) << 10 | fraction
  }

  static func value(_ bits: UInt16) -> Float {
    let (exponent, fraction) = (Int(bits >> 10 & 31), Float(bits & 0x3ff) / 1024)
    let magnitude =
      exponent == 0 ? fraction * 0x1p-14 : (1 + fraction) * Float(sign: .plus, exponent: exponent - 15, significand: 1)
    return bits & 0x8000 == 0 ? magnitude : -magnitude
  }
}

/// The relative distance of the outputs of two backends; padding must be equal to the byte.
func distance(_ a: Maker, _ b: Maker) -> Double {
  var worst = 0.0
  for (x, y) in zip(a.outputs, b.outputs) {
    var (difference, size) = (0.0, 0.0)
    for index in 0..<(x.memory.byteCount / x.dtype.size) {
      let (p, q) = (Double(x.memory.read(x.dtype, index)), Double(y.memory.read(y.dtype, index)))
      if p.isNaN != q.isNaN { return .infinity }
      if p.isNaN { continue }
      difference += (p - q) * (p - q)
      size += q * q
    }
    worst = max(worst, size == 0 ? (difference == 0 ? 0 : .infinity) : (difference / size).squareRoot())
  }
  return worst
}

/// Random ops, every option of each in turn.
extension Maker {
  static let kinds = 6

  mutating func op(_ kind: Int) throws -> Op {
    switch kind {
    case 0: try gatedDelta()
    case 1: try causalConv1d()
    case 2: try norm()
    case 3: try step()
    case 4: try linear()
    default: try copySlots()
    }
  }

  /// Sequences over slots, some of them read by one and written by another.
  mutating func sequences(_ lengths: [Int], slots: Int) -> Sequences {
    let write = Array((0..<slots).map { Int32($0) }.shuffled(using: &random).prefix(lengths.count))
      .map { random.int(0...4) == 0 ? -1 : $0 }
    let read = write.map { random.int(0...2) == 0 ? Int32(random.int(-1...(slots - 1))) : $0 }
    let staged = read.indices.filter { index in
      read[index] >= 0 && write.indices.contains { $0 != index && write[$0] == read[index] }
    }
    var starts: [Int32] = [0]
    for length in lengths { starts.append((starts.last ?? 0) + Int32(length)) }
    return Sequences(
      count: lengths.count, starts: starts, readSlots: read, writeSlots: write, stagedReads: staged.map { Int32($0) })
  }

  mutating func gates(
    _ activation: DType, tokens: Int, heads: Int, keyDim: Int
  ) throws -> (form: GateForm, dims: GateDims, beta: BetaForm, gate: TensorView, betas: TensorView, raw: RawGate?) {
    let form = random.pick(GateForm.allCases)
    let dims = random.pick(GateDims.allCases)
    let width = dims == .perKey ? keyDim : 1
    let range: ClosedRange<Float> =
      switch form {
      case .decay: 0.5...1
      case .log: -1...0
      case .negLog: 0...1
      default: -1...1
      }
    let gate = try tensor(
      form.isRaw ? random.pick([activation, .f32]) : .f32, tokens: tokens, heads: heads, dim: width, in: range)
    let betas = try tensor(random.pick([activation, .f32]), tokens: tokens, heads: heads, dim: 1, in: 0...1)
    var raw: RawGate?
    if form.isRaw {
      raw = RawGate(
        aLog: try tensor(
          random.pick([.f32, .f16, .bf16]), tokens: 1, dim: heads, in: form == .rawSSM ? -1...0 : -1...1, strided: false
        ),
        dtBias: try tensor(
          random.pick([.f32, .f16, .bf16]), tokens: dims == .perKey ? heads : 1,
          dim: dims == .perKey ? keyDim : heads, strided: false))
    }
    return (form, dims, random.pick(BetaForm.allCases), gate, betas, raw)
  }

  mutating func gatedDelta(algorithm: Algorithm? = nil, lengths given: [Int]? = nil) throws -> Op {
    let activation = random.pick([DType.f32, .f16, .bf16])
    let keyHeads = random.int(1...2)
    let valueHeads = keyHeads * random.int(1...3)
    let (keyDim, valueDim) = (random.pick([8, 24, 64, 128]), random.pick([8, 16, 40]))
    let lengths = given ?? (0..<random.int(1...4)).map { _ in random.pick([0, 1, 3, 17, 33]) }
    let tokens = lengths.reduce(0, +)
    let slots = lengths.count + random.int(0...1)
    let gates = try gates(activation, tokens: tokens, heads: valueHeads, keyDim: keyDim)
    let qkNorm = random.pick(QKNorm.allCases)
    let algorithm = algorithm ?? random.pick([.auto, .recurrent])
    let query = try tensor(activation, tokens: tokens, heads: keyHeads, dim: keyDim)
    let key = try tensor(
      activation, tokens: tokens, heads: keyHeads, dim: keyDim, in: qkNorm == .none ? -0.1...0.1 : -1...1)
    let value = try tensor(activation, tokens: tokens, heads: valueHeads, dim: valueDim)
    let state = try output(
      random.pick([.f32, .f16, .bf16]), tokens: slots, dim: valueHeads * valueDim * keyDim, strided: false)
    let out = try output(random.pick([activation, .f32]), tokens: tokens, heads: valueHeads, dim: valueDim)
    return .gatedDelta(
      GatedDelta(
        tokens: tokens, keyHeads: keyHeads, valueHeads: valueHeads, keyDim: keyDim, valueDim: valueDim, slots: slots,
        options: .init(
          gateForm: gates.form, gateDims: gates.dims, betaForm: gates.beta, headMap: random.pick(HeadMap.allCases),
          qkNorm: qkNorm, algorithm: algorithm, scale: 0.25, gateBound: gates.form == .rawBounded ? -2 : 0),
        query: query, key: key, value: value, gate: gates.gate,
        beta: gates.betas, raw: gates.raw, state: state, out: out), sequences(lengths, slots: slots))
  }

  mutating func causalConv1d() throws -> Op {
    let activation = random.pick([DType.f32, .f16, .bf16])
    let (channels, width) = (random.pick([1, 7, 32, 200]), random.int(2...9))
    let lengths = (0..<random.int(1...4)).map { _ in random.pick([0, 1, 3, 16, 40]) }
    let tokens = lengths.reduce(0, +)
    let slots = lengths.count + random.int(0...1)
    let hasBias = random.int(0...1) == 1
    return .causalConv1d(
      CausalConv1d(
        tokens: tokens, channels: channels, width: width, slots: slots,
        options: .init(activation: random.pick([.none, .silu])),
        x: try tensor(activation, tokens: tokens, dim: channels),
        weight: try tensor(random.pick([.f32, .f16, .bf16]), tokens: channels, dim: width, strided: false),
        bias: hasBias ? try tensor(random.pick([.f32, .f16, .bf16]), tokens: 1, dim: channels, strided: false) : nil,
        state: try output(
          random.pick([activation, .f32]), tokens: slots, dim: channels * (width - 1), strided: false),
        out: try output(random.pick([activation, .f32]), tokens: tokens, dim: channels)),
      sequences(lengths, slots: slots))
  }

  mutating func norm() throws -> Op {
    let activation = random.pick([DType.f32, .f16, .bf16])
    let (tokens, heads, dim) = (random.int(1...9), random.int(1...3), random.pick([1, 5, 32, 72, 300]))
    return .gatedRMSNorm(
      GatedRMSNorm(
        tokens: tokens, heads: heads, dim: dim,
        options: .init(activation: random.pick([.silu, .sigmoid]), order: random.pick(NormOrder.allCases)),
        x: try tensor(random.pick([activation, .f32]), tokens: tokens, heads: heads, dim: dim),
        z: try tensor(activation, tokens: tokens, heads: heads, dim: dim),
        weight: try tensor(random.pick([.f32, .f16, .bf16]), tokens: 1, dim: dim, strided: false),
        out: try output(random.pick([activation, .f32]), tokens: tokens, heads: heads, dim: dim)))
  }

  mutating func step() throws -> Op {
    let activation = random.pick([DType.f32, .f16, .bf16])
    let keyHeads = random.int(1...2)
    let valueHeads = keyHeads * random.int(1...3)
    let (keyDim, valueDim, width) = (random.pick([8, 24, 64, 128]), random.pick([8, 16, 40]), random.int(2...9))
    let channels = 2 * keyHeads * keyDim + valueHeads * valueDim
    let count = random.int(1...4)
    let slots = count + random.int(0...1)
    let gates = try gates(activation, tokens: count, heads: valueHeads, keyDim: keyDim)
    let hasBias = random.int(0...1) == 1
    return .gatedDeltaStep(
      GatedDeltaStep(
        sequences: count, keyHeads: keyHeads, valueHeads: valueHeads, keyDim: keyDim, valueDim: valueDim, width: width,
        slots: slots,
        options: .init(
          gateForm: gates.form, gateDims: gates.dims, betaForm: gates.beta, headMap: random.pick(HeadMap.allCases),
          qkNorm: random.pick([.l2, .l2Max, .rms]), convActivation: random.pick([.none, .silu]),
          normActivation: random.pick([.silu, .sigmoid]), normOrder: random.pick(NormOrder.allCases), scale: 0.25,
          gateBound: gates.form == .rawBounded ? -2 : 0),
        x: try tensor(activation, tokens: count, dim: channels),
        convWeight: try tensor(random.pick([.f32, .f16, .bf16]), tokens: channels, dim: width, strided: false),
        convBias: hasBias
          ? try tensor(random.pick([.f32, .f16, .bf16]), tokens: 1, dim: channels, strided: false) : nil,
        convState: try output(
          random.pick([activation, .f32]), tokens: slots, dim: channels * (width - 1), strided: false),
        state: try output(
          random.pick([.f32, .f16, .bf16]), tokens: slots, dim: valueHeads * valueDim * keyDim, strided: false),
        gate: gates.gate, beta: gates.betas, raw: gates.raw,
        z: try tensor(activation, tokens: count, heads: valueHeads, dim: valueDim),
        normWeight: try tensor(random.pick([.f32, .f16, .bf16]), tokens: 1, dim: valueDim, strided: false),
        out: try output(random.pick([activation, .f32]), tokens: count, heads: valueHeads, dim: valueDim)),
      sequences([Int](repeating: 1, count: count), slots: slots))
  }

  mutating func linear() throws -> Op {
    let activation = random.pick([DType.f32, .f16, .bf16])
    let (rows, inFeatures, outFeatures) = (random.int(1...9), random.pick([0, 1, 33, 64]), random.pick([1, 5, 40]))
    return .linear(
      Linear(
        rows: rows, inFeatures: inFeatures, outFeatures: outFeatures,
        x: try tensor(activation, tokens: rows, dim: inFeatures),
        weight: try tensor(random.pick([.f32, .f16, .bf16]), tokens: outFeatures, dim: inFeatures, strided: false),
        out: try output(random.pick([activation, .f32]), tokens: rows, dim: outFeatures)))
  }

  mutating func copySlots() throws -> Op {
    let (slots, elements) = (random.int(1...5), random.pick([1, 3, 8, 500]))
    let pool = try output(random.pick([.f32, .f16, .bf16]), tokens: slots, dim: elements, strided: false)
    var sequences = sequences([Int](repeating: 0, count: random.int(1...slots)), slots: slots)
    sequences.starts = []
    return .copySlots(CopySlots(slots: slots, slotElements: elements, pool: pool), sequences)
  }
}

extension Maker {
  /// Over one page a sequence, without norms, rotation or gate.
  mutating func attention(lengths: [Int]) throws -> Op {
    let (heads, keyHeads, dim) = (4, 2, 64)
    let tokens = lengths.reduce(0, +)
    let pageTokens = lengths.max() ?? 1
    var starts: [Int32] = [0]
    for length in lengths { starts.append((starts.last ?? 0) + Int32(length)) }
    func rows(_ count: Int) throws -> TensorView { try tensor(.f32, tokens: tokens, heads: count, dim: dim, strided: false) }
    func pages() throws -> TensorView {
      try tensor(.f32, tokens: lengths.count, heads: keyHeads, dim: pageTokens * dim, strided: false)
    }
    return .attention(
      Attention(
        tokens: tokens, heads: heads, keyHeads: keyHeads, headDim: dim, pages: lengths.count, pageTokens: pageTokens,
        options: .init(scale: 0.125), query: try rows(heads), key: try rows(keyHeads), value: try rows(keyHeads),
        gate: nil, queryNorm: nil, keyNorm: nil, keyPages: try pages(), valuePages: try pages(), out: try rows(heads)),
      Sequences(
        count: lengths.count, starts: starts,
        pages: PagedSequences(
          pastTokens: lengths.map { _ in 0 }, pageTable: lengths.indices.map { Int32($0) }, pagesPerSequence: 1,
          positions: nil, rotation: [])))
  }
}
