import CGatedDelta
import GatedDeltaTypes

@testable import GatedDelta

/// Valid descriptors to start from: every tensor in a buffer of its own that just holds it.
extension Fixture {
  func gatedDelta(
    tokens: Int = 6, sequences: Int = 1, keyHeads: Int = 2, valueHeads: Int = 6, keyDim: Int = 16, valueDim: Int = 8,
    slots: Int = 4, form: GateForm = .log, dims: GateDims = .perHead, dtype: DType = .f32
  ) throws -> gd_gated_delta {
    var op = gd_gated_delta()
    op.size = UInt32(MemoryLayout<gd_gated_delta>.size)
    op.version = 1
    op.gate_form = form.rawValue
    op.gate_dims = dims.rawValue
    op.beta_form = BetaForm.given.rawValue
    op.head_map = HeadMap.block.rawValue
    op.qk_norm = QKNorm.l2.rawValue
    op.algorithm = Algorithm.auto.rawValue
    op.qk_norm_eps = 1e-6
    op.scale = 0.25
    op.gate_bound = form == .rawBounded ? -5 : .nan
    op.query = try tensor(dtype, tokens, keyHeads, keyDim)
    op.key = try tensor(dtype, tokens, keyHeads, keyDim)
    op.value = try tensor(dtype, tokens, valueHeads, valueDim)
    let gateDType = form.isRaw ? dtype : .f32
    op.gate =
      dims == .perHead
      ? try tensor(gateDType, tokens, valueHeads) : try tensor(gateDType, tokens, valueHeads, keyDim)
    op.beta = try tensor(dtype, tokens, valueHeads)
    if form.isRaw {
      op.a_log = try tensor(.f32, valueHeads)
      op.dt_bias = dims == .perHead ? try tensor(.bf16, valueHeads) : try tensor(.bf16, valueHeads, keyDim)
    }
    if slots > 0 { op.state = try tensor(.f32, slots, valueHeads, valueDim, keyDim) }
    if sequences > 1 { op.cu_seqlens = try index([0] + [Int32](repeating: Int32(tokens), count: sequences)).index }
    op.out = try tensor(dtype, tokens, valueHeads, valueDim)
    return op
  }

  func causalConv1d(
    tokens: Int = 6, sequences: Int = 1, channels: Int = 24, width: Int = 4, slots: Int = 4, dtype: DType = .f32
  ) throws -> gd_causal_conv1d {
    var op = gd_causal_conv1d()
    op.size = UInt32(MemoryLayout<gd_causal_conv1d>.size)
    op.version = 1
    op.activation = Activation.silu.rawValue
    op.x = try tensor(dtype, tokens, channels)
    op.weight = try tensor(.bf16, channels, width)
    op.bias = try tensor(.f16, channels)
    if slots > 0 { op.state = try tensor(dtype, slots, channels, width - 1) }
    op.out = try tensor(dtype, tokens, channels)
    if sequences > 1 { op.cu_seqlens = try index([0] + [Int32](repeating: Int32(tokens), count: sequences)).index }
    return op
  }

  func gatedRMSNorm(tokens: Int = 3, heads: Int = 2, dim: Int = 16, dtype: DType = .bf16) throws -> gd_gated_rms_norm {
    var op = gd_gated_rms_norm()
    op.size = UInt32(MemoryLayout<gd_gated_rms_norm>.size)
    op.version = 1
    op.activation = Activation.silu.rawValue
    op.order = NormOrder.normThenGate.rawValue
    op.eps = 1e-6
    op.x = try tensor(.f32, tokens, heads, dim)
    op.z = try tensor(dtype, tokens, heads, dim)
    op.weight = try tensor(.f32, dim)
    op.out = try tensor(dtype, tokens, heads, dim)
    return op
  }

