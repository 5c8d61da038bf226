/* The recurrence over a block of value rows that stays in the nearest cache while the tokens pass: a pass takes each
 * row through the registers once, and all that a token does to it happens there.
 *
 * Rows that stay in registers for all tokens would save those loads and stores, but those are not the limit: a token
 * of a row would then have to wait for the sum before it, and two rows' worth of work (more do not fit) is shorter
 * than that wait. A block of rows hides it, works for every keyDim and register count, and reads a key once for
 * DELTA_TOGETHER rows.
 *
 * With S the state, per token t:   S <- a_t S + d_t k_t^T;   out_t = S q_t;   d_t+1 = b_t+1 (v_t+1 - S (a_t+1 k_t+1))
 * so one pass updates the state for token t, reads it for token t's output and for token t + 1's correction. A pass
 * `first` only forms d of the first token; the pass of the last token forms none. If a call brings one token, there
 * is one pass, which reads the next rows for their d while it updates some: memory never waits. Row dots sum over
 * GD_LANES partials (sums.h): the same bits in whichever pass d was formed. Keys are rows of GD_LANES multiples with
 * zeros after keyDim. */

enum { DELTA_GROUP = 8 };     /* rows whose dots are summed together; valueDim is a multiple of it */
/* Bytes from a single token's reads to the prefetches into the L1 cache, and from there to those into the L2 cache. */
enum { DELTA_AHEAD = 6144, DELTA_FAR = 16384 };

typedef struct delta_pass {
  const void *source; /* the rows as they are, keyDim elements each */
  const void *next_source; /* the rows read after them */
  void *target;
  int64_t rows; /* a multiple of DELTA_GROUP */
  int64_t key_dim;
  const float *decay;      /* one number, or one for each key dimension */
  const float *key, *query;
  const float *next_key;   /* decayed */
  const float *next_value; /* of these rows */
  float next_beta;
  float *delta; /* of these rows: d_t in, d_t+1 out; of the only token: out */
  float *out;
  int may_stream; /* target is where the rows stay, and nothing here reads them again */
  float *widened; /* [2, DELTA_GROUP, keyDim up to GD_LANES]: of two groups in turn, where a pass keeps rows widened */
} delta_pass;

/* d of a group of rows from its row on. */
GD_INLINE void delta_of(const delta_pass *pass, int64_t row, const row_sum memory[DELTA_GROUP]) {
  float sums[DELTA_GROUP];
  sum_eight(memory, sums);
  GD_UNROLL for (int r = 0; r < DELTA_GROUP; r += GD_EIGHT_WIDTH) {
    ve value = *(const ve_memory *)(pass->next_value + row + r), beta = pass->next_beta - (ve){0};
    *(ve_memory *)(pass->delta + row + r) = beta * (value - *(const ve_memory *)(sums + r));
  }
}

/* Between the parts of a block where it has many: loads of a later part, brought forward by the compiler, would push
 * sums out of the registers. */
#if GD_WIDTH == 4
#define DELTA_KEEP_ORDER __asm__ volatile("" : : : "memory")
#else
#define DELTA_KEEP_ORDER (void)0
#endif

/* d of DELTA_TOGETHER rows: as vectors, or in memory where an instruction takes one number for all lanes from
 * there (AVX-512, whose eight rows need the registers). */
#if GD_WIDTH == 16
typedef const float *row_deltas;
#define DELTA_OF_ROW(deltas, r) splat((deltas)[r])
#else
typedef struct row_deltas {
  vf row[DELTA_TOGETHER];
} row_deltas;
#define DELTA_OF_ROW(deltas, r) (deltas).row[r]
#endif

GD_INLINE row_deltas row_deltas_of(const float *delta) {
#if GD_WIDTH == 16
  return delta;
#else
  row_deltas deltas;
  GD_UNROLL for (int r = 0; r < DELTA_TOGETHER; r++) deltas.row[r] = splat(delta[r]);
  return deltas;
#endif
}

/* The registers of DELTA_TOGETHER rows. */
typedef struct delta_rows {
  vf out[DELTA_TOGETHER][GD_PARTS], memory[DELTA_TOGETHER][GD_PARTS];
} delta_rows;

/* The kind of a pass, known at compile time, in one number: on AArch64 a struct of 16 bytes is not propagated as a constant
 * through arguments, so every load would branch on its dtype. NEXT_*: the d that a pass forms is that of the next token, or
 * that of the next group of rows. */
