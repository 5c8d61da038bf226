/* The number of rows that stay in the cache together (delta_block), by measurement: this thread's share of the L1 cache
 * matters, which does not follow from the size of that cache where a core runs two threads. */

enum { DELTA_MANY = 32, DELTA_FEW = 16 };     /* rows; more or less than these were slower wherever they were measured */

/* Few rows are taken only if they are clearly faster: they read keys more often. block: not 0 sets it, in tests. */
static int32_t delta_choose_block(void *memory, int32_t block) {
  static int32_t chosen;
  char *cursor = memory;
  delta_scratch scratch = delta_scratch_make(&cursor, 128);
  delta_trial trial = {
    .setting = &delta_block, .usual = DELTA_MANY, .other = DELTA_FEW, .margin = 16, .trials = 6,
    .state = {scratch.state, scratch.state, NULL, GD_CPU_F32, GD_CPU_F32, 0}, .tokens = 8};
  return delta_choose(&trial, &scratch, &chosen, block);
}
