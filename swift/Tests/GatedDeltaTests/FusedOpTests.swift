import CGatedDelta
import GatedDeltaTypes
import Testing

@testable import GatedDelta

/// The four fused ops are the general ones, with ggml's choices made.
@Suite struct FusedOpTests {
  static func delta(_ fixture: Fixture) throws -> (GatedDelta, Sequences) {
    guard case .gatedDelta(let op, let sequences)? = try fixture.committedOps().first else {
      throw Failure(.internal, expected: "a gatedDelta", received: "none")
    }
    let options = op.options
    #expect(options.headMap == .tiled && options.gateForm == .log && options.betaForm == .given && options.qkNorm == .none)
    #expect(options.algorithm == .auto && options.scale == 0.25 && op.raw == nil && op.records == nil)
    #expect([op.tokens, op.keyHeads, op.valueHeads, op.keyDim, op.valueDim] == [6, 2, 4, 16, 16])
    #expect(sequences.starts == [0, 2, 4, 6])
    return (op, sequences)
  }

  static func conv(_ fixture: Fixture) throws -> (CausalConv1d, Sequences) {
    guard case .causalConv1d(let op, let sequences)? = try fixture.committedOps().first else {
      throw Failure(.internal, expected: "a causalConv1d", received: "none")
    }
    #expect([op.tokens, op.channels, op.width] == [3, 24, 4] && op.bias == nil)
    #expect(sequences.starts == [0, 1, 2, 3] && sequences.stores == nil)
    return (op, sequences)
  }

  @Test func statesElsewhereAreASource() throws {
    let fixture = try Fixture()
    var given = try fixture.fusedDelta()
    #expect(gd_encode_gated_delta_net_inplace(fixture.device, &given) == GD_OK, "\(LastError())")
    let (op, sequences) = try Self.delta(fixture)
    #expect(op.slots == 3 && op.states.sourceSlots == 3 && op.states.source != nil && op.states.snapshotEntries == 6)
    #expect(op.states.source?.pointer != op.state?.pointer && sequences.stagedReads.isEmpty)
    #expect(sequences.readSlots == [0, 1, 2] && sequences.writeSlots == [0, 1, 2])
    let stores = try #require(sequences.stores)
    #expect(stores.offsets == [0, 2, 4, 6] && stores.of(1).map(\.tokens) == [1, 2])
    #expect(stores.of(1).map(\.target) == [.snapshot(4), .snapshot(1)], "0 is the newest")
    var conv = try fixture.fusedConv()
    #expect(gd_encode_ssm_conv_update_inplace(fixture.device, &conv) == GD_OK, "\(LastError())")
    let (shift, moved) = try Self.conv(fixture)
    #expect(shift.states.source != nil && shift.slots == 3 && shift.options.activation == .silu)
    #expect(moved.readSlots == [0, 1, 2] && moved.writeSlots == [0, 1, 2])
  }