  func gatedDeltaStep(
    sequences: Int = 3, keyHeads: Int = 2, valueHeads: Int = 4, keyDim: Int = 8, valueDim: Int = 16, slots: Int = 4,
    form: GateForm = .raw, dtype: DType = .bf16
  ) throws -> gd_gated_delta_step {
    let channels = 2 * keyHeads * keyDim + valueHeads * valueDim
    var op = gd_gated_delta_step()
    op.size = UInt32(MemoryLayout<gd_gated_delta_step>.size)
    op.version = 1
    op.gate_form = form.rawValue
    op.gate_dims = GateDims.perHead.rawValue
    op.beta_form = BetaForm.sigmoid.rawValue
    op.head_map = HeadMap.tiled.rawValue
    op.qk_norm = QKNorm.l2.rawValue
    op.conv_activation = Activation.silu.rawValue
    op.norm_activation = Activation.silu.rawValue
    op.norm_order = NormOrder.normThenGate.rawValue
    op.qk_norm_eps = 1e-6
    op.scale = 0.25
    op.norm_eps = 1e-6
    op.key_heads = UInt32(keyHeads)
    op.gate_bound = form == .rawBounded ? -5 : .nan
    op.x = try tensor(dtype, sequences, channels)
    op.conv_weight = try tensor(dtype, channels, 4)
    op.conv_bias = try tensor(dtype, channels)
    op.gate = try tensor(form.isRaw ? dtype : .f32, sequences, valueHeads)
    op.beta = try tensor(dtype, sequences, valueHeads)
    if form.isRaw {
      op.a_log = try tensor(.f32, valueHeads)
      op.dt_bias = try tensor(.f32, valueHeads)
    }
    if slots > 0 {
      op.conv_state = try tensor(dtype, slots, channels, 3)
      op.state = try tensor(.f32, slots, valueHeads, valueDim, keyDim)
    }
    op.z = try tensor(dtype, sequences, valueHeads, valueDim)
    op.norm_weight = try tensor(.f32, valueDim)
    op.out = try tensor(dtype, sequences, valueHeads, valueDim)
    return op
  }

  func linear(rows: Int = 3, inFeatures: Int = 16, outFeatures: Int = 10) throws -> gd_linear {
    var op = gd_linear()
    op.size = UInt32(MemoryLayout<gd_linear>.size)
    op.version = 1
    op.x = try tensor(.f16, rows, inFeatures)
    op.weight = try tensor(.bf16, outFeatures, inFeatures)
    op.out = try tensor(.f32, rows, outFeatures)
    return op
  }

  /// Two sequences, of 2 tokens after 1 and of 3 after 5, in pages of 4.
  func attention(heads: Int = 4, keyHeads: Int = 2, headDim: Int = 16, dtype: DType = .bf16) throws -> gd_attention {
    var op = gd_attention()
    op.size = UInt32(MemoryLayout<gd_attention>.size)
    op.version = 1
    op.rotary_dim = 8
    op.weight_form = WeightForm.plusOne.rawValue
    op.rope_theta = 10000
    op.norm_eps = 1e-6
    op.scale = .nan
    op.query = try tensor(dtype, 5, heads, headDim)
    op.key = try tensor(dtype, 5, keyHeads, headDim)
    op.value = try tensor(dtype, 5, keyHeads, headDim)
    op.gate = try tensor(dtype, 5, heads, headDim)
    op.query_norm = try tensor(.f32, headDim)
    op.key_norm = try tensor(.f16, headDim)
    op.key_pages = try tensor(.f16, 4, keyHeads, 4, headDim)
    op.value_pages = try tensor(.f16, 4, keyHeads, 4, headDim)
    op.out = try tensor(dtype, 5, heads, headDim)
    op.cu_seqlens = try index([0, 2, 5]).index
    op.page_table = try index([0, -1, 3, 1]).index
    op.past_tokens = try index([1, 5]).index
    op.positions = try index([1, 2, 5, 6, 7]).index
    return op
  }

  /// Of 3 bits in groups of 32, with a residual.
  func quantisedLinear() throws -> gd_linear {
    var op = try linear(inFeatures: 64)
    op.weight = try tensor(.u32, 10, 6)
    op.scales = try tensor(.bf16, 10, 2)
    op.biases = try tensor(.bf16, 10, 2)
    op.residual = try tensor(.f16, 3, 10)
    return op
  }

