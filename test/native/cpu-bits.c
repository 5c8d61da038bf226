/* Runs every CPU kernel on made-up inputs and prints a hash of its output, one line per case. The instruction sets
 * with fused multiply-add sum in one order, whatever their width, so AVX2, AVX-512 and NEON print the same lines.
 *
 * Freestanding if TABLE is gd_cpu_neon: a static aarch64 program that needs no C library, for an emulator. */
#include "../../swift/Sources/CPUKernels/tables.h"

/* The code that measures how many rows to process at a time refers to this; nothing here measures. */
uint64_t gd_cpu_nanoseconds(void) { return 0; }
int gd_cpu_asks_by_pages = 8, gd_cpu_has_vbmi, gd_cpu_is_wide;
#if defined(__x86_64__)
__attribute__((constructor)) static void find_vbmi(void) { gd_cpu_has_vbmi = __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("gfni"); }
#endif

static uint64_t state = 88172645463325252u;
static uint32_t draw(uint32_t bound) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (uint32_t)((state * 0x2545F4914F6CDD1Du) >> 33) % bound;
}
static float draw_float(float low, float high) { return low + (high - low) * (float)draw(1u << 24) * 0x1p-24f; }

enum { ARENA = 8 << 20, SCRATCH = 2 << 20 };
static _Alignas(64) char arena[ARENA], scratch[SCRATCH];
static const uint32_t stop;
static size_t used;

/* A tensor of random elements, written as dtype by the kernels' own conversion. */
static gd_cpu_tensor tensor(uint32_t dtype, int64_t tokens, int64_t heads, int64_t dim, float low, float high) {
  int64_t count = tokens * heads * dim;
  gd_cpu_tensor result = {arena + used, heads * dim, dim, dtype};
  used += ((size_t)count * 4 + 127) & ~(size_t)63;
  float *values = (float *)(arena + ARENA) - count;
  for (int64_t i = 0; i < count; i++) values[i] = draw_float(low, high);
  TABLE.convert(values, GD_CPU_F32, result.data, dtype, count);
  return result;
}

static uint32_t any_type(void) { return 1 + draw(3); }

static uint64_t hash_of_arena(void) {
  uint64_t hash = 1469598103934665603u;
  for (size_t i = 0; i < used; i++) hash = (hash ^ (uint8_t)arena[i]) * 1099511628211u;
  return hash;
}

static gd_cpu_gates any_gates(uint32_t type, int64_t tokens, const gd_cpu_heads *heads) {
  gd_cpu_gates gates = {.gate_form = 1 + draw(6), .gate_dims = 1 + draw(2), .beta_form = 1 + draw(3), .bound = -2.0f};
  int64_t dim = gates.gate_dims == GD_CPU_GATE_PER_KEY ? heads->key_dim : 1;
  int raw = gates.gate_form >= GD_CPU_GATE_RAW, log = gates.gate_form == GD_CPU_GATE_LOG;
  float low = raw ? -3 : log ? -1 : 0, high = raw ? 3 : log ? 0 : 1;
  gates.gate = tensor(raw ? type : GD_CPU_F32, tokens, heads->value_heads, dim, low, high);
  gates.beta = tensor(type, tokens, heads->value_heads, 1, 0, 1);
  gates.a_log = tensor(any_type(), 1, heads->value_heads, 1, -1, 0);
  gates.dt_bias = tensor(any_type(), 1, heads->value_heads, dim, -1, 1);
  return gates;
}

static gd_cpu_heads any_heads(void) {
  gd_cpu_heads heads = {.key_heads = 1 + draw(2), .key_dim = 8 * (1 + draw(17)), .value_dim = 8 * (1 + draw(5))};
  heads.value_heads = heads.key_heads * (1 + draw(3));
  heads.head_map = 1 + draw(2);
  heads.qk_norm = 2 + draw(3);
  heads.qk_norm_eps = 1e-6f;
  heads.scale = 0.25f;
  return heads;
}

