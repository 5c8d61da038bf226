import GatedDeltaTypes
import ShaderParams

/// The gates of a recurrence: float32 decays and betas, or the op's own gates if decode resolves them itself.
private struct ResolvedGates {
  var decay: Region
  var beta: Region
  var gateTokenStride: Int
  var gateHeadStride: Int
  var betaTokenStride: Int
  var betaHeadStride: Int
}

/// The kernels of a recurrence. Each gives the same bits.
private enum Way {
  case decode(resolvesGates: Bool)
  case prefill
}

/// A recurrence while it is encoded: the data that its parts share.
struct Recurrence {
  fileprivate let op: GatedDelta
  fileprivate let sequences: Sequences
  fileprivate let way: Way
  fileprivate let tokens: Int
  fileprivate let gates: ResolvedGates
  fileprivate let table: SlotTable
  fileprivate let state: Argument
  fileprivate let states: StateArguments
  /// Tokens of one part, of each sequence; the states between parts.
  fileprivate var partTokens = 0
  fileprivate var carried = Argument.absent
  /// The dispatches of the op, in this order.
  fileprivate(set) var parts = 1
}

extension Pass {
  /// Prepares what every part needs: gates, slots, copies of states.
  mutating func begin(_ op: GatedDelta, _ sequences: Sequences, workLimit: Int) throws(Failure) -> Recurrence {
    let tokens = Int(sequences.starts.last ?? 0)
    let way = try way(op, sequences, tokens: tokens)
    let gates = try gates(op, way, tokens: tokens)
    var small = false
    if case .decode = way { small = true }
    let table = try slots(sequences, fromSource: op.states.source != nil, small: small)
    let slotElements = op.valueHeads * op.valueDim * op.keyDim
    let states = try states(op.states, pool: op.state, slotElements: slotElements, slots: op.slots, sequences)
    let state = try Argument.writes(op.state, elements: op.slots * slotElements)

    var recurrence = Recurrence(
      op: op, sequences: sequences, way: way, tokens: tokens, gates: gates, table: table, state: state, states: states)
    if sequences.count == 0 { recurrence.parts = 0 }
    // A long prefill would keep the GPU to itself: whole blocks of tokens, as many as the limit allows.
    let work = 2 * op.valueHeads * op.valueDim * op.keyDim * max(sequences.count, 1)
    let partTokens = max(workLimit / max(work, 1) / GDM_PREFILL_BLOCK, 1) * GDM_PREFILL_BLOCK
    if case .prefill = way, sequences.longest > partTokens {
      recurrence.parts = ceilDiv(sequences.longest, partTokens)
      recurrence.partTokens = partTokens
      recurrence.carried = .writes(try arena.region(byteCount: sequences.count * slotElements * 4))
    }
    return recurrence
  }

  mutating func encode(_ recurrence: inout Recurrence, part: Int) throws(Failure) {
    switch recurrence.way {
    case .prefill: try prefill(recurrence, part: part)
    case .decode(let resolvesGates): try decode(recurrence, resolvesGates: resolvesGates)
    }
  }

  private func way(_ op: GatedDelta, _ sequences: Sequences, tokens: Int) throws(Failure) -> Way {
    // Staging a block of tokens for many rows at once is faster where there is memory for it, if the kernel's registers
    // allow the threads.
    if sequences.longest >= Self.shortestPrefill,
      try device.pipelines.pipeline(kernel(.prefill, op, sequences)).maxThreads >= prefillShape(op, sequences).threads
    {
      return .prefill
    }
    // A dispatch costs more than a few decays that each threadgroup resolves again.
    let few = tokens <= GDM_SMALL_BATCH && op.options.gateDims == .perHead && op.records == nil && !op.hasResolvedGates
    return .decode(resolvesGates: few)
  }

  private static var shortestPrefill: Int { 16 }

  /// See `Chip`.
  var fewThreadgroups: Int { device.chip.fewThreadgroups }

  private func kernel(_ family: Kernel.Family, _ op: GatedDelta, _ sequences: Sequences) -> Kernel {
    var kernel = Kernel(
      family: family, activation: op.query.dtype, storage: op.stateDType, keyClass: Kernel.KeyClass(op.keyDim))
    kernel.constants.setRecurrence(op)
    kernel.constants.set(.hasStores, sequences.stores != nil)
    kernel.constants.set(.record, op.records != nil)
    if family == .prefill {
      let shape = prefillShape(op, sequences)
      kernel.constants.set(.parts, false)
      kernel.constants.set(.outAtOnce, shape.outAtOnce)
      kernel.constants.set(.tileRows, UInt32(element: shape.tileRows))
    }
    return kernel
  }

