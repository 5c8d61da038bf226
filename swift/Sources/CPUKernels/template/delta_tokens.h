/* The gated delta rule for one sequence and value head: some prepared tokens (delta.h) over the head's value rows.
 *
 * Many tokens go over panels of rows (delta_panel.h) where that is faster. Otherwise, and for the rows that fill no panel,
 * each block of rows (delta_block) takes one pass per token (delta_passes.h). The state is read from its slot by the first pass, stays
 * f32 between tokens (in its own slot if that is f32, else in scratch) and is rounded once, by the pass of the last
 * token. A single token goes over all rows in one pass. */

/* Rows that stay in the nearest cache together while tokens pass, a multiple of DELTA_GROUP: delta_block.h chooses. No
 * bit depends on it. */
static int32_t delta_block = 32;

/* A single token's bf16 rows are widened twice or kept widened, as delta_widening.h chooses. No bit depends on it. */
enum { DELTA_WIDENS_TWICE = 1, DELTA_WIDENS_ONCE = 2 };
static int32_t delta_widening = DELTA_WIDENS_TWICE;

/* Makes the stores that are due `after` this many tokens, of rows, f32 at `rows`. where: elements before them in a state. */
GD_INLINE int64_t store_rows(
  const delta_extras *extras, int64_t next, int64_t after, const float *rows, int64_t where, int64_t count
) {
  for (; next < extras->store_count && extras->stores[next].after == after; next++) {
    const gd_cpu_state_store *store = &extras->stores[next];
    convert(rows, 0, GD_CPU_F32, store->state, where, store->dtype, count);
  }
  return next;
}

/* Rows first_row .. end_row - 1 over prepared tokens 0 .. count - 1. state: rows of the head before these tokens and
 * after. */
static void delta_tokens(
  const delta_scratch *scratch, const gd_cpu_heads *heads, int per_key, delta_state state, int64_t first_row,
  int64_t end_row, int64_t count, const delta_extras *extras
) {
  int64_t dim = heads->key_dim, value_dim = heads->value_dim, decay_step = per_key ? scratch->padded : 1;
  int64_t block = count == 1 ? end_row - first_row : __atomic_load_n(&delta_block, __ATOMIC_RELAXED);
  int64_t blocks = (end_row - first_row + block - 1) / block;
  for (int64_t row = first_row, rows; row < end_row; row += rows) {
    rows = least(end_row - row, block);
#if DELTA_CAN_TURN
    if (state.in_panels && end_row - row >= DELTA_PANEL) {
      rows = DELTA_PANEL;
      int64_t part = (row - first_row) / DELTA_PANEL, parts = (end_row - first_row) / DELTA_PANEL;
      delta_panel_tokens(scratch, heads, per_key, state, row, count, extras, part, parts);
      continue;
    }
#endif
    int64_t where = (extras->head * value_dim + row) * dim, next_store = 0;
    /* Between tokens the rows are here. */
    int in_target = state.target != NULL && state.target_dtype == GD_CPU_F32;
    float *between = (in_target ? (float *)state.target : scratch->state) + row * dim;
    uint32_t source_dtype = state.source_dtype;
    int64_t row_bytes = dim * dtype_size(source_dtype);
    delta_pass pass = {
      .source = (const char *)state.source + row * row_bytes,
      .next_source = row + block < end_row ? (const char *)state.source + (row + block) * row_bytes : state.next_source,
      .rows = rows, .key_dim = dim,
      .next_key = scratch->decayed_key, .next_value = scratch->value + row, .next_beta = scratch->beta[0],
      .delta = scratch->delta, .widened = scratch->widened};
    if (count > 1) first_pass[source_dtype - 1](&pass);
    delta_wanted wanted[DELTA_WANTED];
    if (count > 1) {
      __builtin_memcpy(wanted, extras->wanted, sizeof wanted);
      wanted_part(wanted, (row - first_row) / block, blocks);
    }
    while (next_store < extras->store_count && extras->stores[next_store].after <= extras->tokens_before) next_store++;
    for (int64_t t = 0; t < count; t++) {
      int64_t after = extras->tokens_before + t + 1;
      int stored = next_store < extras->store_count && extras->stores[next_store].after == after;
      int last = t + 1 == count;
      /* A last token's rows go to their slot at once, unless another store wants them in f32 first. */
      int direct = last && state.target != NULL && !(stored && state.target_dtype != GD_CPU_F32);
      uint32_t target_dtype = direct ? state.target_dtype : GD_CPU_F32;
      pass.target = direct ? (char *)state.target + row * dim * dtype_size(target_dtype) : (char *)between;
      pass.may_stream = direct && !stored;
      pass.decay = scratch->decay + t * decay_step;
      pass.key = scratch->key + t * scratch->padded;
      pass.query = scratch->query + t * scratch->padded;
      pass.out = scratch->out + t * value_dim + row;
      float *record = extras->record == NULL ? NULL : extras->record + t * extras->record_stride + row;
      if (record != NULL && count > 1) convert(pass.delta, 0, GD_CPU_F32, record, 0, GD_CPU_F32, rows);
      if (count == 1) {
        int is_bf16 = source_dtype == GD_CPU_BF16 && target_dtype == GD_CPU_BF16;
        int32_t widening = __atomic_load_n(&delta_widening, __ATOMIC_RELAXED);
        if (is_bf16 && DELTA_CAN_KEEP && widening == DELTA_WIDENS_ONCE) keep_pass[per_key](&pass);
        else only_pass[per_key][source_dtype - 1][target_dtype - 1](&pass);
        if (record != NULL) convert(pass.delta, 0, GD_CPU_F32, record, 0, GD_CPU_F32, rows);
      } else if (last) {
        last_pass[per_key][source_dtype - 1][target_dtype - 1](&pass);
      } else {
        pass.next_key = scratch->decayed_key + (t + 1) * scratch->padded;
        pass.next_value = scratch->value + (t + 1) * value_dim + row;
        pass.next_beta = scratch->beta[t + 1];
        fetch_wanted(wanted, t);
        next_pass[per_key][source_dtype - 1](&pass);
      }
      if (stored) next_store = store_rows(extras, next_store, after, between, where, rows * dim);
      if (last && !direct && state.target != NULL) {
        convert(between, 0, GD_CPU_F32, state.target, row * dim, state.target_dtype, rows * dim);
      }
      pass.source = between;
      source_dtype = GD_CPU_F32;
    }
  }
}
