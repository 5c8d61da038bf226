/* The chunked gated delta rule: the update of a head's state by CHUNK tokens, as matrix products.
 *
 * With S the state before a chunk, D(i, j) the product of the decays after token j up to token i (per key dimension it
 * stays inside the dot), g_i = D(i, -1) that of all up to token i, and n the chunk's last token:
 *
 *   A(i, j) = k_i . D(i, j) k_j, j < i        d_i = beta_i (v_i - S (g_i k_i) - sum over j < i of A(i, j) d_j)
 *   P(i, j) = q_i . D(i, j) k_j, j <= i       out_i = S (g_i q_i) + sum over j <= i of P(i, j) d_j
 *                                             S <- g_n S + sum over j of d_j (D(n, j) k_j)^T
 *
 * (Yang et al. 2024, "Gated Delta Networks", section 3.3, solved by substitution: d is the recurrence's own.) Products
 * of decays are running ones, never ratios, exponents or logarithms: a decay of 0 forgets exactly. Every sum is one
 * chain of fused multiply-adds, over key dimensions first and then over tokens, both ascending. Nothing about a token
 * depends on a later one, nor on where its chunk ends.
 *
 * Here: A, P and the keys and queries that S is read and updated with. For several value heads of a key head, keys and
 * queries are normalised and turned once, and if a decay is one number, their dots are shared, too. */

enum { CHUNK = 16 };

typedef struct chunk_scratch {
  delta_scratch rows;             /* key, query, decay, beta of the chunk's tokens */
  float *key, *query;             /* [padded keyDim, CHUNK] */
  float *key_dots, *query_dots;   /* [CHUNK, CHUNK]: k_i . k_j, q_i . k_j */
  float *decays;                  /* [CHUNK, CHUNK]: D */
  float *corrections, *outputs;   /* [CHUNK, CHUNK]: A, P */
  float *up_to;                   /* [CHUNK]: g, if a decay is one number */
  float *key_up_to, *query_up_to; /* [padded keyDim, CHUNK]: g k, g q */
  float *update_key;              /* [CHUNK, padded keyDim]: D(n, j) k_j, for decays per key dimension */
  float *update_total;            /* [padded keyDim]: g_n */
  float *carried;                 /* [padded keyDim, GD_WIDTH] */
} chunk_scratch;

static chunk_scratch chunk_scratch_make(char **memory, int64_t key_dim) {
  chunk_scratch scratch = {0};
  int64_t padded = (key_dim + GD_LANES - 1) / GD_LANES * GD_LANES, rows = CHUNK * padded;
  scratch.rows.padded = padded;
  float **of_rows[] = {
    &scratch.rows.key, &scratch.rows.query, &scratch.rows.decay, &scratch.key, &scratch.query, &scratch.key_up_to,
    &scratch.query_up_to, &scratch.update_key};
  for (size_t i = 0; i < sizeof of_rows / sizeof *of_rows; i++) *of_rows[i] = scratch_take(memory, rows);
  float **squares[] = {
    &scratch.key_dots, &scratch.query_dots, &scratch.decays, &scratch.corrections, &scratch.outputs};
  for (size_t i = 0; i < sizeof squares / sizeof *squares; i++) *squares[i] = scratch_take(memory, CHUNK * CHUNK);
  scratch.rows.beta = scratch_take(memory, CHUNK);
  scratch.up_to = scratch_take(memory, CHUNK);
  scratch.update_total = scratch_take(memory, padded);
  scratch.carried = scratch_take(memory, padded * GD_WIDTH);
  return scratch;
}

/* dots[i][j] = sum over d of rows[d][i] columns[d][j], for j <= i. */
static void chunk_dots(const float *rows, const float *columns, float *dots, int64_t count, int64_t key_dim) {
  for (int64_t i = 0; i < count; i += CHUNK_ROWS) {
    for (int64_t j = 0; j < i + CHUNK_ROWS; j += PANEL) {
      chunk_tile tile = {0};
      if (i + CHUNK_ROWS - j > GD_WIDTH) {
        tile_products(&tile, 2, rows + i, CHUNK, 1, columns + j, CHUNK, key_dim);
        tile_store(&tile, 2, dots + i * CHUNK + j, CHUNK);
      } else {
        tile_products(&tile, 1, rows + i, CHUNK, 1, columns + j, CHUNK, key_dim);
        tile_store(&tile, 1, dots + i * CHUNK + j, CHUNK);
      }
    }
  }
}