  private func prefillShape(_ op: GatedDelta, _ sequences: Sequences) -> PrefillShape {
    let groups = ceilDiv(op.valueDim, GDM_PREFILL_ROWS) * op.valueHeads * sequences.count
    return PrefillShape(Kernel.KeyClass(op.keyDim), isFew: groups <= fewThreadgroups)
  }

  private mutating func gates(_ op: GatedDelta, _ way: Way, tokens: Int) throws(Failure) -> ResolvedGates {
    let dims = op.options.gateDims == .perKey ? op.keyDim : 1
    var inPlace = op.hasResolvedGates
    if case .decode(let resolvesGates) = way, resolvesGates { inPlace = true }
    // The kernels read the tensors themselves; per-key gates as vectors, which the core has aligned.
    if inPlace {
      return ResolvedGates(
        decay: try op.gate.region(tokens: tokens, heads: op.valueHeads, width: dims),
        beta: try op.beta.region(tokens: tokens, heads: op.valueHeads, width: 1),
        gateTokenStride: op.gate.tokenStride, gateHeadStride: op.gate.headStride,
        betaTokenStride: op.beta.tokenStride, betaHeadStride: op.beta.headStride)
    }

    let rows = tokens * op.valueHeads
    // Decays that are kept for a commit are computed in place.
    let decay =
      if let records = op.records {
        try records.decay.region(elements: rows * dims)
      } else {
        try arena.region(byteCount: max(rows * dims * 4, 4))
      }
    let beta = try arena.region(byteCount: max(rows * 4, 4))
    var kernel = Kernel(family: .gates)
    kernel.constants.setGates(op.options.gateForm, op.options.betaForm, op.gate, op.beta, op.raw)
    let groups = ceilDiv(rows * dims, GDM_GATE_THREADS)
    try dispatch(
      kernel,
      [
        .reads(op.gate, tokens: tokens, heads: op.valueHeads, width: dims),
        .reads(op.beta, tokens: tokens, heads: op.valueHeads, width: 1), .reads(op.raw?.aLog, elements: op.valueHeads),
        .reads(op.raw?.dtBias, elements: op.valueHeads * dims), .writes(decay), .writes(beta),
      ],
      GDMGates(
        tokens: UInt32(element: tokens), valueHeads: UInt32(element: op.valueHeads), dims: UInt32(element: dims),
        gateTokenStride: UInt32(element: op.gate.tokenStride), gateHeadStride: UInt32(element: op.gate.headStride),
        betaTokenStride: UInt32(element: op.beta.tokenStride), betaHeadStride: UInt32(element: op.beta.headStride),
        bound: op.options.gateBound),
      groups: (groups, 1, 1), threads: .exactly(GDM_GATE_THREADS))
    return ResolvedGates(
      decay: decay, beta: beta, gateTokenStride: op.valueHeads * dims, gateHeadStride: dims,
      betaTokenStride: op.valueHeads, betaHeadStride: 1)
  }

  private func arguments(_ r: Recurrence, _ list: inout [Argument]) throws(Failure) {
    let (op, tokens) = (r.op, r.tokens)
    list.append(try .reads(op.query, tokens: tokens, heads: op.keyHeads, width: op.keyDim))
    list.append(try .reads(op.key, tokens: tokens, heads: op.keyHeads, width: op.keyDim))
    list.append(try .reads(op.value, tokens: tokens, heads: op.valueHeads, width: op.valueDim))
    list.append(.reads(r.gates.decay))
    list.append(.reads(r.gates.beta))
    list.append(r.state)
    list.append(r.states.staged)
    list.append(try .writes(op.out, tokens: tokens, heads: op.valueHeads, width: op.valueDim))
    list.append(r.table.starts)
    list.append(r.table.readSlots)
    list.append(r.table.writeSlots)
    list.append(r.states.storeOffsets)
    list.append(r.states.stores)
    list.append(r.states.snapshots)
    list.append(try .writes(op.records?.key, elements: tokens * op.keyHeads * op.keyDim))
    list.append(try .writes(op.records?.delta, elements: tokens * op.valueHeads * op.valueDim))
  }

  private mutating func decode(_ r: Recurrence, resolvesGates: Bool) throws(Failure) {
    let op = r.op
    var decode = kernel(.decode, op, r.sequences)
    decode.constants.set(.smallBatch, r.table.isSmall)
    decode.constants.set(.resolveGates, resolvesGates)
    if resolvesGates {
      decode.constants.setGates(op.options.gateForm, op.options.betaForm, op.gate, op.beta, op.raw)
    } else {
      decode.constants.setNoGates()
    }
    var list = takeArguments()
    defer { keepArguments(&list) }
    try arguments(r, &list)
    list.append(try .reads(resolvesGates ? op.raw?.aLog : nil, elements: op.valueHeads))
    list.append(try .reads(resolvesGates ? op.raw?.dtBias : nil, elements: op.valueHeads))
    let keyClass = Kernel.KeyClass(op.keyDim)
    var shape = DecodeShape(op.stateDType, keyClass, most: true)
    decode.constants.set(.tileRows, UInt32(element: shape.tileRows))
    if op.stateDType != .f32 {
      var fits = op.valueDim % shape.rows == 0
      if fits { fits = try takes(.decodeRows, decode) }
      if !fits { shape = DecodeShape(op.stateDType, keyClass) }
      decode.constants.set(.tileRows, UInt32(element: shape.tileRows))
    }
    try dispatch(
      decode, list, params(op, r.gates), r.table.batch,
      groups: (ceilDiv(op.valueDim, shape.rows), op.valueHeads, r.sequences.count), threads: .exactly(shape.threads))
  }

