import CGatedDelta
import GatedDeltaTypes

@testable import GatedDelta

/// Valid descriptors of additional stores, of commits and of the fused ops, to start from.
extension Fixture {
  /// Three sequences of 2, 0 and 4 tokens that read from a source of 3 slots, with 2 snapshots each (tensor and slots),
  /// checkpoints and records. Slots 0..2 are final states, 3 and 4 snapshots, 5..7 checkpoints.
  func storingDelta() throws -> gd_gated_delta {
    var op = try gatedDelta(sequences: 3, slots: 8)
    op.cu_seqlens = try index([0, 2, 2, 6]).index
    op.source = try tensor(.f32, 3, 6, 8, 16)
    op.read_slots = try index([2, -1, 2]).index
    op.write_slots = try index([0, 1, 2]).index
    op.snapshots = try tensor(.f32, 2, 3, 6, 8, 16)
    op.snapshot_slots = try index([-1, 3, 0, 0, 4, -1]).index
    op.checkpoint_offsets = try index([0, 0, 1, 3]).index
    op.checkpoint_tokens = try index([0, 3, 1]).index
    op.checkpoint_slots = try index([5, 6, 7]).index
    op.record_key = try tensor(.f32, 6, 2, 16)
    op.record_delta = try tensor(.f32, 6, 6, 8)
    op.record_decay = try tensor(.f32, 6, 6)
    return op
  }

  func storingConv() throws -> gd_causal_conv1d {
    let delta = try storingDelta()
    var op = try causalConv1d(sequences: 3, slots: 8)
    (op.cu_seqlens, op.read_slots, op.write_slots) = (delta.cu_seqlens, delta.read_slots, delta.write_slots)
    op.source = try tensor(.f32, 3, 24, 3)
    op.snapshots = try tensor(.f32, 2, 3, 24, 3)
    op.snapshot_slots = delta.snapshot_slots
    op.checkpoint_offsets = delta.checkpoint_offsets
    op.checkpoint_tokens = delta.checkpoint_tokens
    op.checkpoint_slots = delta.checkpoint_slots
    return op
  }

  /// Two sequences of 4 and 2 tokens; 3 of the first and none of the second are accepted.
  func commitDelta(dims: GateDims = .perHead) throws -> gd_commit_gated_delta {
    var op = gd_commit_gated_delta()
    op.size = UInt32(MemoryLayout<gd_commit_gated_delta>.size)
    op.version = 1
    op.head_map = HeadMap.tiled.rawValue
    op.record_key = try tensor(.f32, 6, 2, 16)
    op.record_delta = try tensor(.f32, 6, 6, 8)
    op.record_decay = dims == .perKey ? try tensor(.f32, 6, 6, 16) : try tensor(.f32, 6, 6)
    op.state = try tensor(.bf16, 4, 6, 8, 16)
    op.cu_seqlens = try index([0, 4, 6]).index
    op.counts = try index([3, 0]).index
    return op
  }

  func commitConv() throws -> gd_commit_causal_conv1d {
    var op = gd_commit_causal_conv1d()
    op.size = UInt32(MemoryLayout<gd_commit_causal_conv1d>.size)
    op.version = 1
    op.x = try tensor(.f16, 6, 24)
    op.state = try tensor(.f32, 4, 24, 3)
    op.cu_seqlens = try index([0, 4, 6]).index
    op.counts = try index([3, 0]).index
    return op
  }

  /// Three sequences of two tokens, 2 key and 4 value heads of 16.
  func fusedDelta(sequences: Int = 3, tokens: Int = 2, snapshots: Int = 2, dims: GateDims = .perHead) throws
    -> gd_gated_delta_net_inplace
  {
    var op = gd_gated_delta_net_inplace()
    op.size = UInt32(MemoryLayout<gd_gated_delta_net_inplace>.size)
    op.version = 1
    op.q = try tensor(.f32, sequences, tokens, 2, 16)
    op.k = try tensor(.f32, sequences, tokens, 2, 16)
    op.v = try tensor(.f32, sequences, tokens, 4, 16)
    op.gate =
      dims == .perHead ? try tensor(.f32, sequences, tokens, 4) : try tensor(.f32, sequences, tokens, 4, 16)
    op.beta = try tensor(.f32, sequences, tokens, 4)
    op.state = try tensor(.f32, sequences, 4, 16, 16)
    op.state_dst = try tensor(.f32, sequences, 4, 16, 16)
    if snapshots > 0 { op.snapshots = try tensor(.f32, snapshots, sequences, 4, 16, 16) }
    op.out = try tensor(.f32, sequences, tokens, 4, 16)
    return op
  }

  /// The same over a cache of 7 slots, of which 3, 4 and 5 are written.
  func fusedDeltaIds(ids: [Int32] = [4, -1, 6]) throws -> gd_gated_delta_net_inplace_ids {
    let plain = try fusedDelta()
    var op = gd_gated_delta_net_inplace_ids()
    op.size = UInt32(MemoryLayout<gd_gated_delta_net_inplace_ids>.size)
    op.version = 1
    (op.q, op.k, op.v, op.gate, op.beta) = (plain.q, plain.k, plain.v, plain.gate, plain.beta)
    (op.snapshots, op.out) = (plain.snapshots, plain.out)
    op.rs_head = 3
    op.cache = try tensor(.f32, 7, 4, 16, 16)
    op.ids = try index(ids).index
    return op
  }

  func fusedConv() throws -> gd_ssm_conv_update_inplace {
    var op = gd_ssm_conv_update_inplace()
    op.size = UInt32(MemoryLayout<gd_ssm_conv_update_inplace>.size)
    op.version = 1
    op.silu = 1
    op.conv_states = try tensor(.f32, 3, 24, 3)
    op.conv_state_dst = try tensor(.f32, 3, 24, 3)
    op.weight = try tensor(.f32, 24, 4)
    op.x = try tensor(.f32, 3, 24)
    op.out = try tensor(.f32, 3, 24)
    return op
  }

  func fusedConvIds(ids: [Int32] = [4, -1, 6]) throws -> gd_ssm_conv_update_inplace_ids {
    let plain = try fusedConv()
    var op = gd_ssm_conv_update_inplace_ids()
    op.size = UInt32(MemoryLayout<gd_ssm_conv_update_inplace_ids>.size)
    op.version = 1
    op.silu = 1
    (op.weight, op.x, op.out) = (plain.weight, plain.x, plain.out)
    op.rs_head = 3
    op.conv_cache = try tensor(.f32, 7, 24, 3)
    op.ids = try index(ids).index
    return op
  }
}