  @Test func theirOwnRangeIsInPlace() throws {
    let fixture = try Fixture()
    var given = try fixture.fusedDelta(snapshots: 0)
    given.state_dst = given.state
    #expect(gd_encode_gated_delta_net_inplace(fixture.device, &given) == GD_OK, "\(LastError())")
    let (op, sequences) = try Self.delta(fixture)
    #expect(op.states.source == nil && op.state != nil && sequences.stores == nil && sequences.stagedReads.isEmpty)
    // Another handle of the same memory is the same range, too.
    let memory = UnsafeMutableRawPointer.allocate(byteCount: 16384, alignment: 16384)
    defer { memory.deallocate() }
    var handles: [UInt64] = [0, 0]
    for index in 0..<2 { try #require(gd_buffer_wrap(fixture.device, memory, 16384, &handles[index]) == GD_OK) }
    (given.state.buffer, given.state_dst.buffer) = (handles[0], handles[1])
    #expect(gd_encode_gated_delta_net_inplace(fixture.device, &given) == GD_OK, "\(LastError())")
    #expect(try Self.delta(fixture).0.states.source == nil)
    (given.out.buffer, given.out.offset) = (given.state_dst.buffer, given.state_dst.offset)
    #expect(gd_encode_gated_delta_net_inplace(fixture.device, &given) == GD_ERROR_OVERLAP)
    #expect(LastError().argument == "out")
    var conv = try fixture.fusedConv()
    conv.conv_state_dst = conv.conv_states
    conv.silu = 0
    #expect(gd_encode_ssm_conv_update_inplace(fixture.device, &conv) == GD_OK, "\(LastError())")
    let (shift, _) = try Self.conv(fixture)
    #expect(shift.states.source == nil && shift.options.activation == .none)
    for handle in handles { gd_buffer_release(handle) }
  }

  @Test func adjacentRangesAreDisjoint() throws {
    let fixture = try Fixture()
    var given = try fixture.fusedDelta()
    given.state.buffer = try fixture.buffer(6 * 4096).handle
    given.state_dst.buffer = given.state.buffer
    given.state.offset = 3 * FusedRefusalTests.slotBytes
    #expect(gd_encode_gated_delta_net_inplace(fixture.device, &given) == GD_OK, "\(LastError())")
    #expect(try Self.delta(fixture).0.states.source != nil)
  }

  /// Destinations are 3, 4 and 5 of 7.
  @Test func idsAreReadSlots() throws {
    let fixture = try Fixture()
    for (ids, staged) in [
      ([3, 4, 5], []), ([4, 3, 5], [0, 1]), ([4, 5, 3], [0, 1, 2]), ([3, 3, 3], [1, 2]), ([6, 6, 0], []),
      ([-1, 4, -1], []), ([4, -1, 6], [0]),
    ] as [([Int32], [Int32])] {
      var given = try fixture.fusedDeltaIds(ids: ids)
      #expect(gd_encode_gated_delta_net_inplace_ids(fixture.device, &given) == GD_OK, "\(LastError())")
      let (op, sequences) = try Self.delta(fixture)
      #expect(op.slots == 7 && op.states.source == nil)
      #expect(sequences.readSlots == ids && sequences.writeSlots == [3, 4, 5] && sequences.stagedReads == staged)
      var conv = try fixture.fusedConvIds(ids: ids)
      #expect(gd_encode_ssm_conv_update_inplace_ids(fixture.device, &conv) == GD_OK, "\(LastError())")
      let (shift, moved) = try Self.conv(fixture)
      #expect(shift.slots == 7 && moved.readSlots == ids && moved.writeSlots == [3, 4, 5])
      #expect(moved.stagedReads == staged)
    }
  }

  @Test func gatesPerKeyAndShortSequences() throws {
    let fixture = try Fixture()
    var given = try fixture.fusedDelta(dims: .perKey)
    #expect(gd_encode_gated_delta_net_inplace(fixture.device, &given) == GD_OK, "\(LastError())")
    #expect(try Self.delta(fixture).0.options.gateDims == .perKey)
    // Fewer tokens than snapshots: the older ones stay as they were.
    given = try fixture.fusedDelta(tokens: 1)
    #expect(gd_encode_gated_delta_net_inplace(fixture.device, &given) == GD_OK, "\(LastError())")
    let stores = try #require(try fixture.committedOps().first).sequences?.stores
    #expect(stores?.stores.map(\.target) == [.snapshot(0), .snapshot(1), .snapshot(2)])
    given = try fixture.fusedDelta(tokens: 0)
    #expect(gd_encode_gated_delta_net_inplace(fixture.device, &given) == GD_OK, "\(LastError())")
    #expect(try #require(try fixture.committedOps().first).sequences?.starts == [0, 0, 0, 0])
    given = try fixture.fusedDelta(sequences: 0)
    #expect(gd_encode_gated_delta_net_inplace(fixture.device, &given) == GD_OK, "\(LastError())")
    #expect(try fixture.committedOps().isEmpty)
  }

  /// [sequences, tokens, ...] becomes one dimension of rows: it needs one stride, and any will do.
  @Test func sequencesFollowOneAnother() throws {
    let fixture = try Fixture()
    var given = try fixture.fusedDelta()
    let wide = try fixture.buffer(3 * 4 * 2 * 16 * 4).handle
    given.q = gd_tensor(buffer: wide, .f32, [3, 2, 2, 16])
    given.q.setStride(1, 64)
    given.q.setStride(0, 128)
    #expect(gd_encode_gated_delta_net_inplace(fixture.device, &given) == GD_OK, "\(LastError())")
    #expect(try Self.delta(fixture).0.query.tokenStride == 64)
    given.q.setStride(0, 160)
    #expect(gd_encode_gated_delta_net_inplace(fixture.device, &given) == GD_ERROR_SHAPE)
    #expect(LastError().argument == "q" && LastError().expected.contains("follow one another"), "\(LastError())")
    // With one token each it is the sequences' own stride that counts.
    given = try fixture.fusedDelta(tokens: 1, snapshots: 0)
    given.q = gd_tensor(buffer: wide, .f32, [3, 1, 2, 16])
    given.q.setStride(0, 96)
    #expect(gd_encode_gated_delta_net_inplace(fixture.device, &given) == GD_OK, "\(LastError())")
    guard case .gatedDelta(let op, _)? = try fixture.committedOps().first else {
      Issue.record("no op")
      return
    }
    #expect(op.query.tokenStride == 96 && op.query.headStride == 16 && op.tokens == 3)
  }

  @Test func replaysReadIdsAnew() throws {
    let fixture = try Fixture()
    let plan = try fixture.plan()
    var given = try fixture.fusedDeltaIds()
    let (index, ids) = try fixture.index([3, 4, 5])
    given.ids = index
    #expect(gd_encode_gated_delta_net_inplace_ids(plan, &given) == GD_OK, "\(LastError())")
    #expect(gd_plan_run(plan, nil) == GD_OK)
    ids[0] = 5
    #expect(gd_plan_run(plan, nil) == GD_OK)
    ids[2] = 7
    #expect(gd_plan_run(plan, nil) == GD_ERROR_RANGE)
    #expect(LastError().op == "gatedDeltaNetInplaceIds" && LastError().argument == "ids[2]", "\(LastError())")
    let seen = fixture.backend.submissions.map { $0.ops[0].op.sequences }
    #expect(seen.map { $0?.readSlots } == [[3, 4, 5], [5, 4, 5]] && seen.map { $0?.stagedReads } == [[], [0]])
  }
}
