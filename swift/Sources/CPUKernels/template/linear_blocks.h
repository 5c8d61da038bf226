/* linear with a few rows by blocks that hold their factors (linear_dot.h has the other weights), and the choice among all of these. */

/* Output f of rows at .. at + taken - 1 of x, and the next outputs, by rows of blocks that hold their factors, one after another in
 * memory, one chain a partial: `rows` and `taken` are constants. With one row of x the scales of the next block are made before the products
 * of this one, so that these need not wait for them; with more, all registers are taken. */
GD_INLINE void linear_dot_blocks(
  const uint8_t *row, int64_t row_bytes, linear_taken few, int64_t columns, block_unpacking format, int rows, int taken
) {
  vf part[LINEAR_TAKEN][LINEAR_BLOCK_ROWS][GD_PARTS];
  GD_FEW_PARTS(taken, rows, GD_PARTS) part[t][r][v] = few_begun(few, few_part(few, t, r, GD_LANES, v), taken);
  int step = taken > 1 && format.step > 4 ? 4 : format.step, is_ahead = taken == 1 && format.ahead;
  const uint8_t *block = row;
  block_scales memory[2][LINEAR_BLOCK_ROWS], *scales = memory[0], *later = is_ahead ? memory[1] : scales;
  if (is_ahead) format.scales(block, row_bytes, rows, scales, format.number);
  for (int64_t i = 0; i < columns; i += format.elements, block += format.bytes) {
    const uint8_t *read = row + rows * (block - row);
    linear_fetch_blocks(read, row_bytes, few.end, format, rows, taken);
    const uint8_t *next = is_ahead && i + format.elements < columns ? block + format.bytes : block;
    format.scales(next, row_bytes, rows, later, format.number);
    _Pragma("clang loop unroll(disable)")
    for (int64_t run = 0; run < format.elements / GD_LANES; run += step) {
      factors group[LINEAR_BLOCK_ROWS];
      /* Values of two runs at a time if partials take most registers. */
      const int pair = rows == 3 ? 2 : 1;
      GD_UNROLL for (int k0 = 0; k0 < step; k0 += pair) {
        vf values[2][LINEAR_BLOCK_ROWS][GD_PARTS];
        GD_UNROLL for (int r = 0; r < rows; r++) {
          GD_UNROLL for (int k = k0; k < k0 + pair; k++) {
            if (k % format.group == 0) group[r] = format.factors(scales, r, run + k, format.number);
            GD_UNROLL for (int p = 0; p < GD_PARTS; p++) values[k - k0][r][p] = format.values(block + r * row_bytes, &scales[r], run + k, p, group[r], format.number);
          }
          if (pair == 2) few_made(&values[0][r][0], &values[1][r][0]);
        }
        GD_UNROLL for (int k = k0; k < k0 + pair; k++) {
          GD_UNROLL for (int t = 0; t < taken; t++) {
            GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
              vf element = few_x(few.x, i + (run + k) * GD_LANES + p * GD_WIDTH, t, taken);
              GD_UNROLL for (int r = 0; r < rows; r++) part[t][r][p] = fma_vf(element, values[k - k0][r][p], part[t][r][p]);
            }
          }
        }
      }
    }
    block_scales *used = scales;
    scales = later;
    later = used;
  }
  GD_FEW_END(taken, rows, NULL, part[t][r][0])
  GD_FEW_PARTS(taken, rows, GD_PARTS) store(few_part(few, t, r, GD_LANES, v), 0, GD_CPU_F32, part[t][r][v]);
}

