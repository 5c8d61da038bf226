/* Many tokens over panels of the state: DELTA_PANEL value rows each, held turned as [keyDim, DELTA_PANEL] in f32 from a
 * sequence's first token to its last, so that a vector runs over value rows. What a pass of delta_passes.h does to a row happens here
 * to a lane, in the same order: equal bits. d and the output need no shuffles, which are a sixth of a pass's work where they
 * share the units of multiply-adds. Turning costs what a dozen tokens save. keyDim is a multiple of GD_LANES. */

enum { DELTA_PANEL_TOKENS = 32 }; /* this many tokens are worth turning the state */

#define DELTA_CAN_TURN (GD_WIDTH == 16) /* not faster with AVX2, slower with SSE2 */

/* Whether many tokens go over panels: bits, DELTA_IN_ROWS always, as delta_turning.h chooses. No bit of a result depends on it. */
enum { DELTA_IN_ROWS = 1, DELTA_IN_PANELS_PER_HEAD = 2, DELTA_IN_PANELS_PER_KEY = 4 };
static int32_t delta_turning = DELTA_IN_ROWS;

GD_INLINE int delta_turns(int per_key) {
  int32_t ways = __atomic_load_n(&delta_turning, __ATOMIC_RELAXED);
  return DELTA_CAN_TURN && (ways & (per_key ? DELTA_IN_PANELS_PER_KEY : DELTA_IN_PANELS_PER_HEAD)) != 0;
}

#if DELTA_CAN_TURN
enum { DELTA_VECTORS = 2, DELTA_PANEL = DELTA_VECTORS * GD_WIDTH };
/* Partials of a sum that are formed together, PANEL_GROUPS apart. */
enum { PANEL_TOGETHER = 2, PANEL_GROUPS = GD_LANES / PANEL_TOGETHER };

/* A number for each row. */
typedef struct panel_sum {
  vf x[DELTA_VECTORS];
} panel_sum;

GD_INLINE panel_sum panel_add(panel_sum a, panel_sum b) {
  GD_UNROLL for (int v = 0; v < DELTA_VECTORS; v++) a.x[v] = a.x[v] + b.x[v];
  return a;
}

/* The sum of `count` partials, in the order of sums.h; they are lost. */
GD_INLINE panel_sum panel_fold(panel_sum *partials, int count) {
  GD_UNROLL for (int half = count / 2; half > 0; half /= 2) {
    GD_UNROLL for (int i = 0; i < half; i++) partials[i] = panel_add(partials[i], partials[i + half]);
  }
  return partials[0];
}

/* S k. */
static void panel_first(const float *state, const float *key, int64_t key_dim, panel_sum *memory) {
  panel_sum groups[PANEL_GROUPS];
  _Pragma("clang loop unroll(disable)")
  for (int64_t g = 0; g < PANEL_GROUPS; g++) {
    panel_sum partials[PANEL_TOGETHER] = {0};
    _Pragma("clang loop unroll(disable)")
    for (int64_t i = g; i < key_dim; i += GD_LANES) {
      GD_UNROLL for (int e = 0; e < PANEL_TOGETHER; e++) {
        int64_t at = i + e * PANEL_GROUPS;
        GD_UNROLL for (int v = 0; v < DELTA_VECTORS; v++) {
          vf s = load(state, at * DELTA_PANEL + v * GD_WIDTH, GD_CPU_F32);
          partials[e].x[v] = fma_vf(s, splat(key[at]), partials[e].x[v]);
        }
      }
    }
    groups[g] = panel_fold(partials, PANEL_TOGETHER);
  }
  *memory = panel_fold(groups, PANEL_GROUPS);
}

/* A token: S <- a S + d k^T, out = S q, memory = S next_key. */
GD_INLINE void panel_next(
  float *state, const delta_pass *pass, int per_key, panel_sum delta, panel_sum *out, panel_sum *memory
) {
  const float *decay = pass->decay, *key = pass->key, *query = pass->query, *next_key = pass->next_key;
  int64_t key_dim = pass->key_dim;
  vf head_decay = splat(decay[0]);
  panel_sum outs[PANEL_GROUPS], memories[PANEL_GROUPS];
  _Pragma("clang loop unroll(disable)")
  for (int64_t g = 0; g < PANEL_GROUPS; g++) {
    panel_sum of_out[PANEL_TOGETHER] = {0}, of_memory[PANEL_TOGETHER] = {0};
    _Pragma("clang loop unroll(disable)")
    for (int64_t i = g; i < key_dim; i += GD_LANES) {
      GD_UNROLL for (int e = 0; e < PANEL_TOGETHER; e++) {
        int64_t at = i + e * PANEL_GROUPS;
        vf k = splat(key[at]), q = splat(query[at]), next_k = splat(next_key[at]);
        vf a = per_key ? splat(decay[at]) : head_decay;
        GD_UNROLL for (int v = 0; v < DELTA_VECTORS; v++) {
          vf s = fma_vf(delta.x[v], k, a * load(state, at * DELTA_PANEL + v * GD_WIDTH, GD_CPU_F32));
          store(state, at * DELTA_PANEL + v * GD_WIDTH, GD_CPU_F32, s);
          of_out[e].x[v] = fma_vf(s, q, of_out[e].x[v]);
          of_memory[e].x[v] = fma_vf(s, next_k, of_memory[e].x[v]);
        }
      }
    }
    outs[g] = panel_fold(of_out, PANEL_TOGETHER);
    memories[g] = panel_fold(of_memory, PANEL_TOGETHER);
  }
  *out = panel_fold(outs, PANEL_GROUPS);
  *memory = panel_fold(memories, PANEL_GROUPS);
}

