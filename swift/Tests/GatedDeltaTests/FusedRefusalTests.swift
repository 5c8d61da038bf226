import CGatedDelta
import GatedDeltaTypes
import Testing

@testable import GatedDelta

/// Rules of the four fused ops, broken once where `test/support/wrong-arguments` does not. Arguments go by their own names.
@Suite struct FusedRefusalTests {
  typealias Delta = Refusal<gd_gated_delta_net_inplace>
  typealias DeltaIds = Refusal<gd_gated_delta_net_inplace_ids>
  typealias Conv = Refusal<gd_ssm_conv_update_inplace>
  typealias ConvIds = Refusal<gd_ssm_conv_update_inplace_ids>
  static let slotBytes: UInt64 = 4 * 16 * 16 * 4

  static let delta: [Delta] = [
    Delta("dim", GD_ERROR_SHAPE, "q") {
      for path in [\gd_gated_delta_net_inplace.q, \.k] { $1[keyPath: path] = try $0.tensor(.f32, 3, 2, 2, 12) }
      $1.v = try $0.tensor(.f32, 3, 2, 4, 12)
    },
    Delta("too many sequences", GD_ERROR_RANGE, "q") { $1.q.setLength(0, (1 << 20) + 1) },
    Delta("too many tokens", GD_ERROR_SHAPE, "q") {
      $1.q.setLength(0, 1 << 20)
      $1.q.setLength(1, 1 << 12)
    },
    Delta("tokens beyond 32 bits", GD_ERROR_SHAPE, "q") { $1.q.setLength(1, .max) },
    Delta("no q", GD_ERROR_INVALID_ARGUMENT, "q") { $1.q = gd_tensor() },
    Delta("q beyond its buffer", GD_ERROR_SHAPE, "q") { $1.q = try $0.tensor(.f32, 3, 2, 2, 16, lacking: 8) },
    Delta("no k", GD_ERROR_INVALID_ARGUMENT, "k") { $1.k = gd_tensor() },
    Delta("16-bit k", GD_ERROR_DTYPE, "k") { $1.k.dtype = DType.bf16.rawValue },
    Delta("v off its vectors", GD_ERROR_RANGE, "v") { $1.v.offset = 4 },
    Delta("v too short", GD_ERROR_SHAPE, "v") { $1.v.offset = 32 },
    Delta("no beta", GD_ERROR_INVALID_ARGUMENT, "beta") { $1.beta = gd_tensor() },
    Delta("no state", GD_ERROR_INVALID_ARGUMENT, "state") { $1.state = gd_tensor() },
    Delta("state too short", GD_ERROR_SHAPE, "state") { $1.state.offset = 32 },
    Delta("no stateDst", GD_ERROR_INVALID_ARGUMENT, "stateDst") { $1.state_dst = gd_tensor() },
    Delta("stateDst with gaps", GD_ERROR_SHAPE, "stateDst") { $1.state_dst.setStride(0, 1032) },
    Delta("stateDst a few elements on", GD_ERROR_OVERLAP, "stateDst") {
      $1.state.buffer = try $0.buffer(4 * 4096).handle
      $1.state_dst.buffer = $1.state.buffer
      $1.state.offset = 64
    },
    Delta("snapshots over the state", GD_ERROR_OVERLAP, "snapshots") {
      $1.snapshots.buffer = try $0.buffer(8 * 4096).handle
      $1.state.buffer = $1.snapshots.buffer
      $1.state.offset = 5 * slotBytes
    },
    Delta("snapshots beyond their buffer", GD_ERROR_SHAPE, "snapshots") { $1.snapshots.setLength(0, 3) },
    Delta("too many snapshots", GD_ERROR_RANGE, "snapshots") { $1.snapshots.setLength(0, 1 << 30) },
    Delta("no out", GD_ERROR_INVALID_ARGUMENT, "out") { $1.out = gd_tensor() },
  ]

  static let deltaIds: [DeltaIds] = [
    DeltaIds("reserved", GD_ERROR_INVALID_ARGUMENT, "reserved") { $1.reserved = 1 },
    DeltaIds("no cache", GD_ERROR_INVALID_ARGUMENT, "cache") { $1.cache = gd_tensor() },
    DeltaIds("cache too short", GD_ERROR_SHAPE, "cache") { $1.cache.setLength(0, 8) },
    DeltaIds("rsHead beyond integers", GD_ERROR_RANGE, "rsHead") { $1.rs_head = .max },
    DeltaIds("no ids", GD_ERROR_INVALID_ARGUMENT, "ids") { $1.ids = gd_index() },
    DeltaIds("snapshots over the cache", GD_ERROR_OVERLAP, "snapshots") { $1.snapshots.buffer = $1.cache.buffer },
    DeltaIds("out over the cache", GD_ERROR_OVERLAP, "out") { $1.out.buffer = $1.cache.buffer },
  ]

  static let conv: [Conv] = [
    Conv("silu", GD_ERROR_INVALID_ARGUMENT, "silu") { $1.silu = 2 },
    Conv("too many sequences", GD_ERROR_RANGE, "x") { $1.x.setLength(0, (1 << 20) + 1) },
    Conv("no weight", GD_ERROR_INVALID_ARGUMENT, "weight") { $1.weight = gd_tensor() },
    Conv("no x", GD_ERROR_INVALID_ARGUMENT, "x") { $1.x = gd_tensor() },
    Conv("no states", GD_ERROR_INVALID_ARGUMENT, "convStates") { $1.conv_states = gd_tensor() },
    Conv("states too short", GD_ERROR_SHAPE, "convStates") { $1.conv_states.offset = 4 },
    Conv("no destination", GD_ERROR_INVALID_ARGUMENT, "convStateDst") { $1.conv_state_dst = gd_tensor() },
  ]

  static let convIds: [ConvIds] = [
    ConvIds("no cache", GD_ERROR_INVALID_ARGUMENT, "convCache") { $1.conv_cache = gd_tensor() },
    ConvIds("cache too short", GD_ERROR_SHAPE, "convCache") { $1.conv_cache.setLength(0, 8) },
    ConvIds("rsHead at the last of as many slots as there can be", GD_ERROR_RANGE, "rsHead") {
      $1.rs_head = .max
      $1.conv_cache.reshape([UInt32(Int32.max), 0, 3])
      $1.weight.reshape([0, 4])
      $1.x.reshape([3, 0])
      $1.out.reshape([3, 0])
    },
    ConvIds("no ids", GD_ERROR_INVALID_ARGUMENT, "ids") { $1.ids = gd_index() },
    ConvIds("silu", GD_ERROR_INVALID_ARGUMENT, "silu") { $1.silu = 2 },
  ]

  @Test func theRecurrence() throws {
    for rule in Self.delta {
      try rule.verify(op: "gatedDeltaNetInplace", { try $0.fusedDelta() }, gd_encode_gated_delta_net_inplace)
    }
    for rule in Self.deltaIds {
      try rule.verify(op: "gatedDeltaNetInplaceIds", { try $0.fusedDeltaIds() }, gd_encode_gated_delta_net_inplace_ids)
    }
  }

  @Test func theConvolution() throws {
    for rule in Self.conv {
      try rule.verify(op: "ssmConvUpdateInplace", { try $0.fusedConv() }, gd_encode_ssm_conv_update_inplace)
    }
    for rule in Self.convIds {
      try rule.verify(op: "ssmConvUpdateInplaceIds", { try $0.fusedConvIds() }, gd_encode_ssm_conv_update_inplace_ids)
    }
  }
}
