import CGatedDelta
import GatedDeltaTypes
import Testing

@testable import GatedDelta

/// Rules of the other ops, broken once where `test/support/wrong-arguments` does not. Those that they share with `gatedDelta`
/// (extents, strides, gates) are broken there in every way, here once for each tensor.
@Suite struct OpRefusalTests {
  static let conv: [Refusal<gd_causal_conv1d>] = [
    .init("tokens beyond i32", GD_ERROR_SHAPE, "x") { $1.x.setLength(0, .max) },
    .init("sigmoid", GD_ERROR_INVALID_ARGUMENT, "activation") { $1.activation = 3 },
    .init("no activation", GD_ERROR_INVALID_ARGUMENT, "activation") { $1.activation = 0 },
    .init("x short", GD_ERROR_SHAPE, "x") { $1.x = try $0.tensor(.f32, 6, 24, lacking: 1) },
    .init("x stride", GD_ERROR_SHAPE, "x") { $1.x.setStride(0, 28) },
    .init("weight short", GD_ERROR_SHAPE, "weight") { $1.weight = try $0.tensor(.f32, 24, 4, lacking: 1) },
    .init("no weight", GD_ERROR_INVALID_ARGUMENT, "weight") { $1.weight.buffer = 0 },
    .init("state short", GD_ERROR_SHAPE, "state") { $1.state = try $0.tensor(.f32, 4, 24, 3, lacking: 1) },
    .init("out short", GD_ERROR_SHAPE, "out") { $1.out = try $0.tensor(.f32, 6, 24, lacking: 1) },
    .init("out overlaps x's end", GD_ERROR_OVERLAP, "out") {
      $1.x.buffer = try $0.buffer((12 * 24 - 8) * 4).handle
      $1.out.buffer = $1.x.buffer
      $1.out.offset = UInt64((6 * 24 - 8) * 4)
    },
    .init("out in the state", GD_ERROR_OVERLAP, "out") { $1.out.buffer = $1.state.buffer },
    .init("weight in the state", GD_ERROR_OVERLAP, "state") {
      $1.weight.buffer = $1.state.buffer
    },
    .init("too many sequences", GD_ERROR_RANGE, "cuSeqlens") {
      $1.cu_seqlens = try $0.index([0, 6]).index
      $1.cu_seqlens.count = (1 << 20) + 2
    },
  ]

  static let norm: [Refusal<gd_gated_rms_norm>] = [
    .init("no activation", GD_ERROR_INVALID_ARGUMENT, "activation") { $1.activation = 1 },
    .init("order", GD_ERROR_INVALID_ARGUMENT, "order") { $1.order = 3 },
    .init("eps NaN", GD_ERROR_INVALID_ARGUMENT, "eps") { $1.eps = .nan },
    .init("x short", GD_ERROR_SHAPE, "x") { $1.x = try $0.tensor(.f32, 3, 2, 16, lacking: 1) },
    .init("z short", GD_ERROR_SHAPE, "z") { $1.z = try $0.tensor(.bf16, 3, 2, 16, lacking: 1) },
    .init("z off its vectors", GD_ERROR_RANGE, "z") { $1.z.offset = 8 },
    .init("out short", GD_ERROR_SHAPE, "out") { $1.out = try $0.tensor(.bf16, 3, 2, 16, lacking: 1) },
    .init("out of a third dtype", GD_ERROR_DTYPE, "out") { $1.out.dtype = DType.f16.rawValue },
    .init("all dimensions huge", GD_ERROR_SHAPE, "x") {
      for path in [\gd_gated_rms_norm.x, \.z, \.out] { $1[keyPath: path].reshape([1 << 30, 1 << 30, 1 << 30]) }
    },
  ]