static void any_delta(void) {
  uint32_t type = any_type();
  int64_t tokens = 1 + draw(40);
  gd_cpu_heads heads = any_heads();
  gd_cpu_tensor pool = tensor(any_type(), 1, heads.value_heads, heads.value_dim * heads.key_dim, -1, 1);
  gd_cpu_sequence sequence = {0, tokens, draw(4) ? pool.data : NULL, draw(4) ? pool.data : NULL, NULL, 0};
  gd_cpu_gated_delta op = {
    .heads = heads, .gates = any_gates(type, tokens, &heads),
    .query = tensor(type, tokens, heads.key_heads, heads.key_dim, -1, 1),
    .key = tensor(type, tokens, heads.key_heads, heads.key_dim, -1, 1),
    .value = tensor(type, tokens, heads.value_heads, heads.value_dim, -1, 1),
    .out = tensor(draw(2) ? type : GD_CPU_F32, tokens, heads.value_heads, heads.value_dim, 0, 1),
    .state_dtype = pool.dtype, .rows_per_item = 16, .sequences = &sequence, .sequence_count = 1};
  TABLE.gated_delta(&op, 0, gd_cpu_gated_delta_items(&op), scratch, &stop);
}

/* The chunked form, with a store on the way. */
static void any_chunked(void) {
  uint32_t type = any_type();
  int64_t tokens = 1 + draw(50);
  gd_cpu_heads heads = any_heads();
  gd_cpu_tensor pool = tensor(any_type(), 2, heads.value_heads, heads.value_dim * heads.key_dim, -1, 1);
  void *other = (char *)pool.data + pool.token_stride * (pool.dtype == GD_CPU_F32 ? 4 : 2);
  gd_cpu_state_store store = {draw((uint32_t)tokens + 1), other, pool.dtype};
  gd_cpu_sequence sequence = {0, tokens, draw(4) ? pool.data : NULL, draw(4) ? pool.data : NULL, &store, draw(2)};
  gd_cpu_gated_delta op = {
    .heads = heads, .gates = any_gates(type, tokens, &heads),
    .query = tensor(type, tokens, heads.key_heads, heads.key_dim, -1, 1),
    .key = tensor(type, tokens, heads.key_heads, heads.key_dim, -1, 1),
    .value = tensor(type, tokens, heads.value_heads, heads.value_dim, -1, 1),
    .out = tensor(draw(2) ? type : GD_CPU_F32, tokens, heads.value_heads, heads.value_dim, 0, 1),
    .state_dtype = pool.dtype, .rows_per_item = 16 << draw(2), .sequences = &sequence, .sequence_count = 1};
  TABLE.gated_delta_chunked(&op, 0, gd_cpu_gated_delta_items(&op), scratch, &stop);
}

static void any_conv(void) {
  uint32_t type = any_type();
  int64_t tokens = 1 + draw(20), channels = 1 + draw(300), width = 2 + draw(8);
  gd_cpu_tensor pool = tensor(draw(2) ? type : GD_CPU_F32, 1, channels, width - 1, -1, 1);
  gd_cpu_sequence sequence = {0, tokens, draw(4) ? pool.data : NULL, pool.data, NULL, 0};
  gd_cpu_causal_conv1d op = {
    .channels = channels, .width = width, .activation = 1 + draw(2), .x = tensor(type, tokens, 1, channels, -2, 2),
    .weight = tensor(any_type(), channels, 1, width, -1, 1), .out = tensor(type, tokens, 1, channels, 0, 1),
    .state_dtype = pool.dtype, .channels_per_item = 64, .sequences = &sequence, .sequence_count = 1};
  if (draw(2)) op.bias = tensor(any_type(), 1, 1, channels, -1, 1);
  TABLE.causal_conv1d(&op, 0, gd_cpu_causal_conv1d_items(&op), scratch, &stop);
}

