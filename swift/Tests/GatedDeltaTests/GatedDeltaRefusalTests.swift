import CGatedDelta
import GatedDeltaTypes
import Testing

@testable import GatedDelta

/// Rules of `gd_gated_delta`, broken once in ways that the public words cannot express or do not try: those that they do are in
/// `test/support/wrong-arguments`.
@Suite struct GatedDeltaRefusalTests {
  typealias Rule = Refusal<gd_gated_delta>

  static let options: [Rule] = [
    Rule("gate form", GD_ERROR_INVALID_ARGUMENT, "gateForm") { $1.gate_form = 7 },
    Rule("no gate form", GD_ERROR_INVALID_ARGUMENT, "gateForm") { $1.gate_form = 0 },
    Rule("gate dims", GD_ERROR_INVALID_ARGUMENT, "gateDims") { $1.gate_dims = 3 },
    Rule("beta form", GD_ERROR_INVALID_ARGUMENT, "betaForm") { $1.beta_form = 0 },
    Rule("head map", GD_ERROR_INVALID_ARGUMENT, "headMap") { $1.head_map = 3 },
    Rule("q/k norm", GD_ERROR_INVALID_ARGUMENT, "qkNorm") { $1.qk_norm = .max },
    Rule("algorithm", GD_ERROR_INVALID_ARGUMENT, "algorithm") { $1.algorithm = 3 },
    Rule("eps NaN", GD_ERROR_INVALID_ARGUMENT, "qkNormEps") { $1.qk_norm_eps = .nan },
    Rule("eps infinite", GD_ERROR_INVALID_ARGUMENT, "qkNormEps") { $1.qk_norm_eps = .infinity },
    Rule("scale infinite", GD_ERROR_INVALID_ARGUMENT, "scale") { $1.scale = -.infinity },
    Rule("bound of 0 with another form", GD_ERROR_INVALID_ARGUMENT, "gateBound") { $1.gate_bound = 0 },
    Rule("bound infinite", GD_ERROR_INVALID_ARGUMENT, "gateBound") {
      $1 = try $0.gatedDelta(form: .rawBounded)
      $1.gate_bound = -.infinity
    },
  ]

  static let shapes: [Rule] = [
    Rule("keyDim 0", GD_ERROR_SHAPE, "query") { try $1.take(keyDim: 0, from: $0) },
    Rule("valueDim huge", GD_ERROR_SHAPE, "value") { $1.value.setLength(2, .max - 7) },
    Rule("no key heads", GD_ERROR_SHAPE, "value") {
      $1.query.setLength(1, 0)
      $1.key.setLength(1, 0)
    },
    Rule("no value heads", GD_ERROR_SHAPE, "value") { $1.value.setLength(1, 0) },
    Rule("tokens beyond i32", GD_ERROR_SHAPE, "query") { $1.query.setLength(0, 1 << 31) },
    Rule("more tokens than there are", GD_ERROR_SHAPE, "query") { $1.query.setLength(0, 7) },
    Rule("tokens huge", GD_ERROR_SHAPE, "query") { $1.query.setLength(0, (1 << 31) - 1) },
    Rule("query of no dimension", GD_ERROR_SHAPE, "query") { $1.query.rank = 0 },
    Rule("query of nine dimensions", GD_ERROR_SHAPE, "query") { $1.query.rank = 9 },
    Rule("query of a rank beyond reason", GD_ERROR_SHAPE, "query") { $1.query.rank = .max },
    Rule("key of other heads", GD_ERROR_SHAPE, "key") { $1.key.setLength(1, 1) },
    Rule("more slots than there are", GD_ERROR_SHAPE, "state") { $1.state.setLength(0, 5) },
    Rule("slots huge", GD_ERROR_SHAPE, "state") { $1.state.setLength(0, .max) },
    Rule("slots huge and legal", GD_ERROR_SHAPE, "state") { $1.state.setLength(0, (1 << 31) - 1) },
    Rule("query short", GD_ERROR_SHAPE, "query") { $1.query = try $0.tensor(.f32, 6, 2, 16, lacking: 1) },
    Rule("key short", GD_ERROR_SHAPE, "key") { $1.key = try $0.tensor(.f32, 6, 2, 16, lacking: 1) },
    Rule("value short", GD_ERROR_SHAPE, "value") { $1.value = try $0.tensor(.f32, 6, 6, 8, lacking: 1) },
    Rule("gate short", GD_ERROR_SHAPE, "gate") { $1.gate = try $0.tensor(.f32, 6, 6, lacking: 1) },
    Rule("beta short", GD_ERROR_SHAPE, "beta") { $1.beta = try $0.tensor(.f32, 6, 6, lacking: 1) },
    Rule("state short", GD_ERROR_SHAPE, "state") { $1.state = try $0.tensor(.f32, 4, 6, 8, 16, lacking: 1) },
    Rule("out short", GD_ERROR_SHAPE, "out") { $1.out = try $0.tensor(.f32, 6, 6, 8, lacking: 1) },
    Rule("out of other heads", GD_ERROR_SHAPE, "out") { $1.out = try $0.tensor(.f32, 6, 3, 16) },
    Rule("aLog short", GD_ERROR_SHAPE, "aLog") {
      $1 = try $0.gatedDelta(form: .raw)
      $1.a_log = try $0.tensor(.f32, 5)
    },
    Rule("dtBias per head where per key is said", GD_ERROR_SHAPE, "dtBias") {
      $1 = try $0.gatedDelta(form: .raw, dims: .perKey)
      $1.dt_bias = try $0.tensor(.f32, 6)
    },
    Rule("write slots without offsets", GD_ERROR_INVALID_ARGUMENT, "cuSeqlens") {
      $1.write_slots = try $0.index([0, 1]).index
    },
    Rule("slots that disagree", GD_ERROR_SHAPE, "readSlots") {
      $1.read_slots = try $0.index([0, 1]).index
      $1.write_slots = try $0.index([0]).index
    },
    Rule("offset pushes it out", GD_ERROR_SHAPE, "out") { $1.out.offset = 32 },
    Rule("offset beyond the buffer", GD_ERROR_SHAPE, "key") { $1.key.offset = 1 << 40 },
    Rule("offset at the end of the integers", GD_ERROR_SHAPE, "key") { $1.key.offset = .max - 31 },
    Rule("token stride too long", GD_ERROR_SHAPE, "value") { $1.value.setStride(0, 56) },
    Rule("head stride too long", GD_ERROR_SHAPE, "query") { $1.query.setStride(1, 1 << 20) },
    Rule("token stride of the largest number", GD_ERROR_SHAPE, "value") { $1.value.setStride(0, .max - 7) },
    Rule("token stride of 0", GD_ERROR_SHAPE, "value") { $1.value.setStride(0, 0) },
    Rule("strides huge together", GD_ERROR_SHAPE, "value") {
      $1.value.setStride(0, .max - 7)
      $1.value.setStride(1, .max - 7)
    },
    Rule("head stride of the largest number", GD_ERROR_SHAPE, "value") { $1.value.setStride(1, .max - 7) },
    Rule("head stride no multiple of 8", GD_ERROR_SHAPE, "query") { $1.query.setStride(1, 12) },
    Rule("state heads with gaps", GD_ERROR_SHAPE, "state") { $1.state.setStride(1, 8 * 16 + 8) },
  ]

