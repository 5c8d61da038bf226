import GatedDeltaTypes
import ShaderParams

/// What the recurrence takes for a gate: float32 decays and betas, with the strides that they have.
private struct ResolvedGates {
  var decay: Region
  var beta: Region
  var gateTokenStride: Int
  var gateHeadStride: Int
  var betaTokenStride: Int
}

extension Pass {
  mutating func encode(_ op: GatedDelta, _ sequences: Sequences) throws(Failure) {
    guard sequences.count > 0 else { return }
    let tokens = Int(sequences.starts.last ?? 0)
    let gates = try resolve(op, tokens: tokens)
    let table = try slots(sequences, fromSource: op.states.source != nil)
    let slotElements = op.valueHeads * op.valueDim * op.keyDim
    let states = try states(op.states, pool: op.state, slotElements: slotElements, slots: op.slots, sequences)
    let state = try Argument.writes(op.state, elements: op.slots * slotElements)

    switch op.algorithm {
    case .chunked: try chunked(op, sequences, tokens, gates, table, state, states)
    case .auto, .recurrent: try recurrent(op, sequences, tokens, gates, table, state, states)
    }
  }

  private mutating func resolve(_ op: GatedDelta, tokens: Int) throws(Failure) -> ResolvedGates {
    let dims = op.gateDims == .perKey ? op.keyDim : 1
    // Nothing to compute: the kernels read the tensors themselves. They take the betas of a token for neighbours, and
    // read per-key gates as vectors, which the core has aligned.
    if op.records == nil, op.gateForm == .decay, op.betaForm == .given, op.beta.dtype == .f32, op.beta.headStride == 1 {
      return ResolvedGates(
        decay: try op.gate.region(tokens: tokens, heads: op.valueHeads, width: dims),
        beta: try op.beta.region(tokens: tokens, width: op.valueHeads), gateTokenStride: op.gate.tokenStride,
        gateHeadStride: op.gate.headStride, betaTokenStride: op.beta.tokenStride)
    }

    let rows = tokens * op.valueHeads
    // Decays that are kept for a commit are computed where they are kept.
    let decay =
      if let records = op.records {
        try records.decay.region(elements: rows * dims)
      } else {
        try arena.region(byteCount: max(rows * dims * 4, 4))
      }
    let beta = try arena.region(byteCount: max(rows * 4, 4))
    var kernel = Kernel(family: .gates)
    kernel.constants.setGates(op.gateForm, op.betaForm, op.gate, op.beta, op.raw)
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
        bound: op.gateBound),
      groups: (groups, 1, 1), threads: .exactly(GDM_GATE_THREADS))
    return ResolvedGates(
      decay: decay, beta: beta, gateTokenStride: op.valueHeads * dims, gateHeadStride: dims,
      betaTokenStride: op.valueHeads)
  }

  private mutating func recurrent(
    _ op: GatedDelta, _ sequences: Sequences, _ tokens: Int, _ gates: ResolvedGates, _ table: SlotTable,
    _ state: Argument, _ states: StateArguments
  ) throws(Failure) {
    func kernel(_ family: Kernel.Family) -> Kernel {
      var kernel = Kernel(
        family: family, activation: op.query.dtype, storage: op.stateDType,
        keyClass: Kernel.KeyClass(op.keyDim))
      kernel.constants.setRecurrence(op)
      kernel.constants.set(.hasStores, sequences.stores != nil)
      kernel.constants.set(.record, op.records != nil)
      return kernel
    }
    // Equal bits either way. Where a block of tokens can be staged for many rows at once, it is the faster way, if its
    // registers leave it the threads.
    let prefill = kernel(.prefill)
    var blocked = sequences.longest >= 16
    if blocked { blocked = try device.pipelines.pipeline(prefill).maxThreads >= GDM_PREFILL_THREADS }

    try dispatch(
      blocked ? prefill : kernel(.decode),
      [
        .reads(op.query, tokens: tokens, heads: op.keyHeads, width: op.keyDim),
        .reads(op.key, tokens: tokens, heads: op.keyHeads, width: op.keyDim),
        .reads(op.value, tokens: tokens, heads: op.valueHeads, width: op.valueDim),
        .reads(gates.decay), .reads(gates.beta), state, states.staged,
        .writes(op.out, tokens: tokens, heads: op.valueHeads, width: op.valueDim),
        .reads(table.starts), .reads(table.readSlots), .reads(table.writeSlots),
        states.storeOffsets, states.stores, states.snapshots,
        .writes(op.records?.key, elements: tokens * op.keyHeads * op.keyDim),
        .writes(op.records?.delta, elements: tokens * op.valueHeads * op.valueDim),
      ],
      params(op, gates),
      groups: (
        ceilDiv(op.valueDim, blocked ? GDM_PREFILL_ROWS : GDM_DECODE_ROWS), op.valueHeads, sequences.count
      ),
      threads: .exactly(blocked ? GDM_PREFILL_THREADS : GDM_DECODE_THREADS),
      threadgroupBytes: blocked
        ? ThreadgroupBytes.prefill(keyDim: op.keyDim, perKey: op.gateDims == .perKey) : 0)
  }

  private mutating func chunked(
    _ op: GatedDelta, _ sequences: Sequences, _ tokens: Int, _ gates: ResolvedGates, _ table: SlotTable,
    _ state: Argument, _ states: StateArguments
  ) throws(Failure) {
    let (chunks, offsets) = sequences.chunks
    let count = chunks.count / 2
    let chunkTable = try arena.region(copying: chunks)
    let chunkOffsets = try arena.region(copying: offsets)
    let scratch = try arena.region(byteCount: max(count * op.valueHeads * GDM_CHUNK_SCRATCH * 4, 4))
    let params = params(op, gates)
    let keyClass = Kernel.KeyClass(op.keyDim)

    let query = try Argument.reads(op.query, tokens: tokens, heads: op.keyHeads, width: op.keyDim)
    let key = try Argument.reads(op.key, tokens: tokens, heads: op.keyHeads, width: op.keyDim)
    var prepare = Kernel(family: .chunkPrepare, activation: op.query.dtype, keyClass: keyClass)
    prepare.constants.setRecurrence(op)
    try dispatch(
      prepare,
      [query, key, .reads(gates.decay), .reads(gates.beta), .reads(chunkTable), .writes(scratch)], params,
      groups: (op.valueHeads, count, 1), threads: .exactly(GDM_CHUNK_THREADS),
      threadgroupBytes: ThreadgroupBytes.chunkPrepare(keyDim: op.keyDim))

    var scan = Kernel(
      family: .chunkScan, activation: op.query.dtype, storage: op.stateDType, keyClass: keyClass)
    scan.constants.setRecurrence(op)
    scan.constants.set(.hasStores, sequences.stores != nil)
    try dispatch(
      scan,
      [
        query, key, .reads(op.value, tokens: tokens, heads: op.valueHeads, width: op.valueDim),
        .reads(gates.decay), .reads(scratch), state, states.staged,
        .writes(op.out, tokens: tokens, heads: op.valueHeads, width: op.valueDim),
        .reads(chunkTable), .reads(chunkOffsets), .reads(table.readSlots), .reads(table.writeSlots),
        states.storeOffsets, states.stores, states.snapshots,
      ],
      params, groups: (ceilDiv(op.valueDim, GDM_CHUNK_ROWS), op.valueHeads, sequences.count),
      threads: .exactly(GDM_CHUNK_THREADS),
      threadgroupBytes: ThreadgroupBytes.chunkScan(keyDim: op.keyDim, perKey: op.gateDims == .perKey))
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
      betaTokenStride: UInt32(element: gates.betaTokenStride), scale: op.scale, epsilon: op.qkNormEps)
  }
}

