/* Whether the pass over a single token's bf16 rows keeps them in f32 from where it reads them for their d to where it
 * updates them, or widens them twice, by measurement: to keep them costs stores, which some processors do beside
 * everything else (Emerald Rapids: 1.2 times as fast where the states are in the cache) and others do not (Zen 4: 0.99). */

enum { DELTA_WIDENS_TWICE = 1, DELTA_WIDENS_ONCE = 2 };
enum { DELTA_WIDENING_TRIALS = 8 };

/* Nanoseconds for a token of a head of 128 rows of 128. The rows and the inputs are such that the rows stay what they
 * are: ones. */
static uint64_t widening_trial(const delta_scratch *scratch, int32_t keeps) {
  gd_cpu_heads heads = {.key_heads = 1, .value_heads = 1, .key_dim = 128, .value_dim = 128};
  delta_state state = {scratch->state, scratch->state, scratch->state, GD_CPU_BF16, GD_CPU_BF16};
  delta_extras extras = {0};
  __atomic_store_n(&delta_keeps, keeps, __ATOMIC_RELAXED);
  uint64_t since = gd_cpu_nanoseconds();
  delta_tokens(scratch, &heads, 0, state, 0, 128, 1, &extras);
  return gd_cpu_nanoseconds() - since;
}

static void widening_prepare(const delta_scratch *scratch) {
  for (int64_t i = 0; i < 128; i++) {
    scratch->key[i] = scratch->query[i] = scratch->decayed_key[i] = scratch->value[i] = 0.0f;
  }
  scratch->decay[0] = 1.0f;
  scratch->beta[0] = 0.0f;
  for (int64_t i = 0; i < 128 * 128; i += GD_WIDTH) store(scratch->state, i, GD_CPU_BF16, splat(1.0f));
}

/* Rows are kept only where that is clearly faster. way: not 0 sets it, in tests. */
static int32_t delta_choose_widening(void *memory, int32_t way) {
  static int32_t chosen;
  if (!DELTA_CAN_KEEP) return DELTA_WIDENS_TWICE;
  if (way == 0) way = __atomic_load_n(&chosen, __ATOMIC_RELAXED);
  if (way == 0) {
    char *cursor = memory;
    delta_scratch scratch = delta_scratch_make(&cursor, 128);
    widening_prepare(&scratch);
    uint64_t twice = UINT64_MAX, once = UINT64_MAX;
    for (int trial = 0; trial < DELTA_WIDENING_TRIALS; trial++) {
      uint64_t time = widening_trial(&scratch, 0);
      if (time < twice) twice = time;
      time = widening_trial(&scratch, 1);
      if (time < once) once = time;
    }
    way = once < twice - twice / 32 ? DELTA_WIDENS_ONCE : DELTA_WIDENS_TWICE;
    __atomic_store_n(&chosen, way, __ATOMIC_RELAXED);
  }
  __atomic_store_n(&delta_keeps, way == DELTA_WIDENS_ONCE, __ATOMIC_RELAXED);
  return way;
}
