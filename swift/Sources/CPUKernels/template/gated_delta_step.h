/* gatedDeltaStep: conv, gates, query and key norm, recurrence and gated norm of one token of each sequence. Work items
 * are (sequence, key head) with all value heads of the key head: query, key and value channels of an item belong to no
 * other, so that it alone reads and shifts their taps.
 *
 * Every stage is the code of its own op, so that the bits are those of the ops one after the other. */

/* conv of channels first .. first + count - 1 as f32, rounded to x's dtype on the way as the op's output is. */
static void step_conv(
  const gd_cpu_gated_delta_step *op, conv_block *block, int64_t sequence, int64_t first, int64_t count, float *rounded,
  float *out
) {
  const gd_cpu_sequence *states = &op->conv_sequences[sequence];
  block->first = first;
  block->count = count;
  conv_begin(block, &op->conv_weight, &op->conv_bias, states->read, op->conv_state_dtype);
  int64_t x_at = states->first * op->x.token_stride + first;
  if (op->x.dtype == GD_CPU_F32) {
    conv_token(block, op->x.data, x_at, GD_CPU_F32, out, 0, GD_CPU_F32);
  } else {
    conv_token(block, op->x.data, x_at, op->x.dtype, rounded, 0, op->x.dtype);
    convert(rounded, 0, op->x.dtype, out, 0, GD_CPU_F32, count);
  }
  conv_end(block, states->write, op->conv_state_dtype);
}

static void gated_delta_step(const void *params, int64_t begin, int64_t end, void *memory) {
  const gd_cpu_gated_delta_step *op = params;
  const gd_cpu_heads *heads = &op->heads;
  int64_t key_dim = heads->key_dim, value_dim = heads->value_dim, group = heads->value_heads / heads->key_heads;
  int64_t state_size = dtype_size(op->state_dtype), head_bytes = value_dim * key_dim * state_size;
  int per_key = op->gates.gate_dims == GD_CPU_GATE_PER_KEY;
  char *cursor = memory;
  delta_scratch scratch = delta_scratch_make(&cursor);
  conv_block block = conv_block_make(&cursor);
  float *rounded = scratch_take(&cursor, GD_CPU_MAX_DIM), *gated = scratch_take(&cursor, NORM_BLOCK);
  float *weight = scratch_take(&cursor, GD_CPU_MAX_DIM);
  scratch.padded = (key_dim + GD_LANES - 1) / GD_LANES * GD_LANES;
  block.width = op->width;
  block.activation = op->conv_activation;
  convert(op->norm_weight.data, 0, op->norm_weight.dtype, weight, 0, GD_CPU_F32, value_dim);
  norm_rows row = {
    .kind = {GD_CPU_F32, op->z.dtype, GD_CPU_F32, op->out.dtype, op->norm_activation}, .order = op->norm_order,
    .eps = op->norm_eps, .dim = value_dim, .count = 1, .weight = weight, .x = {scratch.out}};
  for (int64_t item = begin; item < end; item++) {
    int64_t sequence = item / heads->key_heads, key_head = item % heads->key_heads;
    const gd_cpu_sequence *states = &op->sequences[sequence];
    int64_t token = states->first, keys = heads->key_heads * key_dim;
    step_conv(op, &block, sequence, key_head * key_dim, key_dim, rounded, scratch.query);
    step_conv(op, &block, sequence, keys + key_head * key_dim, key_dim, rounded, scratch.key);
    prepare_key(heads, scratch.key, scratch.query, scratch.padded);
    for (int64_t g = 0; g < group; g++) {
      int64_t same, head = value_head_at(heads, key_head * group + g, &same);
      step_conv(op, &block, sequence, 2 * keys + head * value_dim, value_dim, rounded, scratch.value);
      prepare_gates(&op->gates, head, token, 1, key_dim, &scratch);
      decay_key(&scratch, per_key, 0);
      delta_state state = {gd_cpu_zeros, gd_cpu_zeros, NULL, GD_CPU_F32, op->state_dtype};
      if (states->read != NULL) {
        state.source = (const char *)states->read + head * head_bytes;
        state.source_dtype = op->state_dtype;
      }
      if (states->write != NULL) state.target = (char *)states->write + head * head_bytes;
      delta_tokens(&scratch, heads, per_key, state, 0, value_dim, 1, &(delta_extras){0});
      row.z[0] = element(&op->z, token, head, 0);
      row.out[0] = element(&op->out, token, head, 0);
      norm_run(&row, gated);
    }
  }
}