enum { NEXT_NONE, NEXT_TOKEN, NEXT_ROWS };
typedef uint32_t delta_kind;
#define DELTA_KIND(SOURCE, TARGET, PER_KEY, NEXT) ((SOURCE) | (TARGET) << 4 | (PER_KEY) << 8 | (NEXT) << 12)
/* A pass over the rows of a single token that reads them once: rows widened for their d are kept in f32 for
 * their update, and not widened again. */
#define DELTA_KEEPS(KIND) ((KIND) | 1u << 16)
#define DELTA_WITHOUT_NEXT(KIND) (((KIND) & ~(15u << 12)) | NEXT_NONE << 12)
GD_INLINE uint32_t source_of(delta_kind kind) { return kind & 15; }
GD_INLINE uint32_t target_of(delta_kind kind) { return kind >> 4 & 15; }
GD_INLINE int is_per_key(delta_kind kind) { return kind >> 8 & 15; }
GD_INLINE int next_of(delta_kind kind) { return kind >> 12 & 15; }
GD_INLINE int keeps(delta_kind kind) { return kind >> 16 & 1; }

/* Where a group's first row is kept: the groups take turns. */
GD_INLINE float *widened_rows(const delta_pass *pass, int64_t row, int64_t key_dim) {
  int64_t step = (key_dim + GD_LANES - 1) / GD_LANES * GD_LANES;
  return pass->widened + row / DELTA_GROUP % 2 * DELTA_GROUP * step;
}
GD_INLINE float *widened_part(float *rows, int64_t key_dim, int r, int64_t i, int p) {
  int64_t step = (key_dim + GD_LANES - 1) / GD_LANES * GD_LANES;
  return rows + r * step + i + p * GD_WIDTH;
}

GD_INLINE void first_block(
  const delta_pass *pass, delta_kind kind, delta_rows *rows, const char *source, float *widened, int64_t key_dim,
  int64_t i, int half
) {
  GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
    vf key = load(pass->next_key, i + p * GD_WIDTH, GD_CPU_F32);
    GD_UNROLL for (int r = 0; r < DELTA_TOGETHER; r++) {
      vf s = load_part(source + r * key_dim * dtype_size(source_of(kind)), i, p, source_of(kind), half);
      if (keeps(kind)) store(widened_part(widened, key_dim, r, i, p), 0, GD_CPU_F32, s);
      rows->memory[r][p] = fma_vf(s, key, rows->memory[r][p]);
    }
    DELTA_KEEP_ORDER;
  }
}

GD_INLINE void first_group(const delta_pass *pass, delta_kind kind, int64_t row, int64_t key_dim) {
  row_sum memory[DELTA_GROUP];
  GD_UNROLL for (int base = 0; base < DELTA_GROUP; base += DELTA_TOGETHER) {
    const char *source = (const char *)pass->source + (row + base) * key_dim * dtype_size(source_of(kind));
    float *widened = keeps(kind) ? widened_part(widened_rows(pass, row, key_dim), key_dim, base, 0, 0) : NULL;
    delta_rows rows = {0};
    int64_t i = 0;
    _Pragma("clang loop unroll(disable)")
    for (; i + GD_LANES <= key_dim; i += GD_LANES) {
      first_block(pass, kind, &rows, source, widened, key_dim, i, 0);
    }
    if (i < key_dim) first_block(pass, kind, &rows, source, widened, key_dim, i, 1);
    GD_UNROLL for (int r = 0; r < DELTA_TOGETHER; r++) memory[base + r] = row_sum_of(rows.memory[r]);
  }
  delta_of(pass, row, memory);
}

GD_INLINE void delta_first(const delta_pass *pass, delta_kind kind, int64_t key_dim) {
  for (int64_t row = 0; row < pass->rows; row += DELTA_GROUP) first_group(pass, kind, row, key_dim);
}

/* Part p of row r of the next group: its share of d. source: the row DELTA_GROUP rows before it. widened: where the next
 * group's rows are kept. */
GD_INLINE void next_rows_part(
  delta_rows *rows, const char *source, float *widened, delta_kind kind, vf next_key, int64_t key_dim, int64_t i, int r,
  int p, int half
) {
  int64_t group = DELTA_GROUP * key_dim * dtype_size(source_of(kind));
  vf s = load_part(source + group, i, p, source_of(kind), half);
  if (keeps(kind)) store(widened_part(widened, key_dim, r, i, p), 0, GD_CPU_F32, s);
  rows->memory[r][p] = fma_vf(s, next_key, rows->memory[r][p]);
}