  static let step: [Refusal<gd_gated_delta_step>] = [
    .init("reserved", GD_ERROR_INVALID_ARGUMENT, "reserved") { $1.reserved = 1 },
    .init("keyDim", GD_ERROR_SHAPE, "x") { $1.key_heads = 16 },
    .init("valueDim", GD_ERROR_SHAPE, "z") { $1.z = try $0.tensor(.bf16, 3, 16, 4) },
    .init("no key heads", GD_ERROR_RANGE, "keyHeads") { $1.key_heads = 0 },
    .init("key heads beyond i32", GD_ERROR_RANGE, "keyHeads") { $1.key_heads = .max },
    .init("heads no multiple", GD_ERROR_SHAPE, "keyHeads") {
      $1.key_heads = 2
      $1.z = try $0.tensor(.bf16, 3, 1, 64)
    },
    .init("width", GD_ERROR_SHAPE, "convWeight") { $1.conv_weight = try $0.tensor(.bf16, 96, 0) },
    .init("too many sequences", GD_ERROR_RANGE, "x") { $1.x.setLength(0, (1 << 20) + 1) },
    .init("head map", GD_ERROR_INVALID_ARGUMENT, "headMap") { $1.head_map = 0 },
    .init("q/k norm", GD_ERROR_INVALID_ARGUMENT, "qkNorm") { $1.qk_norm = 0 },
    .init("conv activation", GD_ERROR_INVALID_ARGUMENT, "convActivation") { $1.conv_activation = 3 },
    .init("norm activation", GD_ERROR_INVALID_ARGUMENT, "normActivation") { $1.norm_activation = 1 },
    .init("norm order", GD_ERROR_INVALID_ARGUMENT, "normOrder") { $1.norm_order = 0 },
    .init("q/k eps", GD_ERROR_INVALID_ARGUMENT, "qkNormEps") { $1.qk_norm_eps = -.infinity },
    .init("scale", GD_ERROR_INVALID_ARGUMENT, "scale") { $1.scale = .infinity },
    .init("norm eps", GD_ERROR_INVALID_ARGUMENT, "normEps") { $1.norm_eps = .nan },
    .init("gate form", GD_ERROR_INVALID_ARGUMENT, "gateForm") { $1.gate_form = 0 },
    .init("gate dims", GD_ERROR_INVALID_ARGUMENT, "gateDims") { $1.gate_dims = 0 },
    .init("beta form", GD_ERROR_INVALID_ARGUMENT, "betaForm") { $1.beta_form = 4 },
    .init("x short", GD_ERROR_SHAPE, "x") { $1.x = try $0.tensor(.bf16, 3, 96, lacking: 1) },
    .init("convWeight short", GD_ERROR_SHAPE, "convWeight") { $1.conv_weight = try $0.tensor(.bf16, 96, 4, lacking: 1) },
    .init("convState short", GD_ERROR_SHAPE, "convState") { $1.conv_state = try $0.tensor(.bf16, 4, 96, 3, lacking: 1) },
    .init("gate short", GD_ERROR_SHAPE, "gate") { $1.gate = try $0.tensor(.f32, 3, 4, lacking: 1) },
    .init("beta short", GD_ERROR_SHAPE, "beta") { $1.beta = try $0.tensor(.f32, 3, 4, lacking: 1) },
    .init("aLog short", GD_ERROR_SHAPE, "aLog") { $1.a_log = try $0.tensor(.f32, 3) },
    .init("dtBias short", GD_ERROR_SHAPE, "dtBias") { $1.dt_bias = try $0.tensor(.f32, 3) },
    .init("state short", GD_ERROR_SHAPE, "state") { $1.state = try $0.tensor(.f32, 4, 4, 16, 8, lacking: 1) },
  ]

  static let linear: [Refusal<gd_linear>] = [
    .init("x short", GD_ERROR_SHAPE, "x") { $1.x = try $0.tensor(.f16, 3, 16, lacking: 1) },
    .init("weight short", GD_ERROR_SHAPE, "weight") { $1.weight = try $0.tensor(.f16, 10, 16, lacking: 1) },
    .init("scales next to floats", GD_ERROR_INVALID_ARGUMENT, "scales") {
      $1.weight_format = WeightFormat.bf16.rawValue
      $1.scales = try $0.tensor(.f32, 10, 1)
    },
    .init("out short", GD_ERROR_SHAPE, "out") { $1.out = try $0.tensor(.f32, 3, 10, lacking: 1) },
    .init("out of a third dtype", GD_ERROR_DTYPE, "out") { $1.out.dtype = DType.bf16.rawValue },
    .init("in place", GD_ERROR_OVERLAP, "out") {
      $1.out.buffer = $1.weight.buffer
    },
    .init("everything huge", GD_ERROR_SHAPE, "x") {
      $1.x.reshape([(1 << 31) - 1, (1 << 31) - 1])
      $1.weight.reshape([(1 << 31) - 1, (1 << 31) - 1])
    },
  ]

