import CGatedDelta
import GatedDeltaTypes
import Testing

@testable import GatedDelta

/// Sources, snapshots, checkpoints, records and commits on their way to a backend.
@Suite struct StateOpTests {
  typealias Store = StateStores.Store

  static let expected = StateStores(
    offsets: [0, 3, 4, 9],
    stores: [
      Store(tokens: 1, target: .snapshot(3)), Store(tokens: 1, target: .slot(3)), Store(tokens: 2, target: .snapshot(0)),
      Store(tokens: 0, target: .slot(5)),
      Store(tokens: 1, target: .slot(7)), Store(tokens: 3, target: .snapshot(5)), Store(tokens: 3, target: .slot(6)),
      Store(tokens: 4, target: .snapshot(2)), Store(tokens: 4, target: .slot(4)),
    ])

  /// Sorted by token and then arbitrarily: the order of stores after the same token is unspecified.
  static func sorted(_ stores: StateStores?) -> [[String]] {
    guard let stores else { return [] }
    return stores.offsets.indices.dropLast().map { sequence in
      stores.of(sequence).map { "\($0.tokens) \($0.target)" }.sorted()
    }
  }

  @Test func everythingThatADeltaStoresArrives() throws {
    let fixture = try Fixture()
    var given = try fixture.storingDelta()
    #expect(gd_encode_gated_delta(fixture.device, &given) == GD_OK, "\(LastError())")
    guard case .gatedDelta(let op, let sequences)? = try fixture.committedOps().first else {
      Issue.record("no op")
      return
    }
    #expect(sequences.readSlots == [2, -1, 2] && sequences.writeSlots == [0, 1, 2])
    #expect(sequences.stagedReads.isEmpty, "a source is never written")
    #expect(Self.sorted(sequences.stores) == Self.sorted(Self.expected))
    for sequence in 0..<3 {
      let tokens = try #require(sequences.stores).of(sequence).map(\.tokens)
      #expect(tokens == tokens.sorted())
    }
    #expect(op.states.sourceSlots == 3 && op.states.snapshotEntries == 6 && op.stateDType == .f32)
    #expect(op.states.source?.tokenStride == 6 * 8 * 16 && op.states.snapshots?.tokenStride == 6 * 8 * 16)
    let records = try #require(op.records)
    #expect([records.key, records.delta, records.decay].map(\.tokenStride) == [32, 48, 6])
  }

  @Test func everythingThatAConvolutionStoresArrives() throws {
    let fixture = try Fixture()
    var given = try fixture.storingConv()
    #expect(gd_encode_causal_conv1d(fixture.device, &given) == GD_OK, "\(LastError())")
    guard case .causalConv1d(let op, let sequences)? = try fixture.committedOps().first else {
      Issue.record("no op")
      return
    }
    #expect(Self.sorted(sequences.stores) == Self.sorted(Self.expected))
    #expect(op.states.sourceSlots == 3 && op.states.snapshotEntries == 6 && op.states.snapshots?.headStride == 3)
  }

  @Test func withoutAPoolStatesHaveTheDTypeOfWhatThereIs() throws {
    let fixture = try Fixture()
    for (source, snapshots) in [(DType.bf16, DType?.none), (.f16, .f16), (.f32, nil)] {
      var given = try fixture.gatedDelta(slots: 0)
      given.source = try fixture.tensor(source, 2, 6, 8, 16)
      if let snapshots {
        given.snapshots = try fixture.tensor(snapshots, 1, 1, 6, 8, 16)
      }
      given.read_slots = try fixture.index([1]).index
      #expect(gd_encode_gated_delta(fixture.device, &given) == GD_OK, "\(LastError())")
      guard case .gatedDelta(let op, let sequences)? = try fixture.committedOps().first else {
        Issue.record("no op")
        return
      }
      #expect(op.stateDType == source && op.state == nil)
      #expect(sequences.readSlots == [1] && sequences.writeSlots == [-1], "nothing to write to")
      #expect((sequences.stores != nil) == (snapshots != nil))
    }
  }

  /// Stores of one sequence into a slot that another reads: that read is staged. Into its own: it is not.
  @Test func storesAreWritesToOthers() throws {
    let fixture = try Fixture()
    for (slots, staged) in [([3, 4], []), ([1, 4], [1]), ([0, 4], []), ([3, 0], [0]), ([1, 0], [0, 1])]
      as [([Int32], [Int32])]
    {
      var given = try fixture.causalConv1d(sequences: 2, slots: 7)
      given.cu_seqlens = try fixture.index([0, 3, 6]).index
      given.read_slots = try fixture.index([0, 1]).index
      given.write_slots = try fixture.index([5, 6]).index
      given.checkpoint_offsets = try fixture.index([0, 1, 2]).index
      given.checkpoint_tokens = try fixture.index([1, 2]).index
      given.checkpoint_slots = try fixture.index(slots).index
      #expect(gd_encode_causal_conv1d(fixture.device, &given) == GD_OK, "\(LastError())")
      let sequences = try #require(try fixture.committedOps().first).sequences
      #expect(sequences?.stagedReads == staged, "checkpoints to \(slots)")
      given.checkpoint_offsets = gd_index()
      given.checkpoint_tokens = gd_index()
      given.checkpoint_slots = gd_index()
      given.snapshot_slots = try fixture.index(slots).index
      #expect(gd_encode_causal_conv1d(fixture.device, &given) == GD_OK, "\(LastError())")
      #expect(try #require(try fixture.committedOps().first).sequences?.stagedReads == staged, "snapshots to \(slots)")
    }
  }

