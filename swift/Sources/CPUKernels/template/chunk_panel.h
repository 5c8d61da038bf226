/* A chunk over a panel of the state: PANEL value rows or fewer, held turned as [keyDim, columns] in f32, so that a
 * vector runs over value rows. A panel stays in the nearest cache while a chunk passes over it. */

typedef struct chunk_panel {
  float *state;    /* [keyDim, vectors * GD_WIDTH] */
  float *delta;    /* [CHUNK, PANEL]: d of the chunk's tokens */
  int64_t number, row, left; /* its first value row, and how many there are: a multiple of 8 */
} chunk_panel;

GD_INLINE int panel_vectors(int64_t left) { return left > GD_WIDTH ? 2 : 1; }
GD_INLINE int64_t panel_step(int64_t left) { return panel_vectors(left) * GD_WIDTH; }

/* Rows t .. t + CHUNK_ROWS - 1 of a tensor's tokens from `first` on; beyond the count they repeat its last one. */
GD_INLINE void tile_read_as(
  chunk_tile *tile, int vectors, const gd_cpu_tensor *tensor, uint32_t dtype, const chunk_reading *reading,
  const chunk_panel *panel, int64_t t
) {
  GD_UNROLL for (int r = 0; r < CHUNK_ROWS; r++) {
    const void *row = element(tensor, reading->first + least(t + r, reading->count - 1), reading->head, panel->row);
    GD_UNROLL for (int v = 0; v < vectors; v++) {
      tile->x[r][v] = load_part(row, v * GD_WIDTH, 0, dtype, panel->left - v * GD_WIDTH < GD_WIDTH);
    }
  }
}

GD_INLINE void tile_write_as(
  const chunk_tile *tile, int vectors, const gd_cpu_tensor *tensor, uint32_t dtype, const chunk_reading *reading,
  const chunk_panel *panel, int64_t t
) {
  GD_UNROLL for (int r = 0; r < CHUNK_ROWS; r++) {
    if (t + r >= reading->count) break;
    void *row = element(tensor, reading->first + t + r, reading->head, panel->row);
    GD_UNROLL for (int v = 0; v < vectors; v++) {
      store_part(row, v * GD_WIDTH, 0, dtype, panel->left - v * GD_WIDTH < GD_WIDTH, tile->x[r][v]);
    }
  }
}

/* Prefetches a part of the next chunk into the L2 cache, since L1 is full: of panel p, rows t .. t + CHUNK_ROWS - 1 of
 * matrices first .. last. */
GD_INLINE void chunk_fetch(const chunk_reading *reading, int64_t p, int64_t t, int first, int last) {
  for (int w = first; w <= last; w++) {
    const chunk_wanted *wanted = &reading->wanted[w];
    int64_t begin = wanted->bytes * p / reading->panels, end = wanted->bytes * (p + 1) / reading->panels;
    for (int64_t r = t; r < least(t + CHUNK_ROWS, wanted->tokens); r++) {
      for (int64_t at = begin; at < end; at += 64) __builtin_prefetch(wanted->row + r * wanted->step + at, 0, 2);
    }
  }
}

/* S times the rows, then the sum over the chunk's tokens before t. */
GD_INLINE chunk_tile tile_of_rows(
  const chunk_reading *reading, const chunk_panel *panel, int vectors, const float *rows, const float *square, int64_t t
) {
  chunk_tile tile = {0};
  tile_products(&tile, vectors, rows + t, CHUNK, 1, panel->state, vectors * GD_WIDTH, reading->key_dim);
  tile_products(&tile, vectors, square + t * CHUNK, 1, CHUNK, panel->delta, PANEL, t);
  return tile;
}

