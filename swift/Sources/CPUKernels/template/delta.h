/* The inputs of the gated delta rule for a token, in the form that its passes read: k and q normalised (and q scaled),
 * decay, beta, decayed key and value, all f32 in scratch, for some tokens of one head at a time. */

enum { DELTA_TOKENS = 32 }; /* tokens prepared together */

typedef struct delta_scratch {
  float *key, *query, *decayed_key; /* [DELTA_TOKENS, padded keyDim] */
  float *decay;                     /* [DELTA_TOKENS, 1 or padded keyDim] */
  float *beta;                      /* [DELTA_TOKENS] */
  float *value, *out;               /* [DELTA_TOKENS, valueDim] */
  float *delta;                     /* [valueDim] */
  float *widened;                   /* [2, DELTA_GROUP, padded keyDim] */
  float *state;                     /* [valueDim, keyDim], if the state's own slot cannot hold it in f32 */
  int64_t padded;
} delta_scratch;

static delta_scratch delta_scratch_make(char **memory, int64_t key_dim) {
  delta_scratch scratch;
  scratch.key = scratch_take(memory, DELTA_TOKENS * GD_CPU_MAX_DIM);
  scratch.query = scratch_take(memory, DELTA_TOKENS * GD_CPU_MAX_DIM);
  scratch.decayed_key = scratch_take(memory, DELTA_TOKENS * GD_CPU_MAX_DIM);
  scratch.decay = scratch_take(memory, DELTA_TOKENS * GD_CPU_MAX_DIM);
  scratch.beta = scratch_take(memory, DELTA_TOKENS);
  scratch.value = scratch_take(memory, DELTA_TOKENS * GD_CPU_MAX_DIM);
  scratch.out = scratch_take(memory, DELTA_TOKENS * GD_CPU_MAX_DIM);
  scratch.delta = scratch_take(memory, GD_CPU_MAX_DIM);
  scratch.widened = scratch_take(memory, 2 * DELTA_GROUP * GD_CPU_MAX_DIM);
  scratch.state = scratch_take(memory, GD_CPU_MAX_DIM * GD_CPU_MAX_DIM);
  scratch.padded = (key_dim + GD_LANES - 1) / GD_LANES * GD_LANES;
  return scratch;
}

/* The same scratch, with key, query and decayed key beginning at row key_row. */
GD_INLINE delta_scratch delta_scratch_from(delta_scratch scratch, int64_t key_row) {
  int64_t at = key_row * scratch.padded;
  scratch.key += at, scratch.query += at, scratch.decayed_key += at;
  return scratch;
}

/* row *= factor, zeros up to padded. All elements share the factor, so the error of its rounding would not average out:
 * it is taken in two parts. A lower part of 0 is left out, since an infinite x times 0 would be NaN. */
GD_INLINE void scale_row(float *row, double factor, int64_t dim, int64_t padded) {
  float high = (float)factor, low = (float)(factor - high);
  for (int64_t i = dim; i < padded; i++) row[i] = 0.0f;
  for (int64_t i = 0; i < padded; i += GD_WIDTH) {
    vf x = load(row, i, GD_CPU_F32), scaled = x * splat(high);
    store(row, i, GD_CPU_F32, low == 0.0f ? scaled : fma_vf(x, splat(high), x * splat(low)));
  }
}

/* k and q of a row in the form that the recurrence takes: key and query hold them as they came. */
GD_INLINE void prepare_key(const gd_cpu_heads *heads, float *key, float *query, int64_t padded) {
  int64_t dim = heads->key_dim;
  scale_row(key, row_factor(key, dim, heads->qk_norm, heads->qk_norm_eps, 1.0f), dim, padded);
  scale_row(query, row_factor(query, dim, heads->qk_norm, heads->qk_norm_eps, heads->scale), dim, padded);
}

/* The decay from `gate`: one formula for every form. a_log: that of the head, or its exponential if the form
 * takes that. */