/* A verified draft with a store on the way, and the commits of its records and of a convolution's. */
static void any_commit(void) {
  uint32_t type = any_type();
  int64_t tokens = 1 + draw(12);
  gd_cpu_heads heads = any_heads();
  gd_cpu_tensor pool = tensor(any_type(), 2, heads.value_heads, heads.value_dim * heads.key_dim, -1, 1);
  void *other = (char *)pool.data + pool.token_stride * (pool.dtype == GD_CPU_F32 ? 4 : 2);
  gd_cpu_state_store store = {draw(2) ? tokens : 0, other, pool.dtype};
  gd_cpu_sequence sequence = {0, tokens, draw(4) ? pool.data : NULL, NULL, &store, 1};
  gd_cpu_gated_delta op = {
    .heads = heads, .gates = any_gates(type, tokens, &heads),
    .query = tensor(type, tokens, heads.key_heads, heads.key_dim, -1, 1),
    .key = tensor(type, tokens, heads.key_heads, heads.key_dim, -1, 1),
    .value = tensor(type, tokens, heads.value_heads, heads.value_dim, -1, 1),
    .out = tensor(GD_CPU_F32, tokens, heads.value_heads, heads.value_dim, 0, 1), .state_dtype = pool.dtype,
    .rows_per_item = 16, .sequences = &sequence, .sequence_count = 1};
  op.records.key = tensor(GD_CPU_F32, tokens, heads.key_heads, heads.key_dim, 0, 1).data;
  op.records.delta = tensor(GD_CPU_F32, tokens, heads.value_heads, heads.value_dim, 0, 1).data;
  op.records.decay = tensor(GD_CPU_F32, tokens, heads.value_heads, heads.key_dim, 0, 1).data;
  TABLE.gated_delta(&op, 0, gd_cpu_gated_delta_items(&op), scratch, &stop);
  gd_cpu_sequence accepted = {0, draw((uint32_t)tokens + 1), sequence.read, pool.data, NULL, 0};
  gd_cpu_commit_gated_delta commit = {
    .heads = heads, .gate_dims = op.gates.gate_dims, .state_dtype = pool.dtype, .records = op.records,
    .rows_per_item = 16, .sequences = &accepted, .sequence_count = 1};
  TABLE.commit_gated_delta(&commit, 0, gd_cpu_commit_gated_delta_items(&commit), scratch, &stop);
  int64_t channels = 1 + draw(300), width = 2 + draw(8);
  gd_cpu_tensor taps = tensor(draw(2) ? type : GD_CPU_F32, 1, channels, width - 1, -1, 1);
  gd_cpu_sequence moved = {0, tokens, draw(4) ? taps.data : NULL, taps.data, NULL, 0};
  gd_cpu_commit_causal_conv1d shift = {
    .channels = channels, .width = width, .x = tensor(type, tokens, 1, channels, -2, 2), .state_dtype = taps.dtype,
    .channels_per_item = 64, .sequences = &moved, .sequence_count = 1};
  TABLE.commit_causal_conv1d(&shift, 0, gd_cpu_commit_causal_conv1d_items(&shift), scratch, &stop);
}

static void any_norm(void) {
  uint32_t type = any_type();
  int64_t tokens = 1 + draw(3), heads = 1 + draw(3), dim = 1 + draw(draw(4) ? 200 : 3000);
  gd_cpu_gated_rms_norm op = {
    .tokens = tokens, .heads = heads, .dim = dim, .activation = 2 + draw(2), .order = 1 + draw(2), .eps = 1e-6f,
    .x = tensor(draw(2) ? type : GD_CPU_F32, tokens, heads, dim, -2, 2), .z = tensor(type, tokens, heads, dim, -4, 4),
    .weight = tensor(any_type(), 1, 1, dim, -1, 1), .out = tensor(type, tokens, heads, dim, 0, 1)};
  TABLE.gated_rms_norm(&op, 0, gd_cpu_gated_rms_norm_items(&op), scratch, &stop);
}

static const struct { uint32_t format; int64_t elements, bytes; uint32_t dtype; } formats[] = {
#define GD_FORMAT(FORMAT, ELEMENTS, BYTES, DTYPE, UNPACKING) {FORMAT, ELEMENTS, BYTES, DTYPE},
  GD_CPU_WEIGHT_FORMATS(GD_FORMAT)
};

/* A matrix of blocks that hold their factors. Bytes lack one bit, so no 16-bit number is infinite or NaN. */
static gd_cpu_matrix any_blocks(int64_t rows, int64_t columns) {
  enum { COUNT = sizeof formats / sizeof *formats };
  int i = (int)draw(COUNT);
  while (formats[i].dtype != GD_CPU_U8) i = (i + 1) % COUNT;
  int64_t elements = formats[i].elements;
  gd_cpu_matrix matrix = {.format = formats[i].format, .columns = (columns + elements - 1) / elements * elements};
  matrix.values = arena + used;
  for (int64_t k = 0; k < rows * matrix.columns / elements * formats[i].bytes; k++) arena[used++] = (char)(draw(256) & ~0x40u);
  used = (used + 63) & ~(size_t)63;
  return matrix;
}

