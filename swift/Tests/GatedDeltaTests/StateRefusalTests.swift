import CGatedDelta
import GatedDeltaTypes
import Testing

@testable import GatedDelta

/// Rules of sources, snapshots, checkpoints, records and commits, broken once where `test/support/wrong-arguments` does not.
@Suite struct StateRefusalTests {
  typealias Delta = Refusal<gd_gated_delta>
  typealias Conv = Refusal<gd_causal_conv1d>
  typealias Commit = Refusal<gd_commit_gated_delta>
  typealias CommitConv = Refusal<gd_commit_causal_conv1d>

  static let delta: [Delta] = [
    Delta("source too short", GD_ERROR_SHAPE, "source") { $1.source.setLength(0, 4) },
    Delta("source off its vectors", GD_ERROR_RANGE, "source") { $1.source.offset = 4 },
    Delta("source with gaps", GD_ERROR_SHAPE, "source") { $1.source.setStride(0, 6 * 8 * 16 + 8) },
    Delta("out is over the source", GD_ERROR_OVERLAP, "out") { $1.out.buffer = $1.source.buffer },
    Delta("reads beyond the source", GD_ERROR_RANGE, "readSlots[2]") {
      $1.read_slots = try $0.index([2, -1, 3]).index
    },
    Delta("more sequences than source slots", GD_ERROR_RANGE, "readSlots") {
      $1.read_slots = gd_index()
      $1.source = try $0.tensor(.f32, 2, 6, 8, 16)
    },
    Delta("reads of a source stand for writes, beyond the pool", GD_ERROR_RANGE, "writeSlots[0]") {
      $1 = try $0.gatedDelta(slots: 2)
      $1.source = try $0.tensor(.f32, 4, 6, 8, 16)
      $1.read_slots = try $0.index([3]).index
    },
    Delta("snapshots of the source's dtype only", GD_ERROR_DTYPE, "snapshots") {
      $1 = try $0.gatedDelta(slots: 0)
      $1.source = try $0.tensor(.bf16, 1, 6, 8, 16)
      $1.snapshots = try $0.tensor(.f32, 1, 1, 6, 8, 16)
    },
    Delta("snapshots beyond their buffer", GD_ERROR_SHAPE, "snapshots") { $1.snapshots.setLength(0, 3) },
    Delta("snapshots without number", GD_ERROR_RANGE, "snapshots") { $1.snapshots.setLength(0, (1 << 31) - 1) },
    Delta("more snapshots than there may be", GD_ERROR_RANGE, "snapshots") { $1.snapshots.setLength(0, 1 << 19) },
    Delta("snapshots over the state", GD_ERROR_OVERLAP, "snapshots") { $1.snapshots.buffer = $1.state.buffer },
    Delta("snapshots over the source", GD_ERROR_OVERLAP, "snapshots") {
      $1.snapshots.buffer = try $0.buffer(9 * 6 * 8 * 16 * 4).handle
      $1.source.buffer = $1.snapshots.buffer
      $1.source.offset = 5 * 6 * 8 * 16 * 4
    },
    Delta("more snapshot slots than there may be", GD_ERROR_RANGE, "snapshotSlots") {
      $1.snapshots = gd_tensor()
      $1.snapshot_slots.count = 3 << 20
    },
    Delta("snapshot slots without a state", GD_ERROR_INVALID_ARGUMENT, "snapshotSlots") {
      $1 = try $0.gatedDelta(slots: 0)
      $1.snapshot_slots = try $0.index([0]).index
    },
    Delta("no offsets", GD_ERROR_INVALID_ARGUMENT, "checkpoints.offsets") { $1.checkpoint_offsets = gd_index() },
    Delta("no tokens", GD_ERROR_INVALID_ARGUMENT, "checkpoints.tokens") { $1.checkpoint_tokens = gd_index() },
    Delta("no checkpoint slots", GD_ERROR_INVALID_ARGUMENT, "checkpoints.slots") { $1.checkpoint_slots = gd_index() },
    Delta("offsets only", GD_ERROR_INVALID_ARGUMENT, "checkpoints.tokens") {
      $1.checkpoint_tokens = gd_index()
      $1.checkpoint_slots = gd_index()
    },
    Delta("more checkpoints than there may be", GD_ERROR_RANGE, "checkpoints.tokens") {
      $1.checkpoint_tokens.count = (1 << 20) + 1
    },
    Delta("offsets that begin late", GD_ERROR_RANGE, "checkpoints.offsets[0]") {
      $1.checkpoint_offsets = try $0.index([1, 1, 1, 3]).index
    },
    Delta("a checkpoint where a snapshot goes", GD_ERROR_OVERLAP, "checkpoints.slots[0]") {
      $1.checkpoint_slots = try $0.index([3, 6, 7]).index
    },
    Delta("checkpoints without a state", GD_ERROR_INVALID_ARGUMENT, "checkpoints") {
      $1 = try $0.gatedDelta(slots: 0)
      $1.checkpoint_offsets = try $0.index([0, 1]).index
      $1.checkpoint_tokens = try $0.index([2]).index
      $1.checkpoint_slots = try $0.index([0]).index
    },
    Delta("records of keys only", GD_ERROR_INVALID_ARGUMENT, "records.delta") {
      $1.record_delta = gd_tensor()
      $1.record_decay = gd_tensor()
    },
    Delta("records without keys", GD_ERROR_INVALID_ARGUMENT, "records.key") { $1.record_key = gd_tensor() },
    Delta("records without decays", GD_ERROR_INVALID_ARGUMENT, "records.decay") { $1.record_decay = gd_tensor() },
    Delta("records with gaps", GD_ERROR_SHAPE, "records.delta") { $1.record_delta.setStride(0, 56) },
    Delta("records too short", GD_ERROR_SHAPE, "records.decay") { $1.record_decay.offset = 4 },
    Delta("records off their vectors", GD_ERROR_RANGE, "records.key") { $1.record_key.offset = 16 },
    Delta("records over each other", GD_ERROR_OVERLAP, "records.decay") { $1.record_decay.buffer = $1.record_delta.buffer },
    Delta("records over the key", GD_ERROR_OVERLAP, "records.key") { $1.record_key = $1.key },
    Delta("records of chunks", GD_ERROR_INVALID_ARGUMENT, "algorithm") { $1.algorithm = Algorithm.chunked.rawValue },
  ]

