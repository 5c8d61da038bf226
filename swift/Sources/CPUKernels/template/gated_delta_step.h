/* gatedDeltaStep: conv, gates, query and key norm, recurrence and gated norm of one token of each sequence. Work items
 * are (sequence, key head) with all value heads of the key head: query, key and value channels of an item belong to no
 * other, so that it alone reads and shifts their taps.
 *
 * A run of items of one sequence goes through the stages together: its channels and its heads' states are adjacent,
 * and sequential reads are the fastest. Every stage is the code of its own op, so that the bits are those
 * of the ops one after another. */

enum { STEP_RUN = DELTA_TOKENS }; /* key heads of a run: their keys fill the rows that tokens have elsewhere */

typedef struct step_run {
  const gd_cpu_gated_delta_step *op;
  int64_t sequence, token, first_key_head, count;
  delta_scratch scratch; /* key, query, decayed_key: a row for each key head; value, out: one for each value head */
  conv_block block;
  norm_rows norm;
  float *rounded, *gated;
} step_run;

/* conv of channels first .. first + count - 1 as f32, rounded to x's dtype on the way as the op's output is. */
static void step_conv(step_run *run, int64_t first, int64_t count, float *out) {
  const gd_cpu_gated_delta_step *op = run->op;
  const gd_cpu_sequence *states = &op->conv_sequences[run->sequence];
  conv_block *block = &run->block;
  for (int64_t done = 0; done < count; done += block->count) {
    block->first = first + done;
    block->count = least(count - done, GD_CPU_CONV_BLOCK);
    conv_begin(block, &op->conv_weight, &op->conv_bias, states->read, op->conv_state_dtype);
    int64_t x_at = states->first * op->x.token_stride + block->first;
    if (op->x.dtype == GD_CPU_F32) {
      conv_token(block, op->x.data, x_at, GD_CPU_F32, out + done, 0, GD_CPU_F32);
    } else {
      conv_token(block, op->x.data, x_at, op->x.dtype, run->rounded, 0, op->x.dtype);
      convert(run->rounded, 0, op->x.dtype, out + done, 0, GD_CPU_F32, block->count);
    }
    conv_end(block, states->write, op->conv_state_dtype);
  }
}

/* The run's queries and keys; all at once if rows are not padded. */
static void step_keys(step_run *run) {
  const gd_cpu_heads *heads = &run->op->heads;
  delta_scratch *scratch = &run->scratch;
  int64_t dim = heads->key_dim, padded = scratch->padded, keys = heads->key_heads * dim;
  int64_t together = padded == dim ? run->count : 1;
  for (int64_t k = 0; k < run->count; k += together) {
    int64_t first = (run->first_key_head + k) * dim;
    step_conv(run, first, together * dim, scratch->query + k * padded);
    step_conv(run, keys + first, together * dim, scratch->key + k * padded);
  }
  for (int64_t k = 0; k < run->count; k++) {
    prepare_key(heads, scratch->key + k * padded, scratch->query + k * padded, padded);
  }
}

