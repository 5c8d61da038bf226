/* The work items of each op; the kernels count in the same way. */
#include "tables.h"
#include "template/ggml_types.h"

float gd_cpu_zeros[GD_CPU_MAX_DIM * GD_CPU_MAX_DIM];

static int64_t blocks_of(int64_t count, int64_t size) { return (count + size - 1) / size; }

int64_t gd_cpu_gated_delta_items(const gd_cpu_gated_delta *op) {
  return op->heads.value_heads * blocks_of(op->heads.value_dim, op->rows_per_item);
}

int64_t gd_cpu_causal_conv1d_items(const gd_cpu_causal_conv1d *op) {
  return blocks_of(op->channels, op->channels_per_item);
}

int64_t gd_cpu_commit_gated_delta_items(const gd_cpu_commit_gated_delta *op) {
  return op->heads.value_heads * blocks_of(op->heads.value_dim, op->rows_per_item);
}

int64_t gd_cpu_commit_causal_conv1d_items(const gd_cpu_commit_causal_conv1d *op) {
  return blocks_of(op->channels, op->channels_per_item);
}

int64_t gd_cpu_gated_rms_norm_items(const gd_cpu_gated_rms_norm *op) { return op->tokens * op->heads; }

int64_t gd_cpu_gated_delta_step_items(const gd_cpu_gated_delta_step *op) { return op->heads.key_heads; }

int64_t gd_cpu_linear_items(const gd_cpu_linear *op) { return op->rows == 0 ? 0 : blocks_of(op->out_features, GD_CPU_LINEAR_BLOCK); }

int64_t gd_cpu_int8_rows_items(const gd_cpu_int8_rows *op) {
  if (op->turned == NULL) return op->rows;
  return op->rows > GD_CPU_INT8_TOGETHER ? blocks_of(op->rows, GD_CPU_INT8_EACH) : blocks_of(op->groups, 2);
}

void gd_cpu_linears_run(const void *params, int64_t begin, int64_t end, void *scratch, const uint32_t *stop) {
  const gd_cpu_linears *all = params;
  if (all->count == 1) {
    all->run(all->ops, begin, end, scratch, stop);
    return;
  }
  int64_t first = 0;
  for (int64_t i = 0; i < all->count && first < end && !gd_cpu_stopped(stop); i++) {
    int64_t next = first + gd_cpu_linear_items(&all->ops[i]);
    int64_t from = begin > first ? begin : first, to = end < next ? end : next;
    if (from < to) all->run(&all->ops[i], from - first, to - first, scratch, stop);
    first = next;
  }
}

/* Panels have about equal numbers of rows, multiples of 12, which are whole tiles for every instruction set. */
int64_t gd_cpu_linear_panel_rows(const gd_cpu_linear *op) {
  int64_t columns = op->weight.columns, most = GD_CPU_LINEAR_DEEP_ROWS;
  if (columns <= GD_CPU_LINEAR_DEPTH) {
    most = GD_CPU_LINEAR_PANEL / (columns / 32 * 32 + 32) / 12 * 12;
    if (most > GD_CPU_LINEAR_ROWS) most = GD_CPU_LINEAR_ROWS;
  }
  int64_t panels = blocks_of(op->rows, most);
  return panels > 1 ? blocks_of(blocks_of(op->rows, panels), 12) * 12 : most;
}

int64_t gd_cpu_linear_panels(const gd_cpu_linear *op) { return blocks_of(op->rows, gd_cpu_linear_panel_rows(op)); }

int64_t gd_cpu_expert_linear_items(const gd_cpu_expert_linear *op) { return blocks_of(op->linear.out_features, GD_CPU_LINEAR_BLOCK); }

