/* The recurrence over a block of value rows that stays in the nearest cache while the tokens pass: a pass takes each
 * row through the registers once, and all that a token does to it happens there.
 *
 * Rows that stay in registers for all tokens would save those loads and stores, but they are not what limits: a token
 * of a row would then have to wait for the sum before it, and two rows' worth of work (more do not fit) is shorter
 * than that wait. A block of rows hides it, works for every keyDim and register count, and reads a key once for
 * DELTA_TOGETHER rows.
 *
 * With S the state, per token t:   S <- a_t S + d_t k_t^T;   out_t = S q_t;   d_t+1 = b_t+1 (v_t+1 - S (a_t+1 k_t+1))
 * so one pass updates the state for token t, reads it for token t's output and for token t + 1's correction. A pass
 * `first` only forms d of the first token; the pass of the last token forms none. Row dots sum over GD_LANES partials
 * (rows.h): the same bits whether d came from `first` or from the pass before it. Keys are rows of GD_LANES multiples
 * with zeros after keyDim. */

enum { DELTA_GROUP = 4 };  /* rows whose dots are summed together */
enum { DELTA_BLOCK = 16 }; /* rows that stay in the cache together */

typedef struct delta_pass {
  const void *source; /* the rows as they are; stride 0 repeats one row of zeros */
  void *target;
  int64_t source_stride, target_stride; /* elements */
  int64_t rows;                         /* a multiple of DELTA_GROUP */
  int64_t key_dim;
  const float *decay;      /* one number, or one for each key dimension */
  const float *key, *query;
  const float *next_key;   /* decayed */
  const float *next_value; /* of these rows */
  float next_beta;
  float *delta; /* of these rows: d_t in, d_t+1 out */
  float *out;
} delta_pass;

/* Rows whose partial sums fit the registers beside what they are made of. */
#if GD_WIDTH == 16
#define DELTA_TOGETHER 4
#elif defined(__aarch64__) || GD_WIDTH == 8
#define DELTA_TOGETHER 2
#else
#define DELTA_TOGETHER 1
#endif

#if GD_WIDTH == 16
GD_INLINE vf load_eight(const void *array, int64_t i, uint32_t dtype) {
  vf x = {0};
  vh h = {0};
  if (dtype == GD_CPU_F32) {
    __builtin_memcpy(&x, (const float *)array + i, 32);
    return x;
  }
  __builtin_memcpy(&h, (const uint16_t *)array + i, 16);
  return dtype == GD_CPU_F16 ? f16_to_vf(h) : bf16_to_vf(h);
}

GD_INLINE void store_eight(void *array, int64_t i, uint32_t dtype, vf x) {
  if (dtype == GD_CPU_F32) {
    __builtin_memcpy((float *)array + i, &x, 32);
  } else {
    vh h = dtype == GD_CPU_F16 ? vf_to_f16(x) : vf_to_bf16(x);
    __builtin_memcpy((uint16_t *)array + i, &h, 16);
  }
}
#endif

/* Elements i + part * GD_WIDTH ... of a row. half: the last block of a row where keyDim is an odd multiple of 8 has 8
 * elements, and zeros after them. */
GD_INLINE vf load_part(const void *row, int64_t i, int part, uint32_t dtype, int half) {
#if GD_WIDTH == 16
  (void)part;
  return half ? load_eight(row, i, dtype) : load(row, i, dtype);
#else
  return half && part * GD_WIDTH >= 8 ? splat(0.0f) : load(row, i + part * GD_WIDTH, dtype);
#endif
}

GD_INLINE void store_part(void *row, int64_t i, int part, uint32_t dtype, int half, vf x) {
#if GD_WIDTH == 16
  (void)part;
  if (half) store_eight(row, i, dtype, x);
  else store(row, i, dtype, x);
#else
  if (!half || part * GD_WIDTH < 8) store(row, i + part * GD_WIDTH, dtype, x);
#endif
}

/* Zeros after keyDim, where an infinite d times the key's padding would put NaN. */
GD_INLINE vf keep_part(vf x, int part, int half) {
  if (!half) return x;
#if GD_WIDTH == 16
  (void)part;
  return __builtin_shufflevector(x, splat(0.0f), 0, 1, 2, 3, 4, 5, 6, 7, 24, 25, 26, 27, 28, 29, 30, 31);
#else
  return part * GD_WIDTH < 8 ? x : splat(0.0f);
#endif
}

GD_INLINE void delta_of(const delta_pass *pass, int64_t row, v4 memory) {
  v4 value = (v4) * (const v4_memory *)(pass->next_value + row);
  v4 beta = {pass->next_beta, pass->next_beta, pass->next_beta, pass->next_beta};
  *(v4_memory *)(pass->delta + row) = beta * (value - memory);
}