  /// Slots of snapshots that lie before the call's first token are not written, so they clash with nothing.
  @Test func snapshotsBeyondTheTokensAreNotWritten() throws {
    let fixture = try Fixture()
    var given = try fixture.causalConv1d(tokens: 1)
    given.snapshot_slots = try fixture.index([1, 0, 1]).index
    #expect(gd_encode_causal_conv1d(fixture.device, &given) == GD_OK, "\(LastError())")
    let stores = try #require(try fixture.committedOps().first).sequences?.stores
    #expect(stores == StateStores(offsets: [0, 1], stores: [Store(tokens: 1, target: .slot(1))]))
    var none = try fixture.causalConv1d(tokens: 0)
    none.snapshot_slots = try fixture.index([1]).index
    #expect(gd_encode_causal_conv1d(fixture.device, &none) == GD_OK, "\(LastError())")
    #expect(try #require(try fixture.committedOps().first).sequences?.stores == nil)
  }

  @Test func commitsArriveWhole() throws {
    let fixture = try Fixture()
    var delta = try fixture.commitDelta(dims: .perKey)
    delta.read_slots = try fixture.index([2, 0]).index
    delta.write_slots = try fixture.index([0, 3]).index
    var conv = try fixture.commitConv()
    #expect(gd_encode_commit_gated_delta(fixture.device, &delta) == GD_OK, "\(LastError())")
    #expect(gd_encode_commit_causal_conv1d(fixture.device, &conv) == GD_OK, "\(LastError())")
    let ops = try fixture.committedOps()
    guard case .commitGatedDelta(let op, let sequences) = ops[0], case .commitCausalConv1d(let shift, let moved) = ops[1]
    else {
      Issue.record("other ops")
      return
    }
    #expect([op.tokens, op.keyHeads, op.valueHeads, op.keyDim, op.valueDim, op.slots] == [6, 2, 6, 16, 8, 4])
    #expect(op.gateDims == .perKey && op.options.headMap == .tiled && op.state.dtype == .bf16)
    #expect(op.records.decay.headStride == 16 && op.records.key.tokenStride == 32)
    #expect(sequences.starts == [0, 4, 6] && sequences.counts == [3, 0])
    #expect(sequences.readSlots == [2, 0] && sequences.writeSlots == [0, 3] && sequences.stagedReads == [1])
    #expect([shift.tokens, shift.channels, shift.width, shift.slots] == [6, 24, 4, 4] && shift.x.dtype == .f16)
    #expect(moved.counts == [3, 0] && moved.readSlots == [0, 1])
    // Without a slot there is nothing to do.
    var empty = try fixture.commitConv()
    empty.state = try fixture.tensor(.f32, 0, 24, 3)
    empty.write_slots = try fixture.index([-1, -1]).index
    empty.read_slots = empty.write_slots
    #expect(gd_encode_commit_causal_conv1d(fixture.device, &empty) == GD_OK, "\(LastError())")
    #expect(try fixture.committedOps().isEmpty)
  }

  @Test func aReplayReadsStoresAndCountsAnew() throws {
    let fixture = try Fixture()
    let plan = try fixture.plan()
    var given = try fixture.causalConv1d(sequences: 2, slots: 6)
    let starts = try fixture.index([0, 3, 6])
    let snapshotSlots = try fixture.index([-1, -1])
    let offsets = try fixture.index([0, 1, 1])
    let tokens = try fixture.index([1, 1])
    let slots = try fixture.index([4, 5])
    given.cu_seqlens = starts.index
    given.snapshot_slots = snapshotSlots.index
    (given.checkpoint_offsets, given.checkpoint_tokens) = (offsets.index, tokens.index)
    given.checkpoint_slots = slots.index
    let counts = try fixture.index([2, 1])
    var commit = try fixture.commitConv()
    commit.counts = counts.index
    #expect(gd_encode_causal_conv1d(plan, &given) == GD_OK, "\(LastError())")
    #expect(gd_encode_commit_causal_conv1d(plan, &commit) == GD_OK, "\(LastError())")
    func run() -> (stores: StateStores?, counts: [Int32]?)? {
      guard gd_plan_run(plan, nil) == GD_OK, let ops = fixture.backend.submissions.last?.ops.map(\.op) else { return nil }
      return (ops[0].sequences?.stores, ops[1].sequences?.counts)
    }
    let checkpoint = Store(tokens: 1, target: .slot(4))
    #expect(run()?.stores == StateStores(offsets: [0, 1, 1], stores: [checkpoint]))
    snapshotSlots.memory[1] = 3
    #expect(run()?.stores == StateStores(offsets: [0, 1, 2], stores: [checkpoint, Store(tokens: 3, target: .slot(3))]))
    starts.memory[1] = 4
    offsets.memory[2] = 2
    tokens.memory[1] = 0
    let all = [checkpoint, Store(tokens: 0, target: .slot(5)), Store(tokens: 2, target: .slot(3))]
    #expect(run()?.stores == StateStores(offsets: [0, 1, 3], stores: all))
    slots.memory[1] = 3
    #expect(run() == nil && LastError().op == "causalConv1d" && LastError().argument == "checkpoints.slots[1]")
    slots.memory[1] = 2
    counts.memory[0] = 4
    #expect(run()?.counts == [4, 1])
    counts.memory[1] = 3
    #expect(run() == nil && LastError().op == "commitCausalConv1d" && LastError().argument == "counts[1]")
  }
}
