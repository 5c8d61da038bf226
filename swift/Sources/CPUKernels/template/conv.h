/* Causal depthwise convolution of one block of channels of one sequence; vectors run over channels.
 *
 *   out[t, c] = act(bias[c] + sum over j of weight[c, j] x[t - K + 1 + j, c]),   j ascending, one fma each
 *
 * Columns before the sequence come from its state. Weight and state are [channels, taps] in memory; a block's are
 * turned to [taps, channels] in scratch, where columns of x become f32 as the tokens pass. */

typedef struct conv_block {
  int64_t first, count, width; /* channels first .. first + count - 1, at most GD_CPU_CONV_BLOCK */
  uint32_t activation;
  float *weight;                      /* [K, GD_CPU_CONV_BLOCK] */
  float *bias;                        /* [GD_CPU_CONV_BLOCK] */
  float *turned;                      /* [K * GD_CPU_CONV_BLOCK], one side of a turn */
  float *columns[GD_CPU_MAX_WIDTH];   /* oldest first; the last is free between tokens */
} conv_block;

static conv_block conv_block_make(char **memory) {
  conv_block block = {0};
  block.weight = scratch_take(memory, GD_CPU_MAX_WIDTH * GD_CPU_CONV_BLOCK);
  block.bias = scratch_take(memory, GD_CPU_CONV_BLOCK);
  block.turned = scratch_take(memory, GD_CPU_MAX_WIDTH * GD_CPU_CONV_BLOCK);
  for (int j = 0; j < GD_CPU_MAX_WIDTH; j++) block.columns[j] = scratch_take(memory, GD_CPU_CONV_BLOCK);
  return block;
}

/* columns[j][c] = rows[c, j], and back. Models have width 4: its loops are in the form that the compiler turns into
 * shuffles. */
static void split_three(
  const float *restrict rows, float *restrict a, float *restrict b, float *restrict c, int64_t count
) {
  for (int64_t i = 0; i < count; i++) a[i] = rows[3 * i], b[i] = rows[3 * i + 1], c[i] = rows[3 * i + 2];
}
static void join_three(
  float *restrict rows, const float *restrict a, const float *restrict b, const float *restrict c, int64_t count
) {
  for (int64_t i = 0; i < count; i++) rows[3 * i] = a[i], rows[3 * i + 1] = b[i], rows[3 * i + 2] = c[i];
}
static void split_four(
  const float *restrict rows, float *restrict a, float *restrict b, float *restrict c, float *restrict d, int64_t count
) {
  for (int64_t i = 0; i < count; i++) {
    a[i] = rows[4 * i], b[i] = rows[4 * i + 1], c[i] = rows[4 * i + 2], d[i] = rows[4 * i + 3];
  }
}

static void taps_in(const float *rows, float *const columns[], int64_t taps, int64_t count) {
  if (taps == 4) return split_four(rows, columns[0], columns[1], columns[2], columns[3], count);
  if (taps == 3) return split_three(rows, columns[0], columns[1], columns[2], count);
  for (int64_t j = 0; j < taps; j++) {
    for (int64_t c = 0; c < count; c++) columns[j][c] = rows[c * taps + j];
  }
}

static void taps_out(float *rows, float *const columns[], int64_t taps, int64_t count) {
  if (taps == 3) return join_three(rows, columns[0], columns[1], columns[2], count);
  for (int64_t j = 0; j < taps; j++) {
    for (int64_t c = 0; c < count; c++) rows[c * taps + j] = columns[j][c];
  }
}

/* The block's channels of a state, as columns. state may be NULL: it starts from zero. */
static void conv_read(conv_block *block, const void *state, uint32_t state_dtype) {
  int64_t taps = block->width - 1, count = block->count;
  if (state == NULL) {
    for (int64_t j = 0; j < taps; j++) __builtin_memset(block->columns[j], 0, (size_t)count * sizeof(float));
  } else {
    taps_in(
      as_floats(state, block->first * taps, state_dtype, count * taps, block->turned), block->columns, taps, count);
  }
}

/* Weight, bias and state of the block's channels. bias.data may be NULL. */
static void conv_begin(
  conv_block *block, const gd_cpu_tensor *weight, const gd_cpu_tensor *bias, const void *state, uint32_t state_dtype
) {
  int64_t width = block->width, count = block->count;
  float *weights[GD_CPU_MAX_WIDTH];
  for (int64_t j = 0; j < width; j++) weights[j] = block->weight + j * GD_CPU_CONV_BLOCK;
  taps_in(
    as_floats(weight->data, block->first * width, weight->dtype, count * width, block->turned), weights, width, count);
  if (bias->data != NULL) convert(bias->data, block->first, bias->dtype, block->bias, 0, GD_CPU_F32, count);
  else __builtin_memset(block->bias, 0, (size_t)count * sizeof(float));
  conv_read(block, state, state_dtype);
}

GD_INLINE vf conv_vector(const conv_block *block, int64_t width, int64_t c) {
  vf sum = load(block->bias, c, GD_CPU_F32);
  for (int64_t j = 0; j < width; j++) {
    vf weight = load(block->weight + j * GD_CPU_CONV_BLOCK, c, GD_CPU_F32);
    sum = fma_vf(weight, load(block->columns[j], c, GD_CPU_F32), sum);
  }
  return block->activation == GD_CPU_ACTIVATION_SILU ? silu_vf(sum) : sum;
}