/* Whether rows that follow one another may be asked for by pages (rows.h): a block of them is eight lines. */
#define DELTA_BY_PAGES(KIND) (GD_WIDTH == 16 && source_of(KIND) == GD_CPU_F32 && next_of(KIND) == NEXT_ROWS)

/* Whether rows of a single token are written past the caches, all but the last group's: those that go to other memory than they came from.
 * Their lines would be read only to be overwritten, and the next token reads them when all layers' and sequences' states have gone through
 * the caches. Small heads are left out, whose states may stay there, and processors other than Intel's, where it was not measured. */
#define DELTA_CAN_STREAM(KIND) (GD_WIDTH == 16 && source_of(KIND) == GD_CPU_F32 && target_of(KIND) == GD_CPU_F32 && next_of(KIND) == NEXT_ROWS)
enum { DELTA_STREAMED = 65536 };
GD_INLINE int delta_streams(const delta_pass *pass, int64_t key_dim) {
  return gd_cpu_asks_by_pages && pass->may_stream && pass->target != pass->source && pass->rows * key_dim * 4 >= DELTA_STREAMED && key_dim % GD_LANES == 0 &&
         (uintptr_t)pass->target % 64 == 0;
}

/* Where a group's rows are read and written, the addresses to prefetch, and where rows are kept widened. */
typedef struct delta_places {
  const char *source, *near, *far; /* far: a line of each of FETCH_PAGES pages for as many lines read, where DELTA_BY_PAGES and gd_cpu_asks_by_pages say so */
  char *target;
  float *widened, *next_widened;
  int by_pages, streams;
} delta_places;

/* pass by value: its fields stay in registers although the rows' stores could, for all the compiler knows, change
 * those in memory. head_decay: the decay where it is one number. */
GD_INLINE void update_block(
  const delta_pass pass, delta_kind kind, delta_rows *rows, row_deltas deltas, vf head_decay, delta_places places,
  int64_t key_dim, int64_t i, int half
) {
  const char *source = places.source;
  char *target = places.target;
  int64_t source_step = key_dim * dtype_size(source_of(kind));
  int64_t target_step = key_dim * dtype_size(target_of(kind));
  /* f32: the next rows' loads after the stores of these, not in turn with them (Zen 4: 1.2 times as fast, hot and cold;
   * before the stores: as slow as in turn). */
  const int apart = source_of(kind) == GD_CPU_F32;
  const int together = DELTA_STORES_BF16_TOGETHER && target_of(kind) == GD_CPU_BF16 && !half;
  GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
    int64_t first = i + p * GD_WIDTH;
    vf key = load(pass.key, first, GD_CPU_F32), query = load(pass.query, first, GD_CPU_F32);
    vf next_key = next_of(kind) ? load(pass.next_key, first, GD_CPU_F32) : key;
    vf decay = is_per_key(kind) ? load(pass.decay, first, GD_CPU_F32) : head_decay;
    vf updated[DELTA_TOGETHER];
    GD_UNROLL for (int r = 0; r < DELTA_TOGETHER; r++) {
      vf s = keeps(kind) ? load(widened_part(places.widened, key_dim, r, i, p), 0, GD_CPU_F32)
                         : load_part(source + r * source_step, i, p, source_of(kind), half);
      s = keep_part(fma_vf(DELTA_OF_ROW(deltas, r), key, decay * s), p, half);
      updated[r] = s;
#if GD_WIDTH == 16
      if (DELTA_CAN_STREAM(kind) && !half && places.streams) _mm512_stream_ps((float *)(target + r * target_step) + i, (__m512)s);
      else
#endif
      if (!together) store_part(target + r * target_step, i, p, target_of(kind), half, s);
      rows->out[r][p] = fma_vf(s, query, rows->out[r][p]);
      if (next_of(kind) == NEXT_ROWS && !apart) {
        next_rows_part(rows, source + r * source_step, places.next_widened, kind, next_key, key_dim, i, r, p, half);
      }
      if (next_of(kind) == NEXT_TOKEN) rows->memory[r][p] = fma_vf(s, next_key, rows->memory[r][p]);
    }
    if (together) store_bf16_parts(target, target_step, i, updated);
    GD_UNROLL for (int r = 0; next_of(kind) == NEXT_ROWS && apart && r < DELTA_TOGETHER; r++) {
      next_rows_part(rows, source + r * source_step, places.next_widened, kind, next_key, key_dim, i, r, p, half);
    }
    DELTA_KEEP_ORDER;
  }
  if (next_of(kind) == NEXT_TOKEN) return;
  int64_t each = DELTA_TOGETHER * dtype_size(source_of(kind));
  fetch(places.near + i * each, GD_LANES * each);
  if (DELTA_BY_PAGES(kind) && places.by_pages) {
    fetch_line_of_pages(places.far + i * each / FETCH_PAGES, FETCH_PAGES);
  } else {
    fetch_far(places.far + i * each, GD_LANES * each);
  }
}