/* Keys and queries of tokens first .. first + count - 1, normalised, as rows and turned; zeros beyond the count. */
static void chunk_keys(
  const gd_cpu_gated_delta *op, const chunk_scratch *scratch, int64_t head, int64_t first, int64_t count
) {
  int64_t dim = op->heads.key_dim, padded = scratch->rows.padded;
  for (int64_t t = 0; t < CHUNK; t++) {
    float *key = scratch->rows.key + t * padded, *query = scratch->rows.query + t * padded;
    if (t >= count) {
      __builtin_memset(key, 0, (size_t)padded * sizeof(float));
      __builtin_memset(query, 0, (size_t)padded * sizeof(float));
      continue;
    }
    convert(element(&op->key, first + t, head, 0), 0, op->key.dtype, key, 0, GD_CPU_F32, dim);
    convert(element(&op->query, first + t, head, 0), 0, op->query.dtype, query, 0, GD_CPU_F32, dim);
    prepare_key(&op->heads, key, query, padded);
  }
  turn_floats(scratch->rows.key, padded, scratch->key, CHUNK, CHUNK, padded);
  turn_floats(scratch->rows.query, padded, scratch->query, CHUNK, CHUNK, padded);
  if (op->gates.gate_dims == GD_CPU_GATE_PER_KEY) return;
  chunk_dots(scratch->key, scratch->key, scratch->key_dots, count, dim);
  chunk_dots(scratch->query, scratch->key, scratch->query_dots, count, dim);
}

GD_INLINE vi lane_numbers(int64_t first) {
  vi lanes;
  GD_UNROLL for (int l = 0; l < GD_WIDTH; l++) lanes[l] = (int32_t)(first + l);
  return lanes;
}

/* D, g, A, P, g k and g q if a decay is one number. Rows are scaled, not their products with S: a decay of 0 then
 * also erases values that are too large to be summed. */
static void chunk_decays(const chunk_scratch *scratch, int64_t count, int64_t key_dim) {
  float up_to = 1.0f;
  vf row[CHUNK / GD_WIDTH] = {0};
  for (int64_t i = 0; i < count; i++) {
    float decay = scratch->rows.decay[i];
    up_to *= decay;
    scratch->up_to[i] = up_to;
    GD_UNROLL for (int p = 0; p < CHUNK / GD_WIDTH; p++) {
      int64_t at = i * CHUNK + p * GD_WIDTH;
      vi own = lane_numbers(p * GD_WIDTH) == (int32_t)i;
      row[p] = select_vf(own, splat(1.0f), row[p] * splat(decay));
      store(scratch->decays, at, GD_CPU_F32, row[p]);
      store(scratch->corrections, at, GD_CPU_F32, row[p] * load(scratch->key_dots, at, GD_CPU_F32));
      store(scratch->outputs, at, GD_CPU_F32, row[p] * load(scratch->query_dots, at, GD_CPU_F32));
    }
  }
  for (int64_t i = count; i < CHUNK; i++) scratch->up_to[i] = 0.0f;
  GD_UNROLL for (int p = 0; p < CHUNK / GD_WIDTH; p++) {
    vf scale = load(scratch->up_to, p * GD_WIDTH, GD_CPU_F32);
    for (int64_t d = 0; d < key_dim; d++) {
      int64_t at = d * CHUNK + p * GD_WIDTH;
      store(scratch->key_up_to, at, GD_CPU_F32, scale * load(scratch->key, at, GD_CPU_F32));
      store(scratch->query_up_to, at, GD_CPU_F32, scale * load(scratch->query, at, GD_CPU_F32));
    }
  }
}

/* A and P if decays are per key dimension, and inside the dots: each key is carried from its token on. Lanes are
 * columns j .. j + GD_WIDTH - 1; four rows at a time. */
static void chunk_dots_per_key(const chunk_scratch *scratch, int64_t j, int64_t count, int64_t key_dim) {
  enum { TOGETHER = 4 };
  int64_t padded = scratch->rows.padded;
  const float *from = scratch->key + j;
  int64_t from_step = CHUNK;
  vi lanes = lane_numbers(j);
  for (int64_t i = j; i < count; i += TOGETHER) {
    vf corrections[TOGETHER] = {0}, outputs[TOGETHER] = {0};
    const float *decay = scratch->rows.decay + i * padded;
    for (int64_t d = 0; d < key_dim; d++) {
      const float *key = scratch->key + d * CHUNK + i, *query = scratch->query + d * CHUNK + i;
      vf carried = load(from, d * from_step, GD_CPU_F32);
      GD_UNROLL for (int e = 0; e < TOGETHER; e++) {
        carried = select_vf(lanes < (int32_t)(i + e), carried * splat(decay[e * padded + d]), carried);
        corrections[e] = fma_vf(splat(key[e]), carried, corrections[e]);
        outputs[e] = fma_vf(splat(query[e]), carried, outputs[e]);
      }
      store(scratch->carried, d * GD_WIDTH, GD_CPU_F32, carried);
    }
    GD_UNROLL for (int e = 0; e < TOGETHER; e++) {
      store(scratch->corrections, (i + e) * CHUNK + j, GD_CPU_F32, corrections[e]);
      store(scratch->outputs, (i + e) * CHUNK + j, GD_CPU_F32, outputs[e]);
    }
    from = scratch->carried;
    from_step = GD_WIDTH;
  }
}

