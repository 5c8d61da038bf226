/* Up to eight rows of x with AMX. Tiles of the weight are the first operands of products: the numbers of INT8_OUTPUTS rows as they lie, so that nothing
 * is transposed. x is the second operand, put into its order once per call. A set of two groups is multiplied at a time: a tile of x has a column for
 * each row of x and each group, with zeros for the numbers of the other one. So a vector of sums is one output's, for all rows of x and both groups, and
 * its scales are broadcast as they lie.
 *
 * While the sums of one set become terms (int8_linear.h), those of the next are stored, the one after it is multiplied, and a fourth is unpacked. The
 * instructions of tiles stand between the terms of two outputs each: several in succession would hold up the instructions after them. */

/* Runs instruction `slot` of those for a set's tiles. Tile 0 has the sums of the previous set until they are stored; tiles 1 and 3 have numbers, 2 and 4 have x. */
GD_INLINE void int8_turned_slot(int slot, const uint8_t *numbers, int64_t apart, const uint8_t *x, int32_t *sums, int8_block form) {
  int slice = (slot - 1) / 3, part = (slot - 1) % 3, second = slice % 2;
  if (slot == 0) {
    _tile_stored(0, sums, 64);
  } else if (part == 0) {
    if (second) _tile_loadd(3, numbers + slice * 64, apart);
    else _tile_loadd(1, numbers + slice * 64, apart);
  } else if (part == 1) {
    if (second) _tile_loadd(4, x + slice * 1024, 64);
    else _tile_loadd(2, x + slice * 1024, 64);
  } else {
    const int are_signed = int8_are_signed(form);
    if (slice == 0 && (are_signed || int8_has_offset(form))) _tile_zero(0);
    else if (slice == 0) _tile_loadd(0, x + int8_set_factors(form.group) + 128, 0);
    if (second && are_signed) _tile_dpbssd(0, 3, 4);
    else if (second) _tile_dpbusd(0, 3, 4);
    else if (are_signed) _tile_dpbssd(0, 1, 2);
    else _tile_dpbusd(0, 1, 2);
  }
}

