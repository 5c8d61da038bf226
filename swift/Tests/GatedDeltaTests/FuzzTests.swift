import CGatedDelta
import GatedDeltaTypes
import Testing

@testable import GatedDelta

/// Descriptors with fields overwritten at random. Nothing may trap (a debug build traps on every overflow), and what is
/// accepted must stay inside its memory, which is established by walking it.
@Suite struct FuzzTests {
  static let words: [UInt64] = [
    0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 24, 31, 32, 33, 48, 96, 128, 255, 256, 257, 1 << 16, 1 << 20, 1 << 31, (1 << 31) - 1,
    UInt64(UInt32.max), 1 << 32, 1 << 53, 1 << 61, 1 << 62, 1 << 63, .max - 7, .max, UInt64(bitPattern: -2),
  ]

  /// Overwrites one to three words after the size and the version. Index pointers stay as they are: a wrong one is the
  /// caller's fault.
  static func mutate<Descriptor>(
    _ descriptor: inout Descriptor, keeping pointers: [Int], _ generator: inout SplitMix
  ) {
    withUnsafeMutableBytes(of: &descriptor) { bytes in
      for _ in 0...generator.next() % 3 {
        let word = words[Int(generator.next() % UInt64(words.count))]
        if generator.next() % 2 == 0 {
          let offset = 8 + Int(generator.next() % UInt64(bytes.count / 4 - 2)) * 4
          guard !pointers.contains(offset / 8 * 8) else { continue }
          bytes.storeBytes(of: UInt32(truncatingIfNeeded: word), toByteOffset: offset, as: UInt32.self)
        } else {
          let offset = 8 + Int(generator.next() % UInt64(bytes.count / 8 - 1)) * 8
          guard !pointers.contains(offset) else { continue }
          bytes.storeBytes(of: word, toByteOffset: offset, as: UInt64.self)
        }
      }
    }
  }

  /// A tensor of an accepted op, with its role in the op.
  struct Walk {
    let view: TensorView
    let tokens, heads, row: Int
    let isOutput: Bool

    var addresses: Range<UInt>? {
      guard tokens > 0, heads > 0, row > 0 else { return nil }
      let last = (tokens - 1) * view.tokenStride + (heads - 1) * view.headStride + row
      let start = UInt(bitPattern: view.pointer)
      return start..<start + UInt(last * view.dtype.size)
    }
  }