  static let copies: [Refusal<gd_copy_slots>] = [
    .init("pool short", GD_ERROR_SHAPE, "pool") { $1.pool.setLength(0, 5) },
    .init("slot elements huge", GD_ERROR_SHAPE, "pool") { $1.pool.setLength(1, .max) },
    .init("slot elements overflow", GD_ERROR_SHAPE, "pool") { $1.pool.reshape([4, 1 << 30, 1 << 30, 1 << 30]) },
    .init("no reads", GD_ERROR_INVALID_ARGUMENT, "readSlots") { $1.read_slots = gd_index() },
    .init("no writes", GD_ERROR_INVALID_ARGUMENT, "writeSlots") { $1.write_slots = gd_index() },
    .init("too many", GD_ERROR_RANGE, "readSlots") { $1.read_slots.count = (1 << 20) + 1 },
    .init("write outside", GD_ERROR_RANGE, "writeSlots[0]") { $1.write_slots = try $0.index([-2]).index },
  ]

  @Test func causalConv1d() throws {
    for rule in Self.conv { try rule.verify(op: "causalConv1d", { try $0.causalConv1d() }, gd_encode_causal_conv1d) }
  }
  @Test func gatedRMSNorm() throws {
    for rule in Self.norm { try rule.verify(op: "gatedRmsNorm", { try $0.gatedRMSNorm() }, gd_encode_gated_rms_norm) }
  }
  @Test func gatedDeltaStep() throws {
    for rule in Self.step {
      try rule.verify(op: "gatedDeltaStep", { try $0.gatedDeltaStep() }, gd_encode_gated_delta_step)
    }
  }
  static let quantisedLinear: [Refusal<gd_linear>] = [
    .init("weight of no dtype", GD_ERROR_DTYPE, "weight") { $1.weight.dtype = 77 },
    .init("weight short", GD_ERROR_SHAPE, "weight") { $1.weight = try $0.tensor(.u32, 10, 6, lacking: 1) },
    .init("scales short", GD_ERROR_SHAPE, "scales") { $1.scales = try $0.tensor(.bf16, 10, 2, lacking: 1) },
    .init("biases short", GD_ERROR_SHAPE, "biases") { $1.biases = try $0.tensor(.bf16, 10, 2, lacking: 1) },
    .init("words beyond i32", GD_ERROR_SHAPE, "weight") { $1.weight.setLength(1, .max) },
    .init("groups beyond i32", GD_ERROR_SHAPE, "scales") { $1.scales.setLength(1, .max) },
    .init("a format that is none", GD_ERROR_INVALID_ARGUMENT, "weightFormat") { $1.weight_format = 1000 },
    .init("a format of floats", GD_ERROR_DTYPE, "weight") { $1.weight_format = WeightFormat.bf16.rawValue },
    .init("a format of other bits", GD_ERROR_SHAPE, "weight") { $1.weight_format = WeightFormat.affine4G32.rawValue },
    .init("a format of another group", GD_ERROR_SHAPE, "scales") { $1.weight_format = WeightFormat.affine3G64.rawValue },
    .init("a named format without biases", GD_ERROR_INVALID_ARGUMENT, "biases") {
      $1.weight_format = WeightFormat.affine3G32.rawValue
      $1.biases.buffer = 0
    },
    .init("a named format of no features", GD_ERROR_SHAPE, "weight") {
      $1.weight_format = WeightFormat.affine3G32.rawValue
      $1.x = try $0.tensor(.f16, 3, 0)
      $1.weight = try $0.tensor(.u32, 10, 0)
      ($1.scales, $1.biases) = (try $0.tensor(.bf16, 10, 0), try $0.tensor(.bf16, 10, 0))
    },
    .init("products", GD_ERROR_INVALID_ARGUMENT, "products") { $1.products = 2 },
    .init("residual short", GD_ERROR_SHAPE, "residual") { $1.residual = try $0.tensor(.f16, 3, 10, lacking: 1) },
    .init("residual of a third dtype", GD_ERROR_DTYPE, "residual") { $1.residual.dtype = DType.bf16.rawValue },
    .init("out over the weight", GD_ERROR_OVERLAP, "out") { $1.out.buffer = $1.weight.buffer },
    .init("out over the residual in another dtype", GD_ERROR_OVERLAP, "out") {
      $1.residual = try $0.tensor(.f32, 3, 10)
      $1.out = $1.residual
      $1.out.dtype = DType.f16.rawValue
    },
  ]