extension Sequences {
  /// Tokens of the longest sequence.
  var longest: Int {
    var longest: Int32 = 0
    for (start, end) in zip(starts, starts.dropFirst()) { longest = max(longest, end &- start) }
    return Int(longest)
  }

  /// Pairs of GDMChunk (first token, count), and where those of each sequence begin. A chunk ends wherever a store wants
  /// the state.
  fileprivate var chunks: (chunks: [Int32], offsets: [UInt32]) {
    var chunks: [Int32] = []
    var offsets: [UInt32] = [0]
    for sequence in 0..<count {
      let start = starts[sequence]
      let end = starts[sequence + 1]
      let cuts = (stores?.of(sequence) ?? []).map { start + $0.tokens } + [end]
      var first = start
      for cut in cuts {
        while first < cut {
          let length = min(Int32(GDM_CHUNK), cut - first)
          chunks += [first, length]
          first += length
        }
      }
      offsets.append(UInt32(chunks.count / 2))
    }
    return (chunks, offsets)
  }
}

extension Constants {
  mutating func setRecurrence(_ op: GatedDelta) {
    set(.tiledHeads, op.headMap == .tiled)
    set(.gatePerKey, op.gateDims == .perKey)
    set(.qkNorm, op.qkNorm.rawValue)
    set(.outF32, op.out.dtype == .f32)
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