  private mutating func prefill(_ r: Recurrence, part: Int) throws(Failure) {
    let op = r.op
    var prefill = kernel(.prefill, op, r.sequences)
    prefill.constants.set(.parts, r.parts > 1)
    var list = takeArguments()
    defer { keepArguments(&list) }
    try arguments(r, &list)
    list.append(r.carried)
    let constant = GDMPart(
      first: UInt32(element: part * r.partTokens), tokens: UInt32(element: r.partTokens))
    let shape = prefillShape(op, r.sequences)
    try dispatch(
      prefill, list, params(op, r.gates), r.parts > 1 ? .part(constant) : .absent,
      groups: (ceilDiv(op.valueDim, GDM_PREFILL_ROWS), op.valueHeads, r.sequences.count),
      threads: .exactly(shape.threads),
      threadgroupBytes: ThreadgroupBytes.prefill(
        tokens: shape.block, keyDim: op.keyDim, perKey: op.options.gateDims == .perKey))
  }

  private func params(_ op: GatedDelta, _ gates: ResolvedGates) -> GDMRecurrence {
    GDMRecurrence(
      keyHeads: UInt32(element: op.keyHeads), valueHeads: UInt32(element: op.valueHeads),
      keyDim: UInt32(element: op.keyDim), valueDim: UInt32(element: op.valueDim),
      queryTokenStride: UInt32(element: op.query.tokenStride), queryHeadStride: UInt32(element: op.query.headStride),
      keyTokenStride: UInt32(element: op.key.tokenStride), keyHeadStride: UInt32(element: op.key.headStride),
      valueTokenStride: UInt32(element: op.value.tokenStride), valueHeadStride: UInt32(element: op.value.headStride),
      outTokenStride: UInt32(element: op.out.tokenStride), outHeadStride: UInt32(element: op.out.headStride),
      gateTokenStride: UInt32(element: gates.gateTokenStride), gateHeadStride: UInt32(element: gates.gateHeadStride),
      betaTokenStride: UInt32(element: gates.betaTokenStride), betaHeadStride: UInt32(element: gates.betaHeadStride),
      scale: op.options.scale, epsilon: op.options.qkNormEps, bound: op.options.gateBound)
  }
}

extension GatedDelta {
  /// Nothing to compute: the gates are already decays and betas in float32.
  fileprivate var hasResolvedGates: Bool {
    records == nil && options.gateForm == .decay && gate.dtype == .f32 && options.betaForm == .given
      && beta.dtype == .f32
  }
}

extension Sequences {
  /// The number of tokens of the longest sequence.
  var longest: Int {
    var longest: Int32 = 0
    for (start, end) in zip(starts, starts.dropFirst()) { longest = max(longest, end &- start) }
    return Int(longest)
  }

  var areSingleTokens: Bool { zip(starts, starts.dropFirst()).allSatisfy { $1 &- $0 == 1 } }
}

extension Constants {
  mutating func setRecurrence(_ op: GatedDelta) {
    set(.tiledHeads, op.options.headMap == .tiled)
    set(.gatePerKey, op.options.gateDims == .perKey)
    set(.qkNorm, op.options.qkNorm.rawValue)
    set(.outF32, op.out.dtype == .f32)
  }

  /// The values of the gate options for a kernel that takes resolved gates.
  mutating func setNoGates() {
    set(.gateForm, GateForm.decay.rawValue)
    set(.betaForm, BetaForm.given.rawValue)
    for index in [Index.gateDType, .betaDType, .aLogDType, .dtBiasDType] { set(index, DType.f32) }
  }

  mutating func setGates(
    _ form: GateForm, _ betaForm: BetaForm, _ gate: TensorView, _ beta: TensorView, _ raw: RawGate?
  ) {
    set(.gateForm, form.rawValue)
    set(.betaForm, betaForm.rawValue)
    set(.gateDType, gate.dtype)
    set(.betaDType, beta.dtype)
    set(.aLogDType, raw?.aLog.dtype ?? .f32)
    set(.dtBiasDType, raw?.dtBias.dtype ?? .f32)
  }
}