  static let embedding: [Refusal<gd_embedding>] = [
    .init("out of three dimensions", GD_ERROR_SHAPE, "out") { $1.out = try $0.tensor(.f32, 3, 1, 128) },
    .init("out short", GD_ERROR_SHAPE, "out") { $1.out = try $0.tensor(.f32, 3, 128, lacking: 1) },
    .init("weight short", GD_ERROR_SHAPE, "weight") { $1.weight = try $0.tensor(.u32, 5, 32, lacking: 1) },
    .init("no ids", GD_ERROR_INVALID_ARGUMENT, "ids") { $1.ids = gd_index() },
    .init("ids of both kinds", GD_ERROR_INVALID_ARGUMENT, "deviceIds") { $1.device_ids = try $0.tensor(.id32, 3) },
    .init("ids of the host as the device's", GD_ERROR_DTYPE, "deviceIds") {
      $1 = try $0.embeddingOfDeviceIds()
      $1.device_ids.dtype = DType.i32.rawValue
    },
    .init("the device's ids short", GD_ERROR_SHAPE, "deviceIds") {
      $1 = try $0.embeddingOfDeviceIds()
      $1.device_ids = try $0.tensor(.id32, 3, lacking: 1)
    },
    .init("the device's ids of another number", GD_ERROR_SHAPE, "deviceIds") {
      $1 = try $0.embeddingOfDeviceIds()
      $1.device_ids = try $0.tensor(.id32, 4)
    },
    .init("out over the device's ids", GD_ERROR_OVERLAP, "out") {
      $1 = try $0.embeddingOfDeviceIds()
      $1.device_ids.buffer = $1.out.buffer
    },
    .init("more of the device's ids than an op may have", GD_ERROR_RANGE, "deviceIds") {
      $1 = try $0.embeddingOfDeviceIds()
      $1.weight = try $0.tensor(.f32, 5, 1)
      ($1.scales, $1.biases) = (gd_tensor(), gd_tensor())
      $1.out = try $0.tensor(.f16, 1 << 20 | 1, 1)
      $1.device_ids = try $0.tensor(.id32, 1 << 20 | 1)
    },
    .init("more ids than an op may have", GD_ERROR_RANGE, "ids") {
      $1 = try $0.embedding(ids: [Int32](repeating: 0, count: 2))
      $1.weight = try $0.tensor(.f32, 5, 1)
      ($1.scales, $1.biases) = (gd_tensor(), gd_tensor())
      $1.out = try $0.tensor(.f16, 1 << 20 | 1, 1)
      $1.ids.count = 1 << 20 | 1
    },
  ]

  static let siluMul: [Refusal<gd_silu_mul>] = [
    .init("up short", GD_ERROR_SHAPE, "up") { $1.up = try $0.tensor(.bf16, 3, 2, 16, lacking: 1) },
    .init("out of a third dtype", GD_ERROR_DTYPE, "out") { $1.out.dtype = DType.f16.rawValue },
    .init("out over a part of gate", GD_ERROR_OVERLAP, "out") { $1.out.buffer = $1.gate.buffer },
  ]

  static let route: [Refusal<gd_route>] = [
    .init("a third answer", GD_ERROR_INVALID_ARGUMENT, "normalize") { $1.normalize = 2 },
    .init("too many experts", GD_ERROR_SHAPE, "logits") { $1.logits = try $0.tensor(.f32, 3, 4097) },
    .init("no experts chosen", GD_ERROR_SHAPE, "ids") { $1.ids = try $0.tensor(.id32, 3, 0) },
    .init("more chosen than there are", GD_ERROR_SHAPE, "ids") { $1.ids = try $0.tensor(.id32, 3, 9) },
    .init("ids of the host", GD_ERROR_DTYPE, "ids") { $1.ids.dtype = DType.i32.rawValue },
    .init("ids short", GD_ERROR_SHAPE, "ids") { $1.ids = try $0.tensor(.id32, 3, 2, lacking: 1) },
    .init("ids over weights", GD_ERROR_OVERLAP, "weights") { $1.weights.buffer = $1.ids.buffer },
  ]