/* d and out of the chunk's tokens. */
GD_INLINE void panel_read_tokens_as(
  const gd_cpu_gated_delta *op, const chunk_reading *reading, const chunk_panel *panel, int vectors
) {
  for (int64_t t = 0; t < reading->count; t += CHUNK_ROWS) {
    chunk_fetch(reading, panel->number, t, WANTED_VALUE, WANTED_GATE);
    chunk_tile sums = tile_of_rows(reading, panel, vectors, reading->key, reading->corrections, t), values;
    const gd_cpu_tensor *value = &op->value;
    if (value->dtype == GD_CPU_F32) tile_read_as(&values, vectors, value, GD_CPU_F32, reading, panel, t);
    else if (value->dtype == GD_CPU_F16) tile_read_as(&values, vectors, value, GD_CPU_F16, reading, panel, t);
    else tile_read_as(&values, vectors, value, GD_CPU_BF16, reading, panel, t);
    GD_UNROLL for (int r = 0; r < CHUNK_ROWS; r++) {
      vf beta = splat(reading->beta[t + r]), delta[CHUNK_VECTORS];
      GD_UNROLL for (int v = 0; v < vectors; v++) {
        delta[v] = beta * (values.x[r][v] - sums.x[r][v]);
        store(panel->delta, (t + r) * PANEL + v * GD_WIDTH, GD_CPU_F32, delta[v]);
      }
      GD_UNROLL for (int s = r + 1; s < CHUNK_ROWS; s++) {
        vf a = splat(reading->corrections[(t + s) * CHUNK + t + r]);
        GD_UNROLL for (int v = 0; v < vectors; v++) sums.x[s][v] = fma_vf(a, delta[v], sums.x[s][v]);
      }
    }
  }
  for (int64_t t = 0; t < reading->count; t += CHUNK_ROWS) {
    chunk_fetch(reading, panel->number, t, WANTED_OUT, WANTED_QUERY);
    chunk_tile sums = tile_of_rows(reading, panel, vectors, reading->query, reading->outputs, t);
    GD_UNROLL for (int r = 0; r < CHUNK_ROWS; r++) {
      GD_UNROLL for (int s = r; s < CHUNK_ROWS; s++) {
        vf p = splat(reading->outputs[(t + s) * CHUNK + t + r]);
        GD_UNROLL for (int v = 0; v < vectors; v++) {
          vf delta = load(panel->delta, (t + r) * PANEL + v * GD_WIDTH, GD_CPU_F32);
          sums.x[s][v] = fma_vf(p, delta, sums.x[s][v]);
        }
      }
    }
    const gd_cpu_tensor *out = &op->out;
    if (out->dtype == GD_CPU_F32) tile_write_as(&sums, vectors, out, GD_CPU_F32, reading, panel, t);
    else if (out->dtype == GD_CPU_F16) tile_write_as(&sums, vectors, out, GD_CPU_F16, reading, panel, t);
    else tile_write_as(&sums, vectors, out, GD_CPU_BF16, reading, panel, t);
  }
}

static void panel_read_tokens(const gd_cpu_gated_delta *op, const chunk_reading *reading, const chunk_panel *panel) {
  if (panel_vectors(panel->left) == 2) panel_read_tokens_as(op, reading, panel, 2);
  else panel_read_tokens_as(op, reading, panel, 1);
}

/* to = the state that an update leads to; it may be the panel's own. scaled: [CHUNK, PANEL] of scratch. */
GD_INLINE void panel_update_as(
  const chunk_update *update, const chunk_panel *panel, int vectors, float *scaled, float *to
) {
  int64_t step = vectors * GD_WIDTH;
  const float *delta = panel->delta;
  if (update->after != NULL) {
    for (int64_t t = 0; t < update->count; t++) {
      GD_UNROLL for (int v = 0; v < vectors; v++) {
        int64_t at = t * PANEL + v * GD_WIDTH;
        store(scaled, at, GD_CPU_F32, splat(update->after[t]) * load(delta, at, GD_CPU_F32));
      }
    }
    delta = scaled;
  }
  for (int64_t d = 0; d < update->key_dim; d += CHUNK_ROWS) {
    chunk_tile tile;
    GD_UNROLL for (int r = 0; r < CHUNK_ROWS; r++) {
      GD_UNROLL for (int v = 0; v < vectors; v++) {
        tile.x[r][v] = load(panel->state, (d + r) * step + v * GD_WIDTH, GD_CPU_F32);
      }
    }
    tile_scale(&tile, vectors, update->total + d);
    tile_products(&tile, vectors, update->key + d, update->padded, 1, delta, PANEL, update->count);
    tile_store(&tile, vectors, to + d * step, step);
  }
}

static void panel_update(const chunk_update *update, const chunk_panel *panel, float *scaled, float *to) {
  if (panel_vectors(panel->left) == 2) panel_update_as(update, panel, 2, scaled, to);
  else panel_update_as(update, panel, 1, scaled, to);
}