/* g k and g q if decays are per key dimension: zeros beyond the count, as in the rows. */
static void chunk_scale_up_to(const chunk_scratch *scratch, int64_t count) {
  int64_t padded = scratch->rows.padded;
  for (int64_t i = 0; i < padded; i += GD_WIDTH) {
    vf product = splat(1.0f);
    for (int64_t group = 0; group < CHUNK; group += GD_WIDTH) {
      vf key[GD_WIDTH], query[GD_WIDTH];
      for (int t = 0; t < GD_WIDTH; t++) {
        int64_t at = (group + t) * padded + i;
        if (group + t < count) product = product * load(scratch->rows.decay, at, GD_CPU_F32);
        key[t] = product * load(scratch->rows.key, at, GD_CPU_F32);
        query[t] = product * load(scratch->rows.query, at, GD_CPU_F32);
      }
      turn(key);
      turn(query);
      for (int c = 0; c < GD_WIDTH; c++) {
        store(scratch->key_up_to, (i + c) * CHUNK + group, GD_CPU_F32, key[c]);
        store(scratch->query_up_to, (i + c) * CHUNK + group, GD_CPU_F32, query[c]);
      }
    }
  }
}

/* D(n, j) k_j and g_n of the first `count` tokens, n the last of them. */
static void chunk_scale_after(const chunk_scratch *scratch, int64_t count) {
  int64_t padded = scratch->rows.padded;
  for (int64_t i = 0; i < padded; i += GD_WIDTH) {
    vf product = splat(1.0f);
    for (int64_t t = count - 1; t >= 0; t--) {
      int64_t at = t * padded + i;
      store(scratch->update_key, at, GD_CPU_F32, product * load(scratch->rows.key, at, GD_CPU_F32));
      product = product * load(scratch->rows.decay, at, GD_CPU_F32);
    }
    store(scratch->update_total, i, GD_CPU_F32, product);
  }
}

static void chunk_decays_per_key(const chunk_scratch *scratch, int64_t count, int64_t key_dim) {
  for (int64_t j = 0; j < count; j += GD_WIDTH) chunk_dots_per_key(scratch, j, count, key_dim);
  chunk_scale_up_to(scratch, count);
}

/* Rows that the next chunk reads or writes, one for each token: the panels of this one prefetch them. */
typedef struct chunk_wanted {
  const char *row;
  int64_t step, bytes, tokens;
} chunk_wanted;
enum { WANTED_VALUE, WANTED_KEY, WANTED_GATE, WANTED_OUT, WANTED_QUERY, CHUNK_WANTED };

/* The rows that S is multiplied by for a chunk's d and outputs: tokens first .. first + count - 1 of a value head. */
typedef struct chunk_reading {
  const float *key, *query; /* [keyDim, CHUNK]: g k, g q */
  const float *beta, *corrections, *outputs;
  int64_t first, count, head, key_dim, panels;
  chunk_wanted wanted[CHUNK_WANTED];
} chunk_reading;

static chunk_reading chunk_reading_of(
  const gd_cpu_gated_delta *op, const chunk_scratch *scratch, int64_t head, int64_t first, int64_t count
) {
  int64_t key_dim = op->heads.key_dim;
  delta_scratch rows = scratch->rows;
  prepare_gates(&op->gates, head, first, count, key_dim, &rows);
  if (op->gates.gate_dims == GD_CPU_GATE_PER_KEY) chunk_decays_per_key(scratch, count, key_dim);
  else chunk_decays(scratch, count, key_dim);
  return (chunk_reading){
    .key = scratch->key_up_to, .query = scratch->query_up_to, .beta = rows.beta, .corrections = scratch->corrections,
    .outputs = scratch->outputs, .first = first, .count = count, .head = head, .key_dim = key_dim};
}

/* The factors from S to the state after the chunk's first `count` tokens. */
typedef struct chunk_update {
  const float *key;   /* [CHUNK, padded keyDim] */
  const float *after; /* [count]: D(n, j) if a decay is one number, else NULL */
  const float *total; /* [keyDim] */
  int64_t count, key_dim, padded;
} chunk_update;

static chunk_update chunk_update_of(const gd_cpu_gated_delta *op, const chunk_scratch *scratch, int64_t count) {
  int64_t key_dim = op->heads.key_dim, padded = scratch->rows.padded;
  chunk_update update = {scratch->rows.key, NULL, scratch->update_total, count, key_dim, padded};
  if (op->gates.gate_dims == GD_CPU_GATE_PER_KEY) {
    chunk_scale_after(scratch, count);
    update.key = scratch->update_key;
  } else {
    for (int64_t d = 0; d < key_dim; d++) scratch->update_total[d] = scratch->up_to[count - 1];
    update.after = scratch->decays + (count - 1) * CHUNK;
  }
  return update;
}