  static let topK: [Refusal<gd_top_k>] = [
    .init("none of a row", GD_ERROR_SHAPE, "values") { $1.values = try $0.tensor(.f32, 3, 0) },
    .init("more than a row has", GD_ERROR_SHAPE, "values") { $1.values = try $0.tensor(.f32, 3, 21) },
    .init("more than kernels keep", GD_ERROR_SHAPE, "values") {
      $1.x = try $0.tensor(.f32, 3, 200)
      $1.values = try $0.tensor(.f32, 3, 129)
    },
    .init("ids of the host", GD_ERROR_DTYPE, "ids") { $1.ids.dtype = DType.i32.rawValue },
    .init("ids short", GD_ERROR_SHAPE, "ids") { $1.ids = try $0.tensor(.id32, 3, 4, lacking: 1) },
    .init("ids over values", GD_ERROR_OVERLAP, "ids") { $1.ids.buffer = $1.values.buffer },
  ]

  static let expertLinear: [Refusal<gd_expert_linear>] = [
    .init("no experts", GD_ERROR_SHAPE, "weight") { $1.weight = try $0.tensor(.u32, 0, 10, 16) },
    .init("one matrix", GD_ERROR_SHAPE, "weight") { $1.weight = try $0.tensor(.u32, 50, 16) },
    .init("weight short", GD_ERROR_SHAPE, "weight") { $1.weight = try $0.tensor(.u32, 5, 10, 16, lacking: 1) },
    .init("scales of fewer experts", GD_ERROR_SHAPE, "scales") { $1.scales = try $0.tensor(.bf16, 4, 10, 2) },
    .init("a third rank", GD_ERROR_SHAPE, "x") { $1.x = try $0.tensor(.f16, 3, 3, 128) },
    .init("ids of the host", GD_ERROR_DTYPE, "ids") { $1.ids.dtype = DType.i32.rawValue },
    .init("ids short", GD_ERROR_SHAPE, "ids") { $1.ids = try $0.tensor(.id32, 3, 2, lacking: 1) },
    .init("out over ids", GD_ERROR_OVERLAP, "out") { $1.ids.buffer = $1.out.buffer },
  ]

  static let combineExperts: [Refusal<gd_combine_experts>] = [
    .init("weights of 16 bits", GD_ERROR_DTYPE, "weights") { $1.weights = try $0.tensor(.bf16, 3, 2) },
    .init("a gate of nothing", GD_ERROR_INVALID_ARGUMENT, "sharedGate") { $1.shared = gd_tensor() },
    .init("a gate an element", GD_ERROR_SHAPE, "sharedGate") { $1.shared_gate = try $0.tensor(.bf16, 3, 16) },
    .init("two narrow dtypes", GD_ERROR_DTYPE, "residual") { $1.residual.dtype = DType.f16.rawValue },
    .init("out over a part of experts", GD_ERROR_OVERLAP, "out") { $1.out.buffer = $1.experts.buffer },
  ]

  @Test func expertOps() throws {
    for rule in Self.route { try rule.verify(op: "route", { try $0.route() }, gd_encode_route) }
    for rule in Self.topK { try rule.verify(op: "topK", { try $0.topK() }, gd_encode_top_k) }
    for rule in Self.expertLinear {
      try rule.verify(op: "expertLinear", { try $0.expertLinear() }, gd_encode_expert_linear)
    }
    for rule in Self.combineExperts {
      try rule.verify(op: "combineExperts", { try $0.combineExperts() }, gd_encode_combine_experts)
    }
  }
  @Test func quantisedLinearOp() throws {
    for rule in Self.quantisedLinear { try rule.verify(op: "linear", { try $0.quantisedLinear() }, gd_encode_linear) }
  }
  @Test func embeddingOp() throws {
    for rule in Self.embedding { try rule.verify(op: "embedding", { try $0.embedding() }, gd_encode_embedding) }
  }
  @Test func siluMulOp() throws {
    for rule in Self.siluMul { try rule.verify(op: "siluMul", { try $0.siluMul() }, gd_encode_silu_mul) }
  }
  @Test func linearOp() throws {
    for rule in Self.linear { try rule.verify(op: "linear", { try $0.linear() }, gd_encode_linear) }
  }
  @Test func copySlots() throws {
    for rule in Self.copies { try rule.verify(op: "copySlots", { try $0.copySlots() }, gd_encode_copy_slots) }
  }
}