GD_INLINE vf decay_of(const gd_cpu_gates *gates, vf gate, vf bias, vf a) {
  switch (gates->gate_form) {
    case GD_CPU_GATE_DECAY: return gate;
    case GD_CPU_GATE_LOG: return exp_vf(gate);
    case GD_CPU_GATE_NEG_LOG: return exp_vf(-gate);
    case GD_CPU_GATE_RAW: return exp_vf(-(a * softplus_vf(gate + bias)));
    case GD_CPU_GATE_RAW_SSM: return exp_vf(a * softplus_vf(gate + bias));
    default: return exp_vf(splat(gates->bound) * sigmoid_vf(a * (gate + bias)));
  }
}

GD_INLINE float head_a(const gd_cpu_gates *gates, int64_t head) {
  if (gates->gate_form < GD_CPU_GATE_RAW) return 0.0f;
  float a = load_one(gates->a_log.data, head, gates->a_log.dtype);
  return gates->gate_form == GD_CPU_GATE_RAW_SSM ? a : exp_one(a);
}

/* Decays and betas of tokens first .. first + count - 1. */
static void prepare_gates(
  const gd_cpu_gates *gates, int64_t head, int64_t first, int64_t count, int64_t key_dim, delta_scratch *scratch
) {
  int raw = gates->gate_form >= GD_CPU_GATE_RAW;
  vf a = splat(head_a(gates, head));
  if (gates->gate_dims == GD_CPU_GATE_PER_HEAD) {
    vf bias = splat(raw ? load_one(gates->dt_bias.data, head, gates->dt_bias.dtype) : 0.0f);
    for (int64_t t = 0; t < count; t++) {
      scratch->decay[t] = load_one(element(&gates->gate, first + t, head, 0), 0, gates->gate.dtype);
    }
    for (int64_t t = 0; t < count; t += GD_WIDTH) {
      store(scratch->decay, t, GD_CPU_F32, decay_of(gates, load(scratch->decay, t, GD_CPU_F32), bias, a));
    }
  } else {
    for (int64_t t = 0; t < count; t++) {
      float *row = scratch->decay + t * scratch->padded;
      convert(element(&gates->gate, first + t, head, 0), 0, gates->gate.dtype, row, 0, GD_CPU_F32, key_dim);
      for (int64_t i = 0; i < key_dim; i += GD_WIDTH) {
        vf bias = {0};
        int64_t left = key_dim - i;
        if (raw) {
          const void *biases = element(&gates->dt_bias, 0, head, 0);
          bias = left >= GD_WIDTH ? load(biases, i, gates->dt_bias.dtype)
                                  : load_first(biases, i, gates->dt_bias.dtype, left);
        }
        vf decay = decay_of(gates, load(row, i, GD_CPU_F32), bias, a);
        if (left >= GD_WIDTH) store(row, i, GD_CPU_F32, decay);
        else store_first(row, i, GD_CPU_F32, left, decay);
      }
      for (int64_t i = key_dim; i < scratch->padded; i++) row[i] = 0.0f;
    }
  }
  for (int64_t t = 0; t < count; t++) {
    scratch->beta[t] = load_one(element(&gates->beta, first + t, head, 0), 0, gates->beta.dtype);
  }
  for (int64_t t = 0; t < count && gates->beta_form != GD_CPU_BETA_GIVEN; t += GD_WIDTH) {
    vf beta = sigmoid_vf(load(scratch->beta, t, GD_CPU_F32));
    store(scratch->beta, t, GD_CPU_F32, gates->beta_form == GD_CPU_BETA_SIGMOID ? beta : beta + beta);
  }
}

/* a_t k_t, with which the state before the decay is read. */
GD_INLINE void decay_key(const delta_scratch *scratch, int per_key, int64_t t) {
  const float *key = scratch->key + t * scratch->padded;
  float *decayed = scratch->decayed_key + t * scratch->padded;
  const float *decay = per_key ? scratch->decay + t * scratch->padded : scratch->decay + t;
  for (int64_t i = 0; i < scratch->padded; i += GD_WIDTH) {
    vf a = per_key ? load(decay, i, GD_CPU_F32) : splat(decay[0]);
    store(decayed, i, GD_CPU_F32, load(key, i, GD_CPU_F32) * a);
  }
}