GD_INLINE void conv_row(const conv_block *block, int64_t width, void *out, int64_t at, uint32_t dtype) {
  int64_t c = 0;
  for (; c + GD_WIDTH <= block->count; c += GD_WIDTH) store(out, at + c, dtype, conv_vector(block, width, c));
  if (c < block->count) store_first(out, at + c, dtype, block->count - c, conv_vector(block, width, c));
}

/* The column that was taken in last becomes the newest of the state; the oldest one's place becomes free. */
GD_INLINE void conv_shift(conv_block *block) {
  float *oldest = block->columns[0];
  for (int64_t j = 0; j + 1 < block->width; j++) block->columns[j] = block->columns[j + 1];
  block->columns[block->width - 1] = oldest;
}

/* One token: x and out hold the block's channels from elements x_at and out_at on. */
static void conv_token(
  conv_block *block, const void *x, int64_t x_at, uint32_t x_dtype, void *out, int64_t out_at, uint32_t out_dtype
) {
  int64_t width = block->width;
  convert(x, x_at, x_dtype, block->columns[width - 1], 0, GD_CPU_F32, block->count);
  if (out_dtype == GD_CPU_F32 && width == 4) conv_row(block, 4, out, out_at, GD_CPU_F32);
  else if (out_dtype == GD_CPU_BF16 && width == 4) conv_row(block, 4, out, out_at, GD_CPU_BF16);
  else conv_row(block, width, out, out_at, out_dtype);
  conv_shift(block);
}

/* Rows of x and out, a token each, from the block's first channel on. */
typedef struct conv_rows {
  const void *x;
  void *out;
  int64_t x_step, out_step; /* in bytes */
  int64_t ahead;            /* tokens from these to the prefetched ones; 0: none are */
  uint32_t x_dtype, out_dtype;
} conv_rows;

/* The number of tokens that a vector of channels goes through at once. If tokens are a power of two apart, their rows
 * share a set of the nearest cache: so there are no more than a set has room for, and all are read before one is written. */
enum { CONV_TOKENS = 4 };

/* CONV_TOKENS tokens of GD_WIDTH channels from c on, of a convolution of four taps. */
GD_INLINE void conv_four_taps(
  const conv_block *block, const conv_rows *rows, uint32_t x_dtype, uint32_t out_dtype, int64_t c
) {
  vf bias = load(block->bias, c, GD_CPU_F32), weight[4], tap[3 + CONV_TOKENS];
  GD_UNROLL for (int j = 0; j < 4; j++) weight[j] = load(block->weight + j * GD_CPU_CONV_BLOCK, c, GD_CPU_F32);
  GD_UNROLL for (int j = 0; j < 3; j++) tap[j] = load(block->columns[j], c, GD_CPU_F32);
  GD_UNROLL for (int t = 0; t < CONV_TOKENS; t++) {
    const char *x = (const char *)rows->x + t * rows->x_step;
    __builtin_prefetch(x + rows->ahead * rows->x_step + c * dtype_size(x_dtype), 0, 2);
    tap[3 + t] = load(x, c, x_dtype);
  }
  GD_UNROLL for (int t = 0; t < CONV_TOKENS; t++) {
    char *out = (char *)rows->out + t * rows->out_step;
    __builtin_prefetch(out + rows->ahead * rows->out_step + c * dtype_size(out_dtype), 0, 2);
    vf sum = bias;
    GD_UNROLL for (int j = 0; j < 4; j++) sum = fma_vf(weight[j], tap[t + j], sum);
    store(out, c, out_dtype, block->activation == GD_CPU_ACTIVATION_SILU ? silu_vf(sum) : sum);
  }
  GD_UNROLL for (int j = 0; j < 3; j++) store(block->columns[j], c, GD_CPU_F32, tap[CONV_TOKENS + j]);
}

/* `count` tokens of the whole block. A token's channels do not depend on the number of tokens. */
static void conv_tokens(conv_block *block, const conv_rows *rows, int64_t count) {
#define GD_CASE(X, OUT)                                                                                 \
  if (rows->x_dtype == X && rows->out_dtype == OUT) {                                                   \
    for (int64_t c = 0; c < block->count; c += GD_WIDTH) conv_four_taps(block, rows, X, OUT, c);        \
    return;                                                                                             \
  }
  if (block->width == 4 && block->count % GD_WIDTH == 0 && count == CONV_TOKENS) {
    GD_CASE(GD_CPU_F32, GD_CPU_F32)
    GD_CASE(GD_CPU_BF16, GD_CPU_BF16)
    GD_CASE(GD_CPU_F16, GD_CPU_F16)
    GD_CASE(GD_CPU_BF16, GD_CPU_F32)
    GD_CASE(GD_CPU_F16, GD_CPU_F32)
  }
#undef GD_CASE
  for (int64_t t = 0; t < count; t++) {
    conv_token(
      block, (const char *)rows->x + t * rows->x_step, 0, rows->x_dtype, (char *)rows->out + t * rows->out_step, 0,
      rows->out_dtype);
  }
}

/* The last K - 1 columns become the state, or another one along the way. */
static void conv_end(conv_block *block, void *state, uint32_t state_dtype) {
  int64_t taps = block->width - 1, at = block->first * taps, count = block->count * taps;
  if (state == NULL) return;
  if (state_dtype == GD_CPU_F32) {
    taps_out((float *)state + at, block->columns, taps, block->count);
  } else {
    taps_out(block->turned, block->columns, taps, block->count);
    convert(block->turned, 0, GD_CPU_F32, state, at, state_dtype, count);
  }
}
