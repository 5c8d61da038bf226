/* How many rows stay in the cache together (delta_block), by measurement: what counts is this thread's share of the
 * nearest cache, which the size of that cache does not tell where a core runs two threads. */

enum { DELTA_MANY = 32, DELTA_FEW = 16 };     /* rows; more or less than these were slower wherever they were measured */
enum { DELTA_TRIALS = 6, DELTA_TRIAL_TOKENS = 8 };

/* Nanoseconds for some tokens of a head of 128 rows of 128 in scratch. What the numbers are makes no difference. */
static uint64_t delta_trial(const delta_scratch *scratch, int32_t block) {
  gd_cpu_heads heads = {.key_heads = 1, .value_heads = 1, .key_dim = 128, .value_dim = 128};
  delta_state state = {scratch->state, scratch->state, NULL, GD_CPU_F32, GD_CPU_F32};
  delta_extras extras = {0};
  __atomic_store_n(&delta_block, block, __ATOMIC_RELAXED);
  uint64_t since = gd_cpu_nanoseconds();
  delta_tokens(scratch, &heads, 0, state, 0, 128, DELTA_TRIAL_TOKENS, &extras);
  return gd_cpu_nanoseconds() - since;
}

/* Few rows are taken only where they are clearly faster: they read keys more often. block: not 0 sets it, in tests. */
static int32_t delta_choose_block(void *memory, int32_t block) {
  static int32_t chosen;
  if (block == 0) block = __atomic_load_n(&chosen, __ATOMIC_RELAXED);
  if (block == 0) {
    char *cursor = memory;
    delta_scratch scratch = delta_scratch_make(&cursor, 128);
    uint64_t many = UINT64_MAX, few = UINT64_MAX;
    for (int trial = 0; trial < DELTA_TRIALS; trial++) {
      uint64_t time = delta_trial(&scratch, DELTA_MANY);
      if (time < many) many = time;
      time = delta_trial(&scratch, DELTA_FEW);
      if (time < few) few = time;
    }
    block = few < many - many / 16 ? DELTA_FEW : DELTA_MANY;
    __atomic_store_n(&chosen, block, __ATOMIC_RELAXED);
  }
  __atomic_store_n(&delta_block, block, __ATOMIC_RELAXED);
  return block;
}
