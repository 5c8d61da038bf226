/* Chooses by measurement whether the pass over a single token's bf16 rows keeps them in f32 from the read for their d to
 * their update, or widens them twice: keeping them costs stores, which some processors overlap with everything else
 * (Emerald Rapids: 1.2 times as fast when the states are in the cache) and others do not (Zen 4: 0.99). */

/* Rows are kept only if that is clearly faster. way: not 0 sets it, in tests. */
static int32_t delta_choose_widening(void *memory, int32_t way) {
  static int32_t chosen;
  if (!DELTA_CAN_KEEP) return DELTA_WIDENS_TWICE;
  char *cursor = memory;
  delta_scratch scratch = delta_scratch_make(&cursor, 128);
  delta_trial trial = {
    .setting = &delta_widening, .usual = DELTA_WIDENS_TWICE, .other = DELTA_WIDENS_ONCE, .margin = 32, .trials = 8,
    .state = {scratch.state, scratch.state, scratch.state, GD_CPU_BF16, GD_CPU_BF16, 0}, .tokens = 1};
  return delta_choose(&trial, &scratch, &chosen, way);
}