/* Between the parts of a block where it has many: loads of a later part, brought forward by the compiler, would push
 * sums out of the registers. */
#if GD_WIDTH == 4
#define DELTA_KEEP_ORDER __asm__ volatile("" : : : "memory")
#else
#define DELTA_KEEP_ORDER (void)0
#endif

/* What DELTA_TOGETHER rows keep in registers. */
typedef struct delta_rows {
  vf out[DELTA_TOGETHER][GD_PARTS], memory[DELTA_TOGETHER][GD_PARTS], delta[DELTA_TOGETHER];
} delta_rows;

GD_INLINE void first_block(
  const delta_pass *pass, delta_rows *rows, const char *source, int64_t step, uint32_t dtype, int64_t i, int half
) {
  GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
    vf key = load(pass->next_key, i + p * GD_WIDTH, GD_CPU_F32);
    GD_UNROLL for (int r = 0; r < DELTA_TOGETHER; r++) {
      rows->memory[r][p] = fma_vf(load_part(source + r * step, i, p, dtype, half), key, rows->memory[r][p]);
    }
    DELTA_KEEP_ORDER;
  }
}

GD_INLINE void delta_first(const delta_pass *pass, uint32_t source_dtype, int64_t key_dim) {
  int64_t step = pass->source_stride * dtype_size(source_dtype);
  for (int64_t row = 0; row < pass->rows; row += DELTA_GROUP) {
    v4 memory[DELTA_GROUP];
    GD_UNROLL for (int base = 0; base < DELTA_GROUP; base += DELTA_TOGETHER) {
      delta_rows rows = {0};
      const char *source = (const char *)pass->source + (row + base) * step;
      int64_t i = 0;
      for (; i + GD_LANES <= key_dim; i += GD_LANES) first_block(pass, &rows, source, step, source_dtype, i, 0);
      if (i < key_dim) first_block(pass, &rows, source, step, source_dtype, i, 1);
      GD_UNROLL for (int r = 0; r < DELTA_TOGETHER; r++) memory[base + r] = fold(rows.memory[r]);
    }
    delta_of(pass, row, sum_four(memory[0], memory[1], memory[2], memory[3]));
  }
}

/* What a pass is, known when it is compiled. */
typedef struct delta_kind {
  uint32_t source_dtype, target_dtype;
  int per_key, next;
} delta_kind;

/* pass by value: its fields stay in registers although the rows' stores could, for all the compiler knows, change
 * those in memory. head_decay is the decay where it is one number. */
GD_INLINE void update_block(
  const delta_pass pass, delta_kind kind, delta_rows *rows, vf head_decay, const char *source, char *target, int64_t i,
  int half
) {
  int64_t source_step = pass.source_stride * dtype_size(kind.source_dtype);
  int64_t target_step = pass.target_stride * dtype_size(kind.target_dtype);
  GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
    int64_t at = i + p * GD_WIDTH;
    vf key = load(pass.key, at, GD_CPU_F32), query = load(pass.query, at, GD_CPU_F32);
    vf next_key = kind.next ? load(pass.next_key, at, GD_CPU_F32) : key;
    vf decay = kind.per_key ? load(pass.decay, at, GD_CPU_F32) : head_decay;
    GD_UNROLL for (int r = 0; r < DELTA_TOGETHER; r++) {
      vf s = load_part(source + r * source_step, i, p, kind.source_dtype, half);
      s = keep_part(fma_vf(rows->delta[r], key, decay * s), p, half);
      store_part(target + r * target_step, i, p, kind.target_dtype, half, s);
      rows->out[r][p] = fma_vf(s, query, rows->out[r][p]);
      if (kind.next) rows->memory[r][p] = fma_vf(s, next_key, rows->memory[r][p]);
    }
    DELTA_KEEP_ORDER;
  }
  /* While a last pass is busy with these rows, those of the next block come nearer. */
  GD_UNROLL for (int r = 0; r < DELTA_TOGETHER && !kind.next; r++) {
    __builtin_prefetch(source + (r + DELTA_BLOCK) * source_step + i * dtype_size(kind.source_dtype), 1);
  }
}