  static func walks(_ op: Op) -> [Walk] {
    func input(_ view: TensorView?, _ tokens: Int, _ heads: Int, _ row: Int) -> Walk? {
      view.map { Walk(view: $0, tokens: tokens, heads: heads, row: row, isOutput: false) }
    }
    func output(_ view: TensorView?, _ tokens: Int, _ heads: Int, _ row: Int) -> Walk? {
      view.map { Walk(view: $0, tokens: tokens, heads: heads, row: row, isOutput: true) }
    }
    func inputs(_ matrix: Matrix, experts: Int? = nil) -> [Walk?] {
      let layout = matrix.format.layout
      let blocks = matrix.columns / layout.elements
      let (tokens, heads) = experts.map { ($0, matrix.rows / $0) } ?? (matrix.rows, 1)
      return [
        input(matrix.weight, tokens, heads, layout.stored(columns: matrix.columns)),
        input(matrix.scales, tokens, heads, blocks), input(matrix.biases, tokens, heads, blocks),
      ]
    }
    let walks: [Walk?]
    switch op {
    case .gatedDelta(let op, _):
      let gate = op.options.gateDims == .perKey ? op.keyDim : 1
      walks = [
        input(op.query, op.tokens, op.keyHeads, op.keyDim), input(op.key, op.tokens, op.keyHeads, op.keyDim),
        input(op.value, op.tokens, op.valueHeads, op.valueDim), input(op.gate, op.tokens, op.valueHeads, gate),
        input(op.beta, op.tokens, op.valueHeads, 1), input(op.raw?.aLog, 1, 1, op.valueHeads),
        op.options.gateDims == .perKey
          ? input(op.raw?.dtBias, op.valueHeads, 1, op.keyDim) : input(op.raw?.dtBias, 1, 1, op.valueHeads),
        output(op.state, op.slots, op.valueHeads, op.valueDim * op.keyDim),
        output(op.out, op.tokens, op.valueHeads, op.valueDim),
        input(op.states.source, op.states.sourceSlots, op.valueHeads, op.valueDim * op.keyDim),
        output(op.states.snapshots, op.states.snapshotEntries, op.valueHeads, op.valueDim * op.keyDim),
        output(op.records?.key, op.tokens, op.keyHeads, op.keyDim),
        output(op.records?.delta, op.tokens, op.valueHeads, op.valueDim),
        output(op.records?.decay, op.tokens, op.valueHeads, gate),
      ]
    case .causalConv1d(let op, _):
      walks = [
        input(op.x, op.tokens, 1, op.channels), input(op.weight, op.channels, 1, op.width),
        input(op.bias, 1, 1, op.channels), output(op.state, op.slots, op.channels, op.width - 1),
        output(op.out, op.tokens, 1, op.channels),
        input(op.states.source, op.states.sourceSlots, op.channels, op.width - 1),
        output(op.states.snapshots, op.states.snapshotEntries, op.channels, op.width - 1),
      ]
    case .gatedRMSNorm(let op):
      walks = [
        input(op.x, op.tokens, op.heads, op.dim), input(op.z, op.tokens, op.heads, op.dim),
        input(op.weight, 1, 1, op.dim), output(op.out, op.tokens, op.heads, op.dim),
      ]
    case .elementwise(let op):
      // The tensor that out replaces does not count.
      walks = [
        op.replacesA ? nil : input(op.a, op.tokens, op.heads, op.dim),
        op.replacesB ? nil : input(op.b, op.tokens, op.heads, op.dim), output(op.out, op.tokens, op.heads, op.dim),
      ]
    case .attention(let op, _):
      walks = [
        input(op.query, op.tokens, op.heads, op.headDim), input(op.key, op.tokens, op.keyHeads, op.headDim),
        input(op.value, op.tokens, op.keyHeads, op.headDim), input(op.gate, op.tokens, op.heads, op.headDim),
        input(op.queryNorm, 1, 1, op.headDim), input(op.keyNorm, 1, 1, op.headDim),
        output(op.keyPages, op.pages, op.keyHeads, op.pageTokens * op.headDim),
        output(op.valuePages, op.pages, op.keyHeads, op.pageTokens * op.headDim),
        output(op.out, op.tokens, op.heads, op.headDim),
      ]
    case .rmsNorm(let op):
      walks = [
        input(op.x, op.tokens, op.heads, op.dim), input(op.weight, 1, 1, op.dim),
        output(op.out, op.tokens, op.heads, op.dim),
      ]
    case .gatedDeltaStep(let op, _):
      let channels = 2 * op.keyHeads * op.keyDim + op.valueHeads * op.valueDim
      walks = [
        input(op.x, op.sequences, 1, channels), input(op.convWeight, channels, 1, op.width),
        input(op.convBias, 1, 1, channels), output(op.convState, op.slots, channels, op.width - 1),
        output(op.state, op.slots, op.valueHeads, op.valueDim * op.keyDim),
        input(op.gate, op.sequences, op.valueHeads, op.options.gateDims == .perKey ? op.keyDim : 1),
        input(op.beta, op.sequences, op.valueHeads, 1), input(op.z, op.sequences, op.valueHeads, op.valueDim),
        input(op.normWeight, 1, 1, op.valueDim), output(op.out, op.sequences, op.valueHeads, op.valueDim),
      ]
    case .linear(let op):
      walks =
        inputs(op.matrix) + [
          input(op.x, op.rows, 1, op.inFeatures),
          op.replacesResidual ? nil : input(op.residual, op.rows, 1, op.outFeatures),
          output(op.out, op.rows, 1, op.outFeatures),
        ]
    case .embedding(let op, _):
      walks = inputs(op.matrix) + [output(op.out, op.rows, 1, op.dim), input(op.deviceIds, 1, 1, op.rows)]
    case .route(let op):
      walks = [
        input(op.logits, op.tokens, 1, op.experts), output(op.ids, op.tokens, 1, op.chosen),
        output(op.weights, op.tokens, 1, op.chosen),
      ]
    case .topK(let op):
      walks = [
        input(op.x, op.rows, 1, op.columns), output(op.values, op.rows, 1, op.chosen),
        output(op.ids, op.rows, 1, op.chosen),
      ]
    case .expertLinear(let op):
      walks =
        inputs(op.matrices, experts: op.experts) + [
          input(op.x, op.tokens, op.sharesRows ? 1 : op.chosen, op.inFeatures), input(op.ids, op.tokens, 1, op.chosen),
          output(op.out, op.tokens, op.chosen, op.outFeatures),
        ]
    case .combineExperts(let op):
      walks = [
        input(op.experts, op.tokens, op.chosen, op.dim), input(op.weights, op.tokens, 1, op.chosen),
        input(op.shared, op.tokens, 1, op.dim), input(op.sharedGate, op.tokens, 1, 1),
        op.replacesResidual ? nil : input(op.residual, op.tokens, 1, op.dim), output(op.out, op.tokens, 1, op.dim),
      ]
    case .copySlots(let op, _): walks = [output(op.pool, op.slots, 1, op.slotElements)]
    case .commitGatedDelta(let op, _):
      walks = [
        input(op.records.key, op.tokens, op.keyHeads, op.keyDim),
        input(op.records.delta, op.tokens, op.valueHeads, op.valueDim),
        input(op.records.decay, op.tokens, op.valueHeads, op.gateDims == .perKey ? op.keyDim : 1),
        output(op.state, op.slots, op.valueHeads, op.valueDim * op.keyDim),
      ]
    case .commitCausalConv1d(let op, _):
      walks = [input(op.x, op.tokens, 1, op.channels), output(op.state, op.slots, op.channels, op.width - 1)]
    }
    return walks.compactMap { $0 }
  }