  static let conv: [Conv] = [
    Conv("snapshots beyond their buffer", GD_ERROR_SHAPE, "snapshots") { $1.snapshots.setLength(0, 3) },
    Conv("snapshots over x", GD_ERROR_OVERLAP, "snapshots") {
      $1.x.buffer = $1.snapshots.buffer
    },
  ]

  static let commit: [Commit] = [
    Commit("reserved", GD_ERROR_INVALID_ARGUMENT, "reserved") { $1.reserved = 1 },
    Commit("key dim", GD_ERROR_SHAPE, "records.key") {
      $1.record_key = try $0.tensor(.f32, 6, 2, 12)
    },
    Commit("value dim", GD_ERROR_SHAPE, "records.delta") {
      $1.record_delta = try $0.tensor(.f32, 6, 6, 264)
    },
    Commit("heads that do not divide", GD_ERROR_SHAPE, "records.delta") {
      $1.record_delta = try $0.tensor(.f32, 6, 5, 8)
      $1.record_decay = try $0.tensor(.f32, 6, 5)
    },
    Commit("too many tokens", GD_ERROR_SHAPE, "records.key") { $1.record_key.setLength(0, 1 << 31) },
    Commit("too many sequences", GD_ERROR_RANGE, "cuSeqlens") { $1.cu_seqlens.count = (1 << 20) + 2 },
    Commit("head map", GD_ERROR_INVALID_ARGUMENT, "headMap") { $1.head_map = 3 },
    Commit("no keys", GD_ERROR_INVALID_ARGUMENT, "records.key") { $1.record_key = gd_tensor() },
    Commit("keys with gaps", GD_ERROR_SHAPE, "records.key") { $1.record_key.setStride(1, 24) },
    Commit("state over the deltas", GD_ERROR_OVERLAP, "state") {
      $1.record_delta.buffer = $1.state.buffer
    },
    Commit("no counts", GD_ERROR_INVALID_ARGUMENT, "counts") { $1.counts = gd_index() },
    Commit("no starts", GD_ERROR_SHAPE, "counts") { $1.cu_seqlens = gd_index() },
  ]

  static let commitConv: [CommitConv] = [
    CommitConv("too many tokens", GD_ERROR_SHAPE, "x") { $1.x.setLength(0, 1 << 31) },
    CommitConv("too many sequences", GD_ERROR_RANGE, "cuSeqlens") { $1.cu_seqlens.count = (1 << 20) + 2 },
    CommitConv("no x", GD_ERROR_INVALID_ARGUMENT, "x") { $1.x = gd_tensor() },
    CommitConv("state over x", GD_ERROR_OVERLAP, "state") { $1.x.buffer = $1.state.buffer },
    CommitConv("no counts", GD_ERROR_INVALID_ARGUMENT, "counts") { $1.counts = gd_index() },
    CommitConv("a slot below", GD_ERROR_RANGE, "writeSlots[1]") { $1.write_slots = try $0.index([1, -2]).index },
  ]

  @Test func theRecurrence() throws {
    for rule in Self.delta { try rule.verify(op: "gatedDelta", { try $0.storingDelta() }, gd_encode_gated_delta) }
  }

  @Test func theConvolution() throws {
    for rule in Self.conv { try rule.verify(op: "causalConv1d", { try $0.storingConv() }, gd_encode_causal_conv1d) }
  }

  @Test func commits() throws {
    for rule in Self.commit {
      try rule.verify(op: "commitGatedDelta", { try $0.commitDelta() }, gd_encode_commit_gated_delta)
    }
    for rule in Self.commitConv {
      try rule.verify(op: "commitCausalConv1d", { try $0.commitConv() }, gd_encode_commit_causal_conv1d)
    }
  }
}