gd_cpu_int8_form gd_cpu_int8_form_of(uint32_t format) {
  /* Numbers are integers of at most 8 bits, or floats of four bits, which are halves of integers. */
#define affine_form(ELEMENTS, BITS) {ELEMENTS, 0, (BITS) == 4, (BITS) < 8}
#define micro_form(ELEMENTS, BITS) {(BITS) == 4 ? ELEMENTS : 0, (BITS) == 4 ? int8_ggml_middle(GGML_MXFP4) : 0, (BITS) == 4 && (ELEMENTS) == 32, 1}
#define ggml_form(TYPE) {ggml_group(TYPE) * 16, int8_ggml_middle(TYPE), 0, int8_ggml_is_small(TYPE)}
  static const struct { int16_t elements, unpacking; } formats[] = {
#define GD_FORMAT(FORMAT, ELEMENTS, BYTES, DTYPE, UNPACKING) [FORMAT] = {ELEMENTS, UNPACKING},
    GD_CPU_WEIGHT_FORMATS(GD_FORMAT)
#undef GD_FORMAT
  };
  switch (formats[format].unpacking) {
#define GD_FORM(UNPACKING, FAMILY, BITS) case UNPACKING: return (gd_cpu_int8_form)FAMILY##_form(formats[format].elements, BITS);
    GD_CPU_UNPACKINGS(GD_FORM)
#undef GD_FORM
#define GD_FORM(UNPACKING, FAMILY, NUMBER, ELEMENTS, BYTES) case UNPACKING: return (gd_cpu_int8_form)FAMILY##_form(NUMBER);
    GD_CPU_BLOCK_UNPACKINGS(GD_FORM)
#undef GD_FORM
    default: return (gd_cpu_int8_form){0};
  }
}

int64_t gd_cpu_int8_stride(int64_t columns, gd_cpu_int8_form form) {
  /* A line apart: not a power of two. */
  return blocks_of(columns, 16 * form.group) * 16 * form.group + 64;
}

int64_t gd_cpu_combine_experts_items(const gd_cpu_combine_experts *op) {
  return op->tokens * blocks_of(op->dim, GD_CPU_COMBINE_BLOCK);
}

int64_t gd_cpu_expert_groups(
  const int32_t *ids, int64_t rows, int64_t experts, int64_t *counts, int32_t *copy, int32_t *places,
  gd_cpu_expert_group *groups, int64_t *wrong
) {
  __builtin_memset(counts, 0, (size_t)(experts + 1) * sizeof *counts);
  *wrong = -1;
  for (int64_t row = 0; row < rows; row++) {
    int32_t id = __atomic_load_n(&ids[row], __ATOMIC_RELAXED); /* another thread may write to it */
    int is_expert = id >= 0 && id < experts;
    if (!is_expert && *wrong < 0) *wrong = row;
    copy[row] = is_expert ? id : (int32_t)experts;
    counts[copy[row]]++;
  }
  int64_t count = 0, first = 0;
  for (int64_t expert = 0; expert <= experts; expert++) {
    int64_t own = counts[expert];
    counts[expert] = first;
    if (own > 0) groups[count++] = (gd_cpu_expert_group){expert < experts ? expert : -1, first, own};
    first += own;
  }
  for (int64_t row = 0; row < rows; row++) places[counts[copy[row]]++] = (int32_t)row;
  return count;
}

int64_t gd_cpu_attention_partial(const gd_cpu_attention *op) { return blocks_of(op->head_dim, 16) * 16 + 16; }

/* Bytes of a slot that one item moves. */
enum { COPY_BLOCK = 1 << 18 };

int64_t gd_cpu_copy_slots_items(const gd_cpu_copy_slots *op) {
  return op->count * blocks_of(op->slot_bytes, COPY_BLOCK);
}

void gd_cpu_copy_slots_run(const void *params, int64_t begin, int64_t end, void *scratch, const uint32_t *stop) {
  const gd_cpu_copy_slots *op = params;
  int64_t blocks = blocks_of(op->slot_bytes, COPY_BLOCK);
  (void)scratch;
  for (int64_t item = begin; item < end && !gd_cpu_stopped(stop); item++) {
    const gd_cpu_slot_copy *copy = &op->copies[item / blocks];
    int64_t at = item % blocks * COPY_BLOCK;
    int64_t left = op->slot_bytes - at, bytes = left < COPY_BLOCK ? left : COPY_BLOCK;
    char *target = (char *)copy->write + at;
    if (copy->read == NULL) __builtin_memset(target, 0, (size_t)bytes);
    else if (copy->read != copy->write) __builtin_memcpy(target, (const char *)copy->read + at, (size_t)bytes);
  }
}

/* The chunked recurrence's is the largest: some heads' states, and about twenty matrices of a chunk. */
size_t gd_cpu_scratch_bytes(void) { return (size_t)1280 << 10; }