/* Value heads first .. first + count - 1, which follow one another in memory. next: the state that is read then. */
static void step_heads(step_run *run, int64_t first, const void *next) {
  const gd_cpu_gated_delta_step *op = run->op;
  const gd_cpu_heads *heads = &op->heads;
  const gd_cpu_sequence *states = &op->sequences[run->sequence];
  int64_t key_dim = heads->key_dim, value_dim = heads->value_dim;
  int64_t head_bytes = value_dim * key_dim * dtype_size(op->state_dtype);
  int per_key = op->gates.gate_dims == GD_CPU_GATE_PER_KEY;
  step_conv(run, 2 * heads->key_heads * key_dim + first * value_dim, run->count * value_dim, run->scratch.value);
  for (int64_t h = 0; h < run->count; h++) {
    int64_t head = first + h;
    delta_scratch scratch = delta_scratch_from(run->scratch, key_head_of(heads, head) - run->first_key_head);
    scratch.value += h * value_dim, scratch.out += h * value_dim;
    prepare_gates(&op->gates, head, run->token, 1, key_dim, &scratch);
    decay_key(&scratch, per_key, 0);
    delta_state state = {gd_cpu_zeros, gd_cpu_zeros, NULL, GD_CPU_F32, op->state_dtype, 0};
    if (states->read != NULL) {
      state.source = (const char *)states->read + head * head_bytes;
      state.next_source = h + 1 < run->count ? (const char *)state.source + head_bytes : next;
      state.source_dtype = op->state_dtype;
    }
    if (states->write != NULL) state.target = (char *)states->write + head * head_bytes;
    delta_tokens(&scratch, heads, per_key, state, 0, value_dim, 1, &(delta_extras){0});
  }
  norm_rows *norm = &run->norm;
  for (int64_t done = 0; done < run->count; done += norm->count) {
    norm->count = least(run->count - done, NORM_ROWS);
    for (int64_t r = 0; r < norm->count; r++) {
      norm->x[r] = run->scratch.out + (done + r) * value_dim;
      norm->z[r] = element(&op->z, run->token, first + done + r, 0);
      norm->out[r] = element(&op->out, run->token, first + done + r, 0);
    }
    norm_run(norm, run->gated);
  }
}

/* The first value head of part g of a run: a group's heads follow one another, or are keyHeads apart. */
GD_INLINE int64_t step_first_head(const gd_cpu_heads *heads, int64_t first_key_head, int64_t count, int64_t g) {
  int64_t group = heads->value_heads / heads->key_heads;
  return heads->head_map == GD_CPU_HEADS_BLOCK ? first_key_head * group + g * count
                                               : g * heads->key_heads + first_key_head;
}

static void gated_delta_step(const void *params, int64_t begin, int64_t end, void *memory, const uint32_t *stop) {
  const gd_cpu_gated_delta_step *op = params;
  const gd_cpu_heads *heads = &op->heads;
  int64_t group = heads->value_heads / heads->key_heads;
  int64_t head_bytes = heads->value_dim * heads->key_dim * dtype_size(op->state_dtype);
  char *cursor = memory;
  step_run run = {.op = op, .scratch = delta_scratch_make(&cursor, heads->key_dim), .block = conv_block_make(&cursor)};
  run.rounded = scratch_take(&cursor, GD_CPU_CONV_BLOCK);
  run.gated = scratch_take(&cursor, NORM_BLOCK);
  float *weight = scratch_take(&cursor, GD_CPU_MAX_DIM);
  run.block.width = op->width;
  run.block.activation = op->conv_activation;
  convert(op->norm_weight.data, 0, op->norm_weight.dtype, weight, 0, GD_CPU_F32, heads->value_dim);
  run.norm = (norm_rows){
    .kind = {GD_CPU_F32, op->z.dtype, GD_CPU_F32, op->out.dtype, op->norm_activation}, .order = op->norm_order,
    .eps = op->norm_eps, .dim = heads->value_dim, .weight = weight};
  for (int64_t item = begin; item < end && !gd_cpu_stopped(stop); item += run.count) {
    run.sequence = item / heads->key_heads;
    run.first_key_head = item % heads->key_heads;
    run.count = least(least(end - item, heads->key_heads - run.first_key_head), STEP_RUN);
    const gd_cpu_sequence *states = &op->sequences[run.sequence];
    run.token = states->first;
    step_keys(&run);
    for (int64_t g = 0; g < group && !gd_cpu_stopped(stop); g++) {
      int64_t after = step_first_head(heads, run.first_key_head, run.count, least(g + 1, group - 1));
      const void *next = gd_cpu_zeros;
      if (states->read != NULL) next = (const char *)states->read + after * head_bytes;
      step_heads(&run, step_first_head(heads, run.first_key_head, run.count, g), next);
    }
  }
}