/* The address so many bytes after the pass's first row; beyond its rows it continues with those read next. */
GD_INLINE const char *rows_after(const delta_pass *pass, int64_t bytes, int64_t to) {
  return to < bytes ? (const char *)pass->source + to : (const char *)pass->next_source + (to - bytes);
}

/* By itself, the processor fetches too little of rows that are read once. ahead: the bytes from the reads to the
 * fetches. */
GD_INLINE void update_group(const delta_pass pass, delta_kind kind, int64_t row, int64_t ahead, int64_t key_dim, int streams) {
  vf head_decay = splat(pass.decay[0]);
  row_sum out[DELTA_GROUP], memory[DELTA_GROUP];
  GD_UNROLL for (int base = 0; base < DELTA_GROUP; base += DELTA_TOGETHER) {
    delta_rows rows = {0};
    row_deltas deltas = row_deltas_of(pass.delta + row + base);
    int64_t step = key_dim * dtype_size(source_of(kind)), bytes = pass.rows * step, to = (row + base) * step + ahead;
    delta_places places = {
      .source = (const char *)pass.source + (row + base) * step,
      .target = (char *)pass.target + (row + base) * key_dim * dtype_size(target_of(kind)),
      .near = rows_after(&pass, bytes, to), .far = rows_after(&pass, bytes, to + DELTA_FAR), .streams = streams};
    if (DELTA_BY_PAGES(kind) && gd_cpu_asks_by_pages && pass.next_source == (const char *)pass.source + bytes) {
      places.far = pages_after((uintptr_t)places.source, FETCH_PAGES);
      places.by_pages = 1;
    }
    if (keeps(kind)) {
      places.widened = widened_part(widened_rows(&pass, row, key_dim), key_dim, base, 0, 0);
      places.next_widened = widened_part(widened_rows(&pass, row + DELTA_GROUP, key_dim), key_dim, base, 0, 0);
    }
    int64_t i = 0;
    /* Unrolled any further, the loads of later blocks would push the sums out of the registers. */
    _Pragma("clang loop unroll(disable)")
    for (; i + GD_LANES <= key_dim; i += GD_LANES) {
      update_block(pass, kind, &rows, deltas, head_decay, places, key_dim, i, 0);
    }
    if (i < key_dim) update_block(pass, kind, &rows, deltas, head_decay, places, key_dim, i, 1);
    GD_UNROLL for (int r = 0; r < DELTA_TOGETHER; r++) {
      out[base + r] = row_sum_of(rows.out[r]);
      memory[base + r] = row_sum_of(rows.memory[r]);
    }
  }
  sum_eight(out, pass.out + row);
  if (next_of(kind)) delta_of(&pass, next_of(kind) == NEXT_ROWS ? row + DELTA_GROUP : row, memory);
}

GD_INLINE void delta_update(const delta_pass *from, delta_kind kind, int64_t key_dim) {
  const delta_pass pass = *from;
  int64_t row = 0, ahead = DELTA_AHEAD;
  const int streams = DELTA_CAN_STREAM(kind) && delta_streams(from, key_dim);
  if (next_of(kind) == NEXT_ROWS) {
    first_group(&pass, kind, 0, key_dim);
    for (; row + DELTA_GROUP < pass.rows; row += DELTA_GROUP) update_group(pass, kind, row, ahead, key_dim, streams);
    kind = DELTA_WITHOUT_NEXT(kind);
  } else {
    /* These rows are near already. */
    ahead = pass.rows * key_dim * dtype_size(source_of(kind));
  }
  for (; row < pass.rows; row += DELTA_GROUP) update_group(pass, kind, row, ahead, key_dim, streams);
#if GD_WIDTH == 16
  /* Another thread may read the state once it knows that this one has finished. */
  if (streams) _mm_sfence();
#endif
}