  static let tensors: [Rule] = [
    Rule("no query", GD_ERROR_INVALID_ARGUMENT, "query") { $1.query.buffer = 0 },
    Rule("no out", GD_ERROR_INVALID_ARGUMENT, "out") { $1.out = gd_tensor() },
    Rule("reserved", GD_ERROR_INVALID_ARGUMENT, "reserved") { $1.reserved = 1 },
    Rule("released key", GD_ERROR_HANDLE, "key") { #expect(gd_buffer_release($1.key.buffer) == GD_OK) },
    Rule("query of no dtype", GD_ERROR_DTYPE, "query") { $1.query.dtype = 0 },
    Rule("16-bit log gate", GD_ERROR_DTYPE, "gate") {
      $1 = try $0.gatedDelta(dtype: .bf16)
      $1.gate = try $0.tensor(.bf16, 6, 6)
    },
    Rule("raw gate of a third dtype", GD_ERROR_DTYPE, "gate") {
      $1 = try $0.gatedDelta(form: .raw, dtype: .bf16)
      $1.gate = try $0.tensor(.f16, 6, 6)
    },
    Rule("beta of a third dtype", GD_ERROR_DTYPE, "beta") {
      $1 = try $0.gatedDelta(dtype: .f16)
      $1.beta.dtype = DType.bf16.rawValue
    },
    Rule("query off its vectors", GD_ERROR_RANGE, "query") { $1.query.offset = 4 },
    Rule("state off its vectors", GD_ERROR_RANGE, "state") { $1.state.offset = 4 },
    Rule("beta off its elements", GD_ERROR_RANGE, "beta") { $1.beta.offset = 2 },
    Rule("out is query", GD_ERROR_OVERLAP, "out") {
      $1.query.buffer = $1.out.buffer
    },
    Rule("out's tokens overlap", GD_ERROR_OVERLAP, "out") { $1.out.setStride(0, 40) },
    Rule("out's heads overlap", GD_ERROR_OVERLAP, "out") {
      $1.value = try $0.tensor(.f32, 6, 6, 16)
      $1.state = try $0.tensor(.f32, 4, 6, 16, 16)
      $1.out = try $0.tensor(.f32, 6, 6, 16)
      $1.out.setStride(1, 8)
    },
  ]

  @Test func option() throws { try Self.verify(Self.options) }
  @Test func shape() throws { try Self.verify(Self.shapes) }
  @Test func tensor() throws { try Self.verify(Self.tensors) }

  static func verify(_ rules: [Rule]) throws {
    for rule in rules { try rule.verify(op: "gatedDelta", { try $0.gatedDelta() }, gd_encode_gated_delta) }
  }
}

extension gd_gated_delta {
  /// Query and key of another dimension.
  fileprivate mutating func take(keyDim: Int, from fixture: Fixture) throws {
    query = try fixture.tensor(.f32, 6, 2, keyDim)
    key = try fixture.tensor(.f32, 6, 2, keyDim)
  }
}