/* A matrix of small floats with one-byte scales. Bytes lack one bit, so neither is NaN. */
static gd_cpu_matrix any_micro(int64_t rows, int64_t columns) {
  enum { FIRST = GD_CPU_FORMAT_MXFP4, LAST = GD_CPU_FORMAT_NVFP4 };
  gd_cpu_matrix matrix = {.format = FIRST + draw(LAST - FIRST + 1), .dtype = GD_CPU_U8};
  int i = 0;
  while (formats[i].format != matrix.format) i++;
  int64_t groups = (columns + formats[i].elements - 1) / formats[i].elements;
  matrix.columns = groups * formats[i].elements;
  matrix.values = arena + used;
  for (int64_t k = 0; k < rows * groups * formats[i].bytes; k++) arena[used++] = (char)(draw(256) & ~0x08u);
  used = (used + 63) & ~(size_t)63;
  matrix.scales = arena + used;
  for (int64_t k = 0; k < rows * groups; k++) arena[used++] = (char)(100 + draw(26));
  used = (used + 63) & ~(size_t)63;
  return matrix;
}

/* A matrix of any form; a packed one has columns for two groups of any size, or many. */
static gd_cpu_matrix any_matrix(int64_t rows, int64_t columns) {
  static const uint32_t all_bits[] = {0, 2, 3, 4, 5, 6, 8};
  if (draw(3) == 0) return draw(3) ? any_blocks(rows, columns) : any_micro(rows, columns);
  gd_cpu_matrix matrix = {.columns = columns};
  int64_t bits = all_bits[draw(7)];
  if (bits == 0) {
    gd_cpu_tensor values = tensor(any_type(), rows, 1, columns, -1, 1);
    matrix.values = values.data;
    for (int i = 0; formats[i].elements == 1; i++) if (formats[i].dtype == values.dtype) matrix.format = formats[i].format;
    return matrix;
  }
  int64_t group = 32 << draw(3);
  int i = 0;
  while (formats[i].elements != group || formats[i].bytes != group * bits / 8) i++;
  matrix.format = formats[i].format;
  matrix.columns = (columns + group - 1) / group * group;
  matrix.values = arena + used;
  matrix.dtype = any_type();
  for (int64_t k = 0; k < rows * matrix.columns * bits / 8; k++) arena[used++] = (char)draw(256);
  used = (used + 63) & ~(size_t)63;
  matrix.scales = tensor(matrix.dtype, rows, 1, matrix.columns / group, -1, 1).data;
  matrix.biases = tensor(matrix.dtype, rows, 1, matrix.columns / group, -1, 1).data;
  return matrix;
}

static void any_linear(void) {
  gd_cpu_is_wide = (int)draw(2);
  int64_t rows = draw(2) ? 1 : 1 + draw(30), inputs = 1 + draw(draw(4) ? 300 : 2500), outputs = 1 + draw(80);
  gd_cpu_matrix weight = any_matrix(outputs, inputs);
  gd_cpu_linear op = {
    .rows = rows, .out_features = outputs, .weight = weight, .x = tensor(any_type(), rows, 1, weight.columns, -1, 1),
    .out = tensor(any_type(), rows, 1, outputs, 0, 1)};
  if (draw(2)) op.residual = tensor(any_type(), rows, 1, outputs, -1, 1);
  TABLE.linear(&op, 0, gd_cpu_linear_items(&op), scratch, &stop);
}

/* linear and expert_linear with int8 activations. */
static void any_int8(void) {
  static _Alignas(64) char values[1 << 18];
  static float factors[3][1 << 13];
  static _Alignas(64) uint8_t turned[1 << 19];
  int64_t rows = draw(2) ? 1 : 1 + draw(draw(8) ? 20 : 140), outputs = 1 + draw(80), chosen = 1 + draw(3);
  /* The choices that processors make, and one more. */
  gd_cpu_asks_by_pages = 8 * (int)draw(2);
  gd_cpu_is_wide = (int)draw(2);
  gd_cpu_matrix weight = any_matrix(2 * outputs, 1 + draw(draw(4) ? 300 : 2500));
  gd_cpu_int8_form form = gd_cpu_int8_form_of(weight.format);
  if (form.group == 0) return any_int8();
  gd_cpu_int8_rows rounded = {
    .rows = rows, .columns = weight.columns, .ranks = 1, .x = tensor(any_type(), rows, 1, weight.columns, -1, 1), .form = form,
    .stride = gd_cpu_int8_stride(weight.columns, form), .groups = weight.columns / form.group, .values = (int8_t *)values,
    .scales = factors[0], .sums = factors[1], .starts = (int32_t *)factors[2], .shared = chosen};
  if (rounded.stride * rows > (int64_t)sizeof values || rounded.groups * rows + 16 > 1 << 13) return any_int8();
  /* In half of the cases the rows are put into the kernels' own order here, if they have one. */
  int64_t bytes = TABLE.int8_turned_bytes(weight.format, rows, weight.columns);
  rounded.turned = draw(2) && bytes > 0 && bytes <= (int64_t)sizeof turned ? turned : NULL;
  rounded.format = weight.format;
  TABLE.int8_rows(&rounded, 0, gd_cpu_int8_rows_items(&rounded), scratch, &stop);
  gd_cpu_linear op = {
    .rows = rows, .out_features = outputs, .weight = weight, .x = rounded.x, .out = tensor(any_type(), rows, 1, outputs, 0, 1),
    .rounded = &rounded};
  if (draw(2)) op.residual = tensor(any_type(), rows, 1, outputs, -1, 1);
  TABLE.int8_linear(&op, 0, gd_cpu_linear_items(&op), scratch, &stop);
  /* Rows of experts are in other orders. */
  rounded.turned = NULL;
  int32_t ids[420], copy[420], places[420];
  int64_t counts[3], wrong;
  gd_cpu_expert_group groups[3];
  for (int64_t i = 0; i < rows * chosen; i++) ids[i] = (int32_t)draw(2);
  gd_cpu_expert_linear experts = {.linear = op, .groups = groups};
  experts.linear.residual.data = NULL;
  experts.linear.out = tensor(any_type(), rows, chosen, outputs, 0, 1);
  experts.linear.places = places;
  experts.linear.ranks = chosen;
  experts.group_count = gd_cpu_expert_groups(ids, rows * chosen, 2, counts, copy, places, groups, &wrong);
  TABLE.int8_expert_linear(&experts, 0, experts.group_count * gd_cpu_expert_linear_items(&experts), scratch, &stop);
}

