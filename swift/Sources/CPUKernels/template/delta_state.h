/* State, additional outputs and prefetched rows of a head for some tokens. */

/* A head's rows before and after some tokens. */
typedef struct delta_state {
  const void *source, *next_source; /* ... and the state read after it */
  void *target; /* NULL: not stored, and left in scratch->state as f32 */
  uint32_t source_dtype, target_dtype;
  int in_panels; /* whole panels of rows are in scratch->state, turned, between blocks of tokens */
} delta_state;

/* Rows of inputs and outputs, one for each token, that are needed soon: the passes prefetch them. */
enum { DELTA_WANTED = 4 };
typedef struct delta_wanted {
  const char *row;
  int64_t step, bytes, tokens;
} delta_wanted;

/* Additional outputs: states after some tokens, and each token's d. */
typedef struct delta_extras {
  const gd_cpu_state_store *stores;
  int64_t store_count, tokens_before; /* stores count tokens from the sequence's first */
  int64_t head;
  float *record; /* d of the block's first token and the head's first row; NULL: not kept */
  int64_t record_stride;
  delta_wanted wanted[DELTA_WANTED];
} delta_extras;

/* `part` of `parts` of each row. */
static __attribute__((noinline)) void wanted_part(delta_wanted wanted[DELTA_WANTED], int64_t part, int64_t parts) {
  _Pragma("clang loop unroll(disable)")
  for (int j = 0; j < DELTA_WANTED; j++) {
    int64_t begin = wanted[j].bytes * part / parts;
    wanted[j].row += begin;
    wanted[j].bytes = wanted[j].bytes * (part + 1) / parts - begin;
  }
}

/* Token t's rows. */
static __attribute__((noinline)) void fetch_wanted(const delta_wanted wanted[DELTA_WANTED], int64_t t) {
  _Pragma("clang loop unroll(disable)")
  for (int j = 0; j < DELTA_WANTED; j++) {
    if (t < wanted[j].tokens) fetch(wanted[j].row + t * wanted[j].step, wanted[j].bytes);
  }
}