/* The outputs of rows first .. first + count - 1 of blocks. */
GD_INLINE void linear_dots_blocks(
  const gd_cpu_matrix *matrix, int64_t first, int64_t count, const linear_few *few, block_unpacking format
) {
#if GD_WIDTH == 16
  if (format.halves > 0 && few->rows > 1) {
#define GD_SMALL(TAKEN) linear_dots_small(matrix, first, count, few, (linear_small){.format = format, .taken = TAKEN, .rows = (TAKEN) > 4 ? 3 : LINEAR_SMALL_ROWS})
    GD_TAKING(few_taken(few->rows), GD_SMALL)
#undef GD_SMALL
    return;
  }
#endif
  int64_t columns = matrix->columns, bytes = matrix_bytes(matrix, columns);
  const uint8_t *row = (const uint8_t *)matrix_row(matrix, first);
  /* Loops of more rows are not compiled where they are not taken. */
  const int most = GD_WIDTH == 16 && format.halves > 0 ? 1 : LINEAR_TAKEN;
#define GD_ROWS(TAKEN) (GD_WIDTH == 8 && (TAKEN) > 2 ? 1 : (TAKEN) > 6 ? 3 : (TAKEN) > 4 ? 2 : LINEAR_BLOCK_ROWS)
#define GD_DOTS(TAKEN)                                                                                                     \
  if ((TAKEN) > most) __builtin_unreachable();                                                                             \
  for (; f < end; f += GD_ROWS(TAKEN), own.sums += GD_ROWS(TAKEN) * GD_LANES) {                                            \
    linear_dot_blocks(                                                                                                     \
      row + f * bytes + own.column / format.elements * format.bytes, apart * bytes, own,                                   \
      few_columns(TAKEN, own.column, columns), format, GD_ROWS(TAKEN), TAKEN);                                             \
  }
  GD_FEW(GD_LANES, GD_ROWS(taken), GD_DOTS)
#undef GD_DOTS
#undef GD_ROWS
}

/* The outputs of rows first .. first + count - 1 of weight. memory: for their scales and biases, as float32. Instruction sets that differ in
 * conversions only share one copy: this is most of a kernel's code. */
#if GD_WIDTH == 16
#define linear_dots gd_cpu_avx512_linear_dots
__attribute__((visibility("hidden"))) void linear_dots(
  const gd_cpu_matrix *matrix, int64_t first, int64_t count, const linear_few *few, float *memory);
#else
static
#endif
#if !defined(GD_BF16_AVX512)
void linear_dots(const gd_cpu_matrix *matrix, int64_t first, int64_t count, const linear_few *few, float *memory) {
  matrix_layout layout = layout_of(matrix);
  switch (layout.unpacking) {
#define GD_DOTS(PACKED, STEP, SHIFT) linear_dots_packed(matrix, first, count, few, memory, PACKED, STEP, SHIFT)
#define GD_CASE_DOTS(UNPACKING, FAMILY, BITS)                                                   \
  case UNPACKING: {                                                                             \
    unpacking packed = GD_UNPACKING(FAMILY, BITS, layout.elements);                             \
    if (packed.least < 32 && packed.group < 32) GD_DOTS(packed, 32, -1);                        \
    else if (packed.most == 32 || packed.group == 32) GD_DOTS(packed, 32, 0);                   \
    else GD_DOTS(packed, 64, packed.group > 64);                                                \
    return;                                                                                     \
  }
    GD_CPU_UNPACKINGS(GD_CASE_DOTS)
#undef GD_CASE_DOTS
#undef GD_DOTS
#define GD_CASE_BLOCK_DOTS(UNPACKING, FAMILY, NUMBER, ELEMENTS, BYTES) \
  case UNPACKING:                                                      \
    return linear_dots_blocks(matrix, first, count, few, GD_BLOCK_UNPACKING(FAMILY, NUMBER, ELEMENTS, BYTES));
    GD_CPU_BLOCK_UNPACKINGS(GD_CASE_BLOCK_DOTS)
#undef GD_CASE_BLOCK_DOTS
  }
  if (layout.dtype == GD_CPU_F32) linear_dots_plain(matrix, first, count, few, GD_CPU_F32);
  else if (layout.dtype == GD_CPU_BF16) linear_dots_plain(matrix, first, count, few, GD_CPU_BF16);
  else linear_dots_plain(matrix, first, count, few, GD_CPU_F16);
}
#endif