static void any_mlp(void) {
  int64_t rows = 1 + draw(6), vocabulary = 1 + draw(30);
  gd_cpu_matrix weight = any_matrix(vocabulary, 1 + draw(2500));
  int32_t ids[6];
  for (int i = 0; i < 6; i++) ids[i] = (int32_t)draw((uint32_t)vocabulary + 1) - 1;
  gd_cpu_embedding op = {
    .rows = rows, .weight = weight, .out = tensor(any_type(), rows, 1, weight.columns, 0, 1), .ids = ids};
  TABLE.embedding(&op, 0, rows, scratch, &stop);
  uint32_t type = any_type();
  gd_cpu_elementwise pairs = {
    .operation = draw(2) ? GD_CPU_ELEMENTWISE_SILU_MUL : GD_CPU_ELEMENTWISE_ADD, .tokens = rows, .heads = 1, .dim = 1 + draw(200), .out = tensor(draw(2) ? type : GD_CPU_F32, rows, 1, 200, 0, 1)};
  pairs.a = tensor(draw(2) ? type : GD_CPU_F32, rows, 1, pairs.dim, -4, 4);
  pairs.b = tensor(type, rows, 1, pairs.dim, -4, 4);
  TABLE.elementwise(&pairs, 0, rows, scratch, &stop);
}

static void any_experts(void) {
  int64_t tokens = 1 + draw(12), experts = 1 + draw(30), chosen = 1 + draw((uint32_t)(experts < 5 ? experts : 5));
  int64_t outputs = 1 + draw(40), rows = tokens * chosen, wrong;
  gd_cpu_route router = {
    .tokens = tokens, .experts = experts, .chosen = chosen, .normalize = draw(2),
    .logits = tensor(any_type(), tokens, 1, experts, -4, 4)};
  router.weights = tensor(GD_CPU_F32, tokens, 1, chosen, 0, 1).data;
  router.ids = tensor(GD_CPU_F32, tokens, 1, chosen, 0, 1).data;
  TABLE.route(&router, 0, tokens, scratch, &stop);
  int64_t counts[31];
  int32_t copy[60], places[60];
  gd_cpu_expert_group groups[31];
  gd_cpu_matrix weight = any_matrix(experts * outputs, 1 + draw(200));
  gd_cpu_expert_linear op = {
    .linear = {.out_features = outputs, .weight = weight, .x = tensor(any_type(), tokens, 1, weight.columns, -1, 1),
               .out = tensor(any_type(), tokens, chosen, outputs, 0, 1), .places = places, .ranks = chosen},
    .groups = groups};
  op.linear.x.head_stride = 0;
  op.group_count = gd_cpu_expert_groups(router.ids, rows, experts, counts, copy, places, groups, &wrong);
  TABLE.expert_linear(&op, 0, op.group_count * gd_cpu_expert_linear_items(&op), scratch, &stop);
  gd_cpu_combine_experts sum = {
    .tokens = tokens, .chosen = chosen, .dim = outputs, .experts = op.linear.out, .weights = router.weights,
    .shared = tensor(any_type(), tokens, 1, outputs, -1, 1), .shared_gate = tensor(any_type(), tokens, 1, 1, -4, 4),
    .out = tensor(any_type(), tokens, 1, outputs, 0, 1)};
  if (draw(2)) sum.residual = tensor(any_type(), tokens, 1, outputs, -1, 1);
  TABLE.combine_experts(&sum, 0, gd_cpu_combine_experts_items(&sum), scratch, &stop);
}