GD_INLINE void delta_update(const delta_pass *from, delta_kind kind, int64_t key_dim) {
  const delta_pass pass = *from;
  vf head_decay = splat(pass.decay[0]);
  for (int64_t row = 0; row < pass.rows; row += DELTA_GROUP) {
    v4 out[DELTA_GROUP], memory[DELTA_GROUP];
    GD_UNROLL for (int base = 0; base < DELTA_GROUP; base += DELTA_TOGETHER) {
      delta_rows rows = {0};
      GD_UNROLL for (int r = 0; r < DELTA_TOGETHER; r++) rows.delta[r] = splat(pass.delta[row + base + r]);
      int64_t at = row + base;
      const char *source = (const char *)pass.source + at * pass.source_stride * dtype_size(kind.source_dtype);
      char *target = (char *)pass.target + at * pass.target_stride * dtype_size(kind.target_dtype);
      int64_t i = 0;
      /* Unrolled any further, the loads of later blocks would push the sums out of the registers. */
      _Pragma("clang loop unroll(disable)")
      for (; i + GD_LANES <= key_dim; i += GD_LANES) {
        update_block(pass, kind, &rows, head_decay, source, target, i, 0);
      }
      if (i < key_dim) update_block(pass, kind, &rows, head_decay, source, target, i, 1);
      GD_UNROLL for (int r = 0; r < DELTA_TOGETHER; r++) {
        out[base + r] = fold(rows.out[r]);
        memory[base + r] = fold(rows.memory[r]);
      }
    }
    *(v4_memory *)(pass.out + row) = sum_four(out[0], out[1], out[2], out[3]);
    if (kind.next) delta_of(&pass, row, sum_four(memory[0], memory[1], memory[2], memory[3]));
  }
}

/* Every combination that occurs, the common row length as a constant. Between tokens a block is f32, so that a 16-bit
 * target belongs to a last token, and a pass that forms the next d has an f32 target. */
typedef void delta_function(const delta_pass *pass);

#define DELTA_FIRST(NAME, SOURCE)                                   \
  static void NAME(const delta_pass *pass) {                        \
    if (pass->key_dim == 128) delta_first(pass, SOURCE, 128);       \
    else delta_first(pass, SOURCE, pass->key_dim);                  \
  }
#define DELTA_UPDATE(NAME, ...)                                                  \
  static void NAME(const delta_pass *pass) {                                     \
    if (pass->key_dim == 128) delta_update(pass, (delta_kind){__VA_ARGS__}, 128); \
    else delta_update(pass, (delta_kind){__VA_ARGS__}, pass->key_dim);           \
  }
#define DELTA_UPDATE_GATES(NAME, SOURCE, TARGET, NEXT)    \
  DELTA_UPDATE(NAME##_per_head, SOURCE, TARGET, 0, NEXT)  \
  DELTA_UPDATE(NAME##_per_key, SOURCE, TARGET, 1, NEXT)

DELTA_FIRST(first_f32, GD_CPU_F32)
DELTA_FIRST(first_f16, GD_CPU_F16)
DELTA_FIRST(first_bf16, GD_CPU_BF16)
DELTA_UPDATE_GATES(next_f32, GD_CPU_F32, GD_CPU_F32, 1)
DELTA_UPDATE_GATES(next_f16, GD_CPU_F16, GD_CPU_F32, 1)
DELTA_UPDATE_GATES(next_bf16, GD_CPU_BF16, GD_CPU_F32, 1)
DELTA_UPDATE_GATES(last_f32_f32, GD_CPU_F32, GD_CPU_F32, 0)
DELTA_UPDATE_GATES(last_f32_f16, GD_CPU_F32, GD_CPU_F16, 0)
DELTA_UPDATE_GATES(last_f32_bf16, GD_CPU_F32, GD_CPU_BF16, 0)
DELTA_UPDATE_GATES(last_f16_f32, GD_CPU_F16, GD_CPU_F32, 0)
DELTA_UPDATE_GATES(last_f16_f16, GD_CPU_F16, GD_CPU_F16, 0)
DELTA_UPDATE_GATES(last_bf16_f32, GD_CPU_BF16, GD_CPU_F32, 0)
DELTA_UPDATE_GATES(last_bf16_bf16, GD_CPU_BF16, GD_CPU_BF16, 0)

/* Indexed by gate dims (0 per head, 1 per key) and dtype - 1. The slots of one pool share their dtype, so nothing
 * leads from f16 to bf16. */
static delta_function *const first_pass[3] = {first_f32, first_f16, first_bf16};
static delta_function *const next_pass[2][3] = {
  {next_f32_per_head, next_f16_per_head, next_bf16_per_head},
  {next_f32_per_key, next_f16_per_key, next_bf16_per_key},
};
static delta_function *const last_pass[2][3][3] = {
  {{last_f32_f32_per_head, last_f32_f16_per_head, last_f32_bf16_per_head},
   {last_f16_f32_per_head, last_f16_f16_per_head, NULL},
   {last_bf16_f32_per_head, NULL, last_bf16_bf16_per_head}},
  {{last_f32_f32_per_key, last_f32_f16_per_key, last_f32_bf16_per_key},
   {last_f16_f32_per_key, last_f16_f16_per_key, NULL},
   {last_bf16_f32_per_key, NULL, last_bf16_bf16_per_key}},
};