  /// Of 8 bits in groups of 64.
  func embedding(ids: [Int32] = [4, 0, 4]) throws -> gd_embedding {
    var op = gd_embedding()
    op.size = UInt32(MemoryLayout<gd_embedding>.size)
    op.version = 1
    op.weight = try tensor(.u32, 5, 32)
    op.scales = try tensor(.f16, 5, 2)
    op.biases = try tensor(.f16, 5, 2)
    op.out = try tensor(.f32, ids.count, 128)
    op.ids = try index(ids).index
    return op
  }

  /// The same with ids that another op leaves in a tensor.
  func embeddingOfDeviceIds(rows: Int = 3) throws -> gd_embedding {
    var op = try embedding(ids: [Int32](repeating: 0, count: rows))
    op.ids = gd_index()
    op.device_ids = try tensor(.id32, rows)
    return op
  }

  func siluMul() throws -> gd_silu_mul {
    var op = gd_silu_mul()
    op.size = UInt32(MemoryLayout<gd_silu_mul>.size)
    op.version = 1
    op.gate = try tensor(.f32, 3, 2, 16)
    op.up = try tensor(.bf16, 3, 2, 16)
    op.out = try tensor(.bf16, 3, 2, 16)
    return op
  }

  func route(tokens: Int = 3, experts: Int = 8, chosen: Int = 2) throws -> gd_route {
    var op = gd_route()
    op.size = UInt32(MemoryLayout<gd_route>.size)
    op.version = 1
    op.normalize = 1
    op.logits = try tensor(.bf16, tokens, experts)
    op.ids = try tensor(.id32, tokens, chosen)
    op.weights = try tensor(.f32, tokens, chosen)
    return op
  }

  func topK(rows: Int = 3, columns: Int = 20, chosen: Int = 4) throws -> gd_top_k {
    var op = gd_top_k()
    op.size = UInt32(MemoryLayout<gd_top_k>.size)
    op.version = 1
    op.x = try tensor(.bf16, rows, columns)
    op.values = try tensor(.f32, rows, chosen)
    op.ids = try tensor(.id32, rows, chosen)
    return op
  }

  /// Of 4 bits in groups of 64, with a row of x for each expert.
  func expertLinear(tokens: Int = 3, chosen: Int = 2) throws -> gd_expert_linear {
    var op = gd_expert_linear()
    op.size = UInt32(MemoryLayout<gd_expert_linear>.size)
    op.version = 1
    op.x = try tensor(.f16, tokens, chosen, 128)
    op.weight = try tensor(.u32, 5, 10, 16)
    op.scales = try tensor(.bf16, 5, 10, 2)
    op.biases = try tensor(.bf16, 5, 10, 2)
    op.ids = try tensor(.id32, tokens, chosen)
    op.out = try tensor(.f32, tokens, chosen, 10)
    return op
  }

  func combineExperts(tokens: Int = 3, chosen: Int = 2, dim: Int = 16) throws -> gd_combine_experts {
    var op = gd_combine_experts()
    op.size = UInt32(MemoryLayout<gd_combine_experts>.size)
    op.version = 1
    op.experts = try tensor(.bf16, tokens, chosen, dim)
    op.weights = try tensor(.f32, tokens, chosen)
    op.shared = try tensor(.f32, tokens, dim)
    op.shared_gate = try tensor(.bf16, tokens, 1)
    op.residual = try tensor(.bf16, tokens, dim)
    op.out = try tensor(.bf16, tokens, dim)
    return op
  }

  /// Index data in buffers, so that it lives as long as the descriptor.
  func copySlots(slots: Int = 4, slotElements: Int = 5, reads: [Int32] = [0], writes: [Int32] = [1]) throws
    -> gd_copy_slots
  {
    var op = gd_copy_slots()
    op.size = UInt32(MemoryLayout<gd_copy_slots>.size)
    op.version = 1
    op.pool = try tensor(.f32, slots, slotElements)
    op.read_slots = try index(reads).index
    op.write_slots = try index(writes).index
    return op
  }
}
