/* Settings of delta_tokens that no result bit depends on, chosen by measurement when the first device is opened. */

/* The trial: tokens of a head of 128 rows of 128 in scratch. */
typedef struct delta_trial {
  int32_t *setting;     /* not 0 */
  int32_t usual, other; /* its values */
  uint64_t margin;      /* other is taken if it is faster by more than one part in `margin` */
  int trials;           /* of each value, in turn: the least time counts */
  delta_state state;    /* rows in the scratch's state, and their target */
  int64_t tokens;
  int per_key;          /* a decay for each key dimension */
} delta_trial;

/* Numbers that leave rows unchanged: ones, as bf16. */
static void delta_trial_prepare(const delta_scratch *scratch) {
  for (int64_t i = 0; i < 128; i++) {
    scratch->key[i] = scratch->query[i] = scratch->decayed_key[i] = scratch->value[i] = 0.0f;
  }
  scratch->decay[0] = 1.0f;
  scratch->beta[0] = 0.0f;
  for (int64_t i = 0; i < 128 * 128; i += GD_WIDTH) store(scratch->state, i, GD_CPU_BF16, splat(1.0f));
}

/* The least of `least` and the nanoseconds that the tokens take with a setting. */
static uint64_t delta_trial_time(
  const delta_trial *trial, const delta_scratch *scratch, int32_t value, uint64_t least
) {
  gd_cpu_heads heads = {.key_heads = 1, .value_heads = 1, .key_dim = 128, .value_dim = 128};
  __atomic_store_n(trial->setting, value, __ATOMIC_RELAXED);
  delta_state state = trial->state;
  state.in_panels = state.in_panels && delta_turns(trial->per_key);
  delta_extras extras = {.tokens_before = state.in_panels}; /* the rows are turned already */
  uint64_t since = gd_cpu_nanoseconds();
  delta_tokens(scratch, &heads, trial->per_key, state, 0, 128, trial->tokens, &extras);
  uint64_t time = gd_cpu_nanoseconds() - since;
  return time < least ? time : least;
}

/* Sets and returns the faster choice, which is measured the first time and kept in `chosen`. In tests a nonzero value is
 * set instead. */
static int32_t delta_choose(const delta_trial *trial, const delta_scratch *scratch, int32_t *chosen, int32_t value) {
  if (value == 0) value = __atomic_load_n(chosen, __ATOMIC_RELAXED);
  if (value == 0) {
    delta_trial_prepare(scratch);
    uint64_t usual = UINT64_MAX, other = UINT64_MAX;
    for (int i = 0; i < trial->trials; i++) {
      usual = delta_trial_time(trial, scratch, trial->usual, usual);
      other = delta_trial_time(trial, scratch, trial->other, other);
    }
    value = other < usual - usual / trial->margin ? trial->other : trial->usual;
    __atomic_store_n(chosen, value, __ATOMIC_RELAXED);
  }
  __atomic_store_n(trial->setting, value, __ATOMIC_RELAXED);
  return value;
}
