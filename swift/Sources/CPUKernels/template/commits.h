/* Commits: a state moved on by records of tokens that an earlier op has computed. */

/* Rows of a block that are updated together, so that a key is loaded once for all. valueDim is a multiple of it. */
enum { COMMIT_ROWS = 4 };

/* Elements i .. i + left - 1 (at most GD_WIDTH) of COMMIT_ROWS rows over all records: the state's elements stay in
 * registers, and each record updates them as the pass of its token did (delta_passes.h): equal bits. */
GD_INLINE void commit_elements(
  const gd_cpu_commit_gated_delta *op, const gd_cpu_sequence *sequence, int64_t head, int64_t key_head, int64_t row,
  int64_t i, int64_t left, const void *from, void *to
) {
  const gd_cpu_heads *heads = &op->heads;
  int64_t dim = heads->key_dim, at = (head * heads->value_dim + row) * dim + i;
  int per_key = op->gate_dims == GD_CPU_GATE_PER_KEY, whole = left >= GD_WIDTH;
  vf s[COMMIT_ROWS];
  GD_UNROLL for (int r = 0; r < COMMIT_ROWS; r++) {
    if (from == NULL) s[r] = splat(0.0f);
    else s[r] = whole ? load(from, at + r * dim, op->state_dtype) : load_first(from, at + r * dim, op->state_dtype, left);
  }
  for (int64_t t = sequence->first; t < sequence->first + sequence->count; t++) {
    const float *keys = op->records.key + (t * heads->key_heads + key_head) * dim;
    const float *decays = op->records.decay + (t * heads->value_heads + head) * (per_key ? dim : 1);
    const float *deltas = op->records.delta + (t * heads->value_heads + head) * heads->value_dim + row;
    vf key = whole ? load(keys, i, GD_CPU_F32) : load_first(keys, i, GD_CPU_F32, left);
    vf decay = splat(*decays);
    if (per_key) decay = whole ? load(decays, i, GD_CPU_F32) : load_first(decays, i, GD_CPU_F32, left);
    GD_UNROLL for (int r = 0; r < COMMIT_ROWS; r++) s[r] = fma_vf(splat(deltas[r]), key, decay * s[r]);
  }
  GD_UNROLL for (int r = 0; r < COMMIT_ROWS; r++) {
    if (whole) store(to, at + r * dim, op->state_dtype, s[r]);
    else store_first(to, at + r * dim, op->state_dtype, left, s[r]);
  }
}

static void commit_gated_delta(const void *params, int64_t begin, int64_t end, void *memory, const uint32_t *stop) {
  const gd_cpu_commit_gated_delta *op = params;
  int64_t value_dim = op->heads.value_dim, dim = op->heads.key_dim, rows = op->rows_per_item;
  int64_t blocks = (value_dim + rows - 1) / rows, per_sequence = blocks * op->heads.value_heads;
  (void)memory;
  for (int64_t item = begin; item < end && !gd_cpu_stopped(stop); item++) {
    const gd_cpu_sequence *sequence = &op->sequences[item / per_sequence];
    int64_t rest = item % per_sequence, first = rest % blocks * rows;
    int64_t last = first + rows < value_dim ? first + rows : value_dim;
    int64_t head = rest / blocks, key_head = key_head_of(&op->heads, head);
    if (sequence->write == NULL) continue;
    if (sequence->count == 0) {
      copy_state(sequence, op->state_dtype, (head * value_dim + first) * dim, (last - first) * dim);
      continue;
    }
    for (int64_t row = first; row < last; row += COMMIT_ROWS) {
      for (int64_t i = 0; i < dim; i += GD_WIDTH) {
        if (gd_cpu_stopped(stop)) return;
        commit_elements(op, sequence, head, key_head, row, i, dim - i, sequence->read, sequence->write);
      }
    }
  }
}

static void commit_causal_conv1d(const void *params, int64_t begin, int64_t end, void *memory, const uint32_t *stop) {
  const gd_cpu_commit_causal_conv1d *op = params;
  int64_t blocks = (op->channels + op->channels_per_item - 1) / op->channels_per_item, taps = op->width - 1;
  char *cursor = memory;
  conv_block block = conv_block_make(&cursor);
  block.width = op->width;
  for (int64_t item = begin; item < end && !gd_cpu_stopped(stop); item++) {
    const gd_cpu_sequence *sequence = &op->sequences[item / blocks];
    block.first = item % blocks * op->channels_per_item;
    int64_t left = op->channels - block.first;
    block.count = left < op->channels_per_item ? left : op->channels_per_item;
    if (sequence->write == NULL) continue;
    if (sequence->count == 0) {
      copy_state(sequence, op->state_dtype, block.first * taps, block.count * taps);
      continue;
    }
    conv_read(&block, sequence->read, op->state_dtype);
    /* Of many tokens, only the last ones remain in the end. */
    int64_t last = sequence->first + sequence->count;
    for (int64_t t = last - (sequence->count < taps ? sequence->count : taps); t < last; t++) {
      convert(
        op->x.data, t * op->x.token_stride + block.first, op->x.dtype, block.columns[taps], 0, GD_CPU_F32, block.count);
      conv_shift(&block);
    }
    conv_end(&block, sequence->write, op->state_dtype);
  }
}