  static func check(_ op: Op) {
    let all = walks(op)
    for walk in all {
      guard let addresses = walk.addresses else { continue }
      let start = UInt(bitPattern: walk.view.memory.pointer)
      #expect(addresses.lowerBound >= start && addresses.upperBound <= start + UInt(walk.view.memory.byteCount))
      #expect(walk.view.tokenStride > 0 && walk.view.headStride > 0)
    }
    for (position, output) in all.enumerated() where output.isOutput {
      for (other, walk) in all.enumerated() where other != position {
        guard let left = output.addresses, let right = walk.addresses else { continue }
        #expect(!left.overlaps(right))
      }
    }
    guard let sequences = op.sequences else { return }
    if case .attention(let op, _) = op { return check(sequences, op) }
    if case .embedding(let op, let ids) = op {
      let expected = op.deviceIds == nil ? op.rows : 0
      #expect(ids.count == expected && ids.readSlots.count == expected)
      #expect(ids.readSlots.allSatisfy { (0..<op.vocabulary).contains(Int($0)) })
      return
    }
    let (slots, states): (Int, StateTensors)
    switch op {
    case .gatedDelta(let op, _): (slots, states) = (op.slots, op.states)
    case .causalConv1d(let op, _): (slots, states) = (op.slots, op.states)
    case .gatedDeltaStep(let op, _): (slots, states) = (op.slots, .none)
    case .copySlots(let op, _): (slots, states) = (op.slots, .none)
    case .commitGatedDelta(let op, _): (slots, states) = (op.slots, .none)
    case .commitCausalConv1d(let op, _): (slots, states) = (op.slots, .none)
    case .gatedRMSNorm, .rmsNorm, .linear, .elementwise, .embedding, .attention, .route, .topK, .expertLinear,
      .combineExperts:
      (slots, states) = (0, .none)
    }
    check(sequences, slots: slots, states)
  }

  /// Pages that are used are there, and those that are written are used once.
  static func check(_ sequences: Sequences, _ op: Attention) {
    guard let pages = sequences.pages else {
      Issue.record("an attention without pages")
      return
    }
    #expect(sequences.starts.count == sequences.count + 1 && pages.pastTokens.count == sequences.count)
    #expect(pages.rotation.count == Int(sequences.starts[sequences.count]) * op.options.rotaryDim)
    #expect(op.options.rotaryDim % 2 == 0 && op.options.rotaryDim <= op.headDim && op.heads % op.keyHeads == 0)
    var uses: [Int32: Int] = [:]
    var written: [Int32] = []
    for sequence in 0..<sequences.count {
      let rows = Int(sequences.starts[sequence + 1] - sequences.starts[sequence])
      let past = Int(pages.pastTokens[sequence])
      #expect(rows >= 0 && past >= 0)
      guard rows > 0 else { continue }
      let used = (past + rows + op.pageTokens - 1) / op.pageTokens
      #expect(used <= pages.pagesPerSequence)
      for place in 0..<min(used, pages.pagesPerSequence) {
        let page = pages.pageTable[sequence * pages.pagesPerSequence + place]
        #expect((0..<op.pages).contains(Int(page)))
        uses[page, default: 0] += 1
        if place >= past / op.pageTokens { written.append(page) }
      }
    }
    #expect(written.allSatisfy { uses[$0] == 1 })
  }

