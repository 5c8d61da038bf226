/* Chooses by measurement whether many tokens go over panels of the state or over its rows, for decays that are one number and
 * for those per key dimension: panels save shuffles, and take more loads, which not every processor overlaps. */

/* Rows are taken only if they are clearly faster. ways: not 0 sets them, in tests. */
static int32_t delta_choose_turning(void *memory, int32_t ways) {
  static int32_t per_head, per_key;
  if (!DELTA_CAN_TURN) return DELTA_IN_ROWS;
  char *cursor = memory;
  delta_scratch scratch = delta_scratch_make(&cursor, 128);
  delta_trial trial = {
    .setting = &delta_turning, .usual = DELTA_IN_ROWS | DELTA_IN_PANELS_PER_HEAD, .other = DELTA_IN_ROWS, .margin = 32,
    .trials = 4, .state = {scratch.state, scratch.state, NULL, GD_CPU_F32, GD_CPU_F32, 1}, .tokens = 8};
  trial.other = delta_choose(&trial, &scratch, &per_head, ways);
  trial.usual = trial.other | DELTA_IN_PANELS_PER_KEY;
  trial.per_key = 1;
  return delta_choose(&trial, &scratch, &per_key, ways);
}