/* Features begin .. end - 1, whole INT8_OUTPUTS. Instructions other than those of vectors and tiles are few: all count if a thread shares the core. */
GD_INLINE void int8_turned_loop(const int8_turned *way, int64_t begin, int64_t end, const uint32_t *stop, int8_block form) {
  /* A set's terms are added LAG steps after it was unpacked. */
  enum { PAIRS = INT8_OUTPUTS / 2, TAIL = 128, LAG = 3 };
  const int slots = 1 + 3 * int8_slices(form.group), has_offset = int8_has_offset(form);
  const int in_chunks = int8_in_chunks(form), is_direct = int8_are_bytes(form) && form.is_mlx && !in_chunks;
  const int64_t set = 2 * form.group, bytes = int8_set_bytes(form.group), sets = way->sets, stride = way->stride, row_bytes = way->row_bytes;
  const uint8_t *const x_begin = way->x, *const x_end = x_begin + sets * bytes;
  /* One after another: if their addresses had the same lowest 12 bits, loads of one would wait for stores to the other. */
  _Alignas(4096) uint8_t panels[2][INT8_OUTPUTS * (in_chunks ? INT8_CHUNKS : set)];
  _Alignas(64) int32_t all_sums[2][16 * INT8_OUTPUTS];
  _Alignas(64) uint8_t tail[INT8_OUTPUTS * TAIL + (LAG + 1) * 2 * TAIL] = {0};
  vf out[PAIRS] = {0};
  /* Where a set is unpacked to, and the one before it was; sums that are stored, and that become terms. */
  uint8_t *panel = panels[0], *panel_before = panels[1];
  int32_t *sums = all_sums[0], *sums_before = all_sums[1];
  /* Unpacked: set `unpacked` of the rows from `row` on. Bytes from `ask` on are asked for as those before `read` are read. */
  const uint8_t *row = (const uint8_t *)matrix_row(&way->op->weight, begin), *next = panels[0];
  /* As fetch_pages does, but earlier: a set needs a line of each row at once, wherever in its page and after however many pages. Of packed numbers every
   * other line suffices: the processor fetches the one after it. */
  const int64_t block_bytes = INT8_OUTPUTS * row_bytes, early = FETCH_PAGE + block_bytes - least(block_bytes, FETCH_PAGE * FETCH_PAGES);
  const int64_t lines = (int8_are_bytes(form) ? 1 : 2) * FETCH_BYTES, asked = block_bytes / sets;
  uintptr_t read = (uintptr_t)row, ask = (read + (uintptr_t)lines - 1) & ~(uintptr_t)(lines - 1);
  int64_t unpacked = 0, blocks = (end - begin) / INT8_OUTPUTS, rows_apart = row_bytes, next_apart = INT8_CHUNKS, chunk = 0;
  /* Multiplied: x of the set before. Terms: x of the set LAG steps before, its scales, and how many sets the outputs from `first` on still have. */
  const uint8_t *multiplied = x_end - bytes, *added = x_begin;
  const float *scales = way->scales;
  int64_t first = begin, until = LAG, added_bytes = 0;
  for (int64_t steps = blocks * sets + LAG; steps > 0; steps--) {
    read += (uintptr_t)asked;
    while (ask < read + (uintptr_t)early) {
      const char *pages = pages_after(ask, FETCH_PAGES);
      if (pages < (const char *)way->end) fetch_line_of_pages(pages, FETCH_PAGES);
      ask += (uintptr_t)lines;
    }
    const uint8_t *own = row + int8_set_at(unpacked, form), *numbers = in_chunks || is_direct ? next : panel_before;
    int64_t own_apart = rows_apart, apart = in_chunks || is_direct ? next_apart : set;
    if (blocks > 0 && (in_chunks || is_direct || way->columns < sets * set)) {
      int64_t column = unpacked * set, columns_left = way->columns - column;
      if (in_chunks) {
        if (column % INT8_CHUNK == 0) {
          chunk++;
          for (int f = 0; f < INT8_OUTPUTS; f++) {
            uint8_t *to = panels[chunk % 2] + f * INT8_CHUNKS;
            if (!int8_is_any(form)) int8_turned_block(row + f * row_bytes + column / INT8_CHUNK * form.bytes, to);
            else way->form->numbers(row + f * row_bytes, column, least(columns_left, INT8_CHUNK), to);
          }
        }
        next = panels[chunk % 2] + column % INT8_CHUNK;
      } else if (columns_left < set) {
        uint8_t *copy = is_direct ? panel : tail;
        int64_t copy_apart = is_direct ? set : TAIL;
        for (int f = 0; f < INT8_OUTPUTS; f++) {
          __builtin_memcpy(copy + f * copy_apart, own + f * row_bytes, (size_t)(columns_left / form.group * form.bytes));
        }
        own = next = copy;
        own_apart = next_apart = copy_apart;
      } else {
        next = own;
        next_apart = row_bytes;
      }
    }
    const float *factors = (const float *)(added + int8_set_factors(form.group)), *own_scales = scales;
    vf x_scales = load(factors, 0, GD_CPU_F32), x_sums = load(factors, 16, GD_CPU_F32);
    GD_UNROLL for (int p = 0; p < PAIRS; p++) {
      GD_UNROLL for (int slot = p * slots / PAIRS; slot < (p + 1) * slots / PAIRS; slot++) {
        int8_turned_slot(slot, numbers, apart, multiplied, sums, form);
      }
      GD_UNROLL for (int f = 2 * p; f < 2 * p + 2; f++) {
        if (!in_chunks && !is_direct) int8_turned_row(own + f * own_apart, panel + f * set, unpacked % 4, form);
      }
      vi first_sums = load_vi(sums_before + 2 * p * 16), second_sums = load_vi(sums_before + 2 * p * 16 + 16);
      int8_turned_terms(first_sums, second_sums, own_scales, stride, x_scales, x_sums, &out[p], has_offset);
      own_scales += 2 * stride;
    }
    uint8_t *unpacked_to = panel;
    int32_t *stored_to = sums;
    panel = panel_before;
    panel_before = unpacked_to;
    sums = sums_before;
    sums_before = stored_to;
    if (++unpacked == sets) {
      unpacked = 0;
      row += INT8_OUTPUTS * row_bytes;
      read = (uintptr_t)row;
      if (--blocks <= 0) {
        row = tail;
        rows_apart = TAIL;
        read = 0;
      }
    }
    multiplied += bytes;
    if (multiplied == x_end) multiplied = x_begin;
    added += added_bytes;
    scales += 2;
    if (__builtin_expect(--until == 0, 0)) {
      if (added_bytes != 0) {
        vf done[PAIRS]; /* so that `out` itself has no address, and stays in registers */
        GD_UNROLL for (int p = 0; p < PAIRS; p++) done[p] = out[p];
        int8_turned_finish(way, first, 0, done);
        first += INT8_OUTPUTS;
        if (gd_cpu_stopped(stop)) return;
      }
      GD_UNROLL for (int p = 0; p < PAIRS; p++) out[p] = (vf){0};
      if (first < end) int8_turned_factors(way, first);
      until = sets;
      added = x_begin;
      added_bytes = bytes;
      scales = way->scales;
    }
  }
}

/* The shapes of tiles, for one call. */
static void int8_turned_begin(int64_t group) {
  int8_shapes shapes = {.palette = 1};
  int slice = int8_slice(group);
  for (int t = 0; t < 5; t++) {
    int is_x = t == 2 || t == 4, is_weight = t == 1 || t == 3;
    shapes.rows[t] = (uint8_t)(is_x ? slice / 4 : INT8_OUTPUTS);
    shapes.bytes[t] = (uint16_t)(is_weight ? slice : 64);
  }
  _tile_loadconfig(&shapes);
}
GD_INLINE void int8_turned_end(void) { int8_tiles_end(); }
GD_INLINE int64_t int8_turned_least(int8_block form) { return (void)form, 2; }