static void any_step(void) {
  uint32_t type = any_type();
  gd_cpu_heads heads = any_heads();
  int64_t width = 2 + draw(4), channels = 2 * heads.key_heads * heads.key_dim + heads.value_heads * heads.value_dim;
  gd_cpu_tensor pool = tensor(any_type(), 1, heads.value_heads, heads.value_dim * heads.key_dim, -1, 1);
  gd_cpu_tensor conv = tensor(type, 1, channels, width - 1, -1, 1);
  gd_cpu_sequence sequence = {0, 1, pool.data, pool.data, NULL, 0}, taps = {0, 1, conv.data, conv.data, NULL, 0};
  gd_cpu_gated_delta_step op = {
    .heads = heads, .gates = any_gates(type, 1, &heads), .width = width, .conv_activation = 1 + draw(2),
    .norm_activation = 2 + draw(2), .norm_order = 1 + draw(2), .norm_eps = 1e-6f,
    .x = tensor(type, 1, 1, channels, -1, 1), .conv_weight = tensor(any_type(), channels, 1, width, -1, 1),
    .z = tensor(type, 1, heads.value_heads, heads.value_dim, -3, 3),
    .norm_weight = tensor(any_type(), 1, 1, heads.value_dim, -1, 1),
    .out = tensor(type, 1, heads.value_heads, heads.value_dim, 0, 1), .conv_state_dtype = conv.dtype,
    .state_dtype = pool.dtype, .conv_sequences = &taps, .sequences = &sequence, .sequence_count = 1};
  TABLE.gated_delta_step(&op, 0, gd_cpu_gated_delta_step_items(&op), scratch, &stop);
}

static void print(const char *text, size_t size);

static int run(void) {
  static const char digits[] = "0123456789abcdef";
  static void (*const cases[])(void) = {any_delta, any_conv, any_norm, any_linear, any_step, any_commit,
                                       any_chunked, any_mlp, any_experts, any_int8};
  static const char names[] = "dcnlskxmei";
  if (gd_cpu_scratch_bytes() > SCRATCH) return 1;
  for (int i = 0; i < 200; i++) {
    used = 0;
    cases[i % 10]();
    uint64_t hash = hash_of_arena();
    char line[19] = {names[i % 10], ' '};
    for (int d = 0; d < 16; d++) line[2 + d] = digits[hash >> (60 - 4 * d) & 15];
    line[18] = '\n';
    print(line, sizeof line);
  }
  return 0;
}

#if defined(__aarch64__) && !defined(__APPLE__)
void *memcpy(void *to, const void *from, size_t size) {
  for (size_t i = 0; i < size; i++) ((volatile char *)to)[i] = ((const char *)from)[i];
  return to;
}
void *memset(void *to, int value, size_t size) {
  for (size_t i = 0; i < size; i++) ((volatile char *)to)[i] = (char)value;
  return to;
}
static long call(long number, long a, long b, long c) {
  register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
  return x0;
}
static void print(const char *text, size_t size) { call(64, 1, (long)text, (long)size); }
__attribute__((noreturn, used)) static void start(void) {
  call(93, run(), 0, 0);
  __builtin_unreachable();
}
/* The stack pointer is aligned when a program starts: the frame may be set up as in any function. */
__attribute__((naked, noreturn)) void _start(void) { __asm__ volatile("b %0" : : "i"(start)); }
#else
#include <unistd.h>
static void print(const char *text, size_t size) {
  if (write(1, text, size) < 0) _exit(1);
}
#if defined(TILES)
#include <sys/syscall.h>
long syscall(long number, ...);
/* The registers of AMX, which a process may use only with permission (platform.c). */
static long ask(void) { return syscall(SYS_arch_prctl, 0x1023, 18); }
#else
static long ask(void) { return 0; }
#endif
int main(void) {
  if (ask() == 0) return run();
  print("refused", 7);
  return 0;
}
#endif