  static func check(_ sequences: Sequences, slots: Int, _ states: StateTensors) {
    let readable = states.source == nil ? slots : states.sourceSlots
    #expect(sequences.readSlots.count == sequences.count && sequences.writeSlots.count == sequences.count)
    #expect(sequences.readSlots.allSatisfy { $0 >= -1 && Int($0) < readable })
    #expect(sequences.writeSlots.allSatisfy { $0 >= -1 && Int($0) < slots })
    var written = sequences.writeSlots.filter { $0 >= 0 }
    for sequence in 0..<sequences.count where sequences.stores != nil || sequences.counts != nil {
      let length = sequences.starts[sequence + 1] - sequences.starts[sequence]
      if let counts = sequences.counts { #expect((0...length).contains(counts[sequence])) }
      var last: Int32 = 0
      for store in sequences.stores?.of(sequence) ?? [] {
        #expect(store.tokens >= last && store.tokens <= length)
        last = store.tokens
        switch store.target {
        case .slot(let slot):
          #expect((0..<slots).contains(Int(slot)))
          written.append(slot)
        case .snapshot(let entry): #expect((0..<states.snapshotEntries).contains(Int(entry)))
        }
      }
    }
    #expect(Set(written).count == written.count)
  }

  static func fuzz<Descriptor>(
    rounds: Int, seed: UInt64, keeping pointers: [PartialKeyPath<Descriptor>], _ fixture: Fixture, _ valid: Descriptor,
    _ encode: (UInt64, UnsafePointer<Descriptor>?) -> gd_status
  ) throws {
    var generator = SplitMix(seed: seed)
    let kept = try pointers.map { try #require(MemoryLayout<Descriptor>.offset(of: $0)) }
    var accepted = 0
    for _ in 0..<rounds {
      var descriptor = valid
      mutate(&descriptor, keeping: kept, &generator)
      let status = encode(fixture.device, &descriptor)
      guard status == GD_OK else {
        #expect(Failure.Code(rawValue: status) != nil)
        continue
      }
      accepted += 1
      for op in try fixture.committedOps() { check(op) }
      while let submission = fixture.backend.next() { submission.finish(nil) }
    }
    #expect(accepted > rounds / 100 && accepted < rounds * 9 / 10, "\(accepted) of \(rounds)")
  }

  @Test func gatedDelta() throws {
    let fixture = try Fixture()
    var valid = try fixture.gatedDelta(sequences: 3, form: .raw)
    valid.cu_seqlens = try fixture.index([0, 2, 2, 6]).index
    valid.write_slots = try fixture.index([2, 0, 1]).index
    try Self.fuzz(
      rounds: 4000, seed: 1, keeping: Self.deltaPointers, fixture, valid, gd_encode_gated_delta)
  }

  static var deltaPointers: [PartialKeyPath<gd_gated_delta>] {
    [
      \.cu_seqlens.pointer, \.read_slots.pointer, \.write_slots.pointer, \.snapshot_slots.pointer,
      \.checkpoint_offsets.pointer, \.checkpoint_tokens.pointer, \.checkpoint_slots.pointer,
    ]
  }

  static var convPointers: [PartialKeyPath<gd_causal_conv1d>] {
    [
      \.cu_seqlens.pointer, \.read_slots.pointer, \.write_slots.pointer, \.snapshot_slots.pointer,
      \.checkpoint_offsets.pointer, \.checkpoint_tokens.pointer, \.checkpoint_slots.pointer,
    ]
  }

  @Test func gatedDeltaWithAllThatItCanStore() throws {
    let fixture = try Fixture()
    try Self.fuzz(
      rounds: 4000, seed: 7, keeping: Self.deltaPointers, fixture, try fixture.storingDelta(), gd_encode_gated_delta)
  }

  @Test func causalConv1dWithAllThatItCanStore() throws {
    let fixture = try Fixture()
    try Self.fuzz(
      rounds: 4000, seed: 8, keeping: Self.convPointers, fixture, try fixture.storingConv(), gd_encode_causal_conv1d)
  }

  @Test func commits() throws {
    let fixture = try Fixture()
    try Self.fuzz(
      rounds: 4000, seed: 9,
      keeping: [\.cu_seqlens.pointer, \.counts.pointer, \.read_slots.pointer, \.write_slots.pointer], fixture,
      try fixture.commitDelta(), gd_encode_commit_gated_delta)
    try Self.fuzz(
      rounds: 4000, seed: 10,
      keeping: [\.cu_seqlens.pointer, \.counts.pointer, \.read_slots.pointer, \.write_slots.pointer], fixture,
      try fixture.commitConv(), gd_encode_commit_causal_conv1d)
  }

  @Test func fusedOps() throws {
    let fixture = try Fixture()
    try Self.fuzz(
      rounds: 3000, seed: 11, keeping: [], fixture, try fixture.fusedDelta(), gd_encode_gated_delta_net_inplace)
    try Self.fuzz(
      rounds: 3000, seed: 12, keeping: [\.ids.pointer], fixture, try fixture.fusedDeltaIds(),
      gd_encode_gated_delta_net_inplace_ids)
    try Self.fuzz(
      rounds: 3000, seed: 13, keeping: [], fixture, try fixture.fusedConv(), gd_encode_ssm_conv_update_inplace)
    try Self.fuzz(
      rounds: 3000, seed: 14, keeping: [\.ids.pointer], fixture, try fixture.fusedConvIds(),
      gd_encode_ssm_conv_update_inplace_ids)
  }

  @Test func causalConv1d() throws {
    let fixture = try Fixture()
    try Self.fuzz(
      rounds: 4000, seed: 2, keeping: Self.convPointers, fixture, try fixture.causalConv1d(), gd_encode_causal_conv1d)
  }

  @Test func gatedRMSNorm() throws {
    let fixture = try Fixture()
    try Self.fuzz(rounds: 4000, seed: 3, keeping: [], fixture, try fixture.gatedRMSNorm(), gd_encode_gated_rms_norm)
  }

  @Test func gatedDeltaStep() throws {
    let fixture = try Fixture()
    try Self.fuzz(
      rounds: 4000, seed: 4, keeping: [\.read_slots.pointer, \.write_slots.pointer], fixture,
      try fixture.gatedDeltaStep(), gd_encode_gated_delta_step)
  }

  @Test func linear() throws {
    let fixture = try Fixture()
    try Self.fuzz(rounds: 4000, seed: 5, keeping: [], fixture, try fixture.linear(), gd_encode_linear)
  }

  @Test func attention() throws {
    let fixture = try Fixture()
    try Self.fuzz(
      rounds: 4000, seed: 18,
      keeping: [\.cu_seqlens.pointer, \.page_table.pointer, \.past_tokens.pointer, \.positions.pointer], fixture,
      try fixture.attention(), gd_encode_attention)
  }

  @Test func linearOfPackedWords() throws {
    let fixture = try Fixture()
    try Self.fuzz(rounds: 4000, seed: 15, keeping: [], fixture, try fixture.quantisedLinear(), gd_encode_linear)
  }

  @Test func linearOfANamedFormat() throws {
    let fixture = try Fixture()
    var named = try fixture.quantisedLinear()
    named.weight_format = WeightFormat.affine3G32.rawValue
    try Self.fuzz(rounds: 4000, seed: 19, keeping: [], fixture, named, gd_encode_linear)
  }

  @Test func embedding() throws {
    let fixture = try Fixture()
    try Self.fuzz(
      rounds: 4000, seed: 16, keeping: [\.ids.pointer], fixture, try fixture.embedding(), gd_encode_embedding)
    try Self.fuzz(
      rounds: 4000, seed: 22, keeping: [\.ids.pointer], fixture, try fixture.embeddingOfDeviceIds(), gd_encode_embedding)
  }

  @Test func siluMul() throws {
    let fixture = try Fixture()
    try Self.fuzz(rounds: 4000, seed: 17, keeping: [], fixture, try fixture.siluMul(), gd_encode_silu_mul)
  }

  @Test func experts() throws {
    let fixture = try Fixture()
    try Self.fuzz(rounds: 4000, seed: 18, keeping: [], fixture, try fixture.route(), gd_encode_route)
    try Self.fuzz(rounds: 4000, seed: 19, keeping: [], fixture, try fixture.expertLinear(), gd_encode_expert_linear)
    try Self.fuzz(rounds: 4000, seed: 20, keeping: [], fixture, try fixture.combineExperts(), gd_encode_combine_experts)
  }

  @Test func topK() throws {
    let fixture = try Fixture()
    try Self.fuzz(rounds: 4000, seed: 21, keeping: [], fixture, try fixture.topK(), gd_encode_top_k)
  }

  @Test func copySlots() throws {
    let fixture = try Fixture()
    try Self.fuzz(
      rounds: 4000, seed: 6, keeping: [\.read_slots.pointer, \.write_slots.pointer], fixture,
      try fixture.copySlots(reads: [2, 3, 0], writes: [0, 1, 2]), gd_encode_copy_slots)
  }
}