static void panel_next_per_head(
  float *state, const delta_pass *pass, const panel_sum *delta, panel_sum *out, panel_sum *memory
) {
  panel_next(state, pass, 0, *delta, out, memory);
}
static void panel_next_per_key(
  float *state, const delta_pass *pass, const panel_sum *delta, panel_sum *out, panel_sum *memory
) {
  panel_next(state, pass, 1, *delta, out, memory);
}

/* d of a panel's rows for token t. */
GD_INLINE panel_sum panel_delta(const delta_scratch *scratch, int64_t value_dim, int64_t row, int64_t t, panel_sum memory) {
  panel_sum delta;
  GD_UNROLL for (int v = 0; v < DELTA_VECTORS; v++) {
    vf value = load(scratch->value, t * value_dim + row + v * GD_WIDTH, GD_CPU_F32);
    delta.x[v] = splat(scratch->beta[t]) * (value - memory.x[v]);
  }
  return delta;
}

GD_INLINE void panel_rows_store(panel_sum rows, float *to) {
  GD_UNROLL for (int v = 0; v < DELTA_VECTORS; v++) store(to, v * GD_WIDTH, GD_CPU_F32, rows.x[v]);
}

/* Rows row .. row + DELTA_PANEL - 1 over prepared tokens, the part-th of `parts` panels of a head. */
static void delta_panel_tokens(
  const delta_scratch *scratch, const gd_cpu_heads *heads, int per_key, delta_state state, int64_t row, int64_t count,
  const delta_extras *extras, int64_t part, int64_t parts
) {
  int64_t dim = heads->key_dim, value_dim = heads->value_dim, next_store = 0;
  float *panel = scratch->state + row * dim;
  if (extras->tokens_before == 0) {
    const char *from = (const char *)state.source + row * dim * dtype_size(state.source_dtype);
    panel_read(panel, DELTA_PANEL, from, state.source_dtype, DELTA_PANEL, dim);
  }
  while (next_store < extras->store_count && extras->stores[next_store].after <= extras->tokens_before) next_store++;
  delta_wanted wanted[DELTA_WANTED];
  __builtin_memcpy(wanted, extras->wanted, sizeof wanted);
  wanted_part(wanted, part, parts);
  panel_sum memory, out;
  panel_first(panel, scratch->decayed_key, dim, &memory);
  panel_sum delta = panel_delta(scratch, value_dim, row, 0, memory);
  for (int64_t t = 0; t < count; t++) {
    int64_t next = least(t + 1, count - 1); /* the last token's d is not used */
    delta_pass pass = {
      .key_dim = dim, .decay = scratch->decay + t * (per_key ? scratch->padded : 1),
      .key = scratch->key + t * scratch->padded, .query = scratch->query + t * scratch->padded,
      .next_key = scratch->decayed_key + next * scratch->padded};
    if (extras->record != NULL) panel_rows_store(delta, extras->record + t * extras->record_stride + row);
    fetch_wanted(wanted, t);
    (per_key ? panel_next_per_key : panel_next_per_head)(panel, &pass, &delta, &out, &memory);
    panel_rows_store(out, scratch->out + t * value_dim + row);
    delta = panel_delta(scratch, value_dim, row, next, memory);
    int64_t after = extras->tokens_before + t + 1;
    for (; next_store < extras->store_count && extras->stores[next_store].after == after; next_store++) {
      const gd_cpu_state_store *store = &extras->stores[next_store];
      int64_t where = (extras->head * value_dim + row) * dim;
      panel_write(panel, DELTA_PANEL, (char *)store->state + where * dtype_size(store->dtype), store->dtype, DELTA_PANEL, dim);
    }
  }
  if (state.target == NULL) return;
  void *to = (char *)state.target + row * dim * dtype_size(state.target_dtype);
  panel_write(panel, DELTA_PANEL, to, state.target_dtype, DELTA_PANEL, dim);
}
#endif
