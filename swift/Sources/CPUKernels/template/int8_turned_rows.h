/* The formats and the linears that go by int8_turned.h, their rows of x, and a call. */

/* A format's numbers, and its products. */
typedef struct int8_turned_form {
  int8_block block;
  void (*run)(const int8_turned *way, int64_t begin, int64_t end, const uint32_t *stop);
} int8_turned_form;
/* Formats with kernels of their own, as in GD_INT8_NIBBLES; then all others, by their groups. */
#if defined(GD_DOT_AMX)
#define GD_INT8_BYTES32(F)
#else
#define GD_INT8_BYTES32(F) F(AFFINE8_G32, bytes32, 32, 0, 32, 1, 1)
#endif
#define GD_INT8_TURNED(F)                      \
  GD_INT8_NIBBLES(F)                           \
  GD_INT8_MICRO(F)                             \
  GD_INT8_BYTES32(F)                           \
  F(AFFINE8_G64, bytes64, 64, 0, 64, 1, 1)     \
  F(AFFINE8_G128, bytes128, 128, 0, 128, 1, 1) \
  F(Q8_0, q8_0, 32, GGML_Q8_0, 34, 1, 0)       \
  GD_INT8_FIVES_AND_SIXES(F)
#define GD_INT8_TURNED_OTHERS(F)     \
  F(, any16, 16, GGML_Q6_K, 0, 1, 1) \
  F(, any16_offset, 16, 0, 0, 1, 1)  \
  F(, any32, 32, GGML_Q6_K, 0, 1, 1) \
  F(, any32_offset, 32, 0, 0, 1, 1)  \
  F(, any64_offset, 64, 0, 0, 1, 1)  \
  F(, any128_offset, 128, 0, 0, 1, 1)
#define GD_TURNED(FORMAT, NAME, GROUP, TYPE, ...)                                                              \
  static void int8_turned_##NAME(const int8_turned *way, int64_t begin, int64_t end, const uint32_t *stop) {   \
    int8_turned_loop(way, begin, end, stop, (int8_block){GROUP, TYPE, __VA_ARGS__});                           \
  }                                                                                                            \
  static const int8_turned_form int8_form_##NAME = {{GROUP, TYPE, __VA_ARGS__}, int8_turned_##NAME};
GD_INT8_TURNED(GD_TURNED)
GD_INT8_TURNED_OTHERS(GD_TURNED)
#undef GD_TURNED

/* NULL if the format is multiplied exactly. */
static const int8_turned_form *int8_turned_of(uint32_t format) {
  gd_cpu_matrix matrix = {.format = format};
  int8_form form = int8_form_of(&matrix);
  switch (format) {
#define GD_CASE(FORMAT, NAME, ...) \
  case GD_CPU_FORMAT_##FORMAT: return &int8_form_##NAME;
    GD_INT8_TURNED(GD_CASE)
#undef GD_CASE
  }
  switch (form.group) {
    case 16: return form.has_offset ? &int8_form_any16_offset : &int8_form_any16;
    case 32: return form.has_offset ? &int8_form_any32_offset : &int8_form_any32;
    case 64: return &int8_form_any64_offset;
    case 128: return &int8_form_any128_offset;
    default: return NULL;
  }
}

/* The most rows at a time, if INT8_TURNED_ROWS rows have this many bytes: fewer than INT8_TURNED_MOST if rows are long. */
static int64_t int8_turned_most(int64_t part_bytes) { return least(INT8_TURNED_MOST, (INT8_PANEL - 64) / part_bytes * INT8_TURNED_ROWS); }

/* See gd_cpu_kernels. For two rows the other kernels are faster in two cases: if x, which is read again for each INT8_OUTPUTS outputs, is too large for the first
 * cache, and if they take blocks of 256 columns straight, both rows at once or one by one (as measured, except with Q4_K). */
static int64_t int8_turned_bytes(uint32_t format, int64_t rows, int64_t columns) {
  const int8_turned_form *form = int8_turned_of(format);
  if (form == NULL || rows < int8_turned_least(form->block)) return 0;
  int64_t sets = int8_turned_sets(columns, form->block), of_part = sets * int8_set_bytes(form->block.group);
  int64_t most = int8_turned_most(of_part), bytes = int8_turned_parts(rows) * of_part;
  if (most == 0 || (rows > most && !int8_turned_takes_more())) return 0;
  gd_cpu_matrix matrix = {.format = format};
  int is_large = layout_of(&matrix).elements == 256 && format != GD_CPU_FORMAT_Q4_K;
  if (rows == 2 && (is_large || bytes > 32 << 10)) return 0;
  return 2 * sets <= INT8_SPAN_GROUPS ? bytes : 0;
}
/* Items begin .. end - 1 of gd_cpu_int8_rows. */
static void int8_turn(const gd_cpu_int8_rows *x, int64_t begin, int64_t end, const uint32_t *stop) {
  gd_cpu_linear op = {.rows = x->rows, .rounded = x};
  const int8_turned_form *form = int8_turned_of(x->format);
  if (form == NULL) return;
  if (x->rows <= GD_CPU_INT8_TOGETHER) return int8_turned_x(&op, 0, x->rows, x->turned, begin, end, form->block, stop);
  int64_t first = begin * INT8_TURNED_ROWS, rows = least(end * INT8_TURNED_ROWS, x->rows) - first, sets = int8_turned_sets(x->columns, form->block);
  int8_turned_x(&op, first, rows, x->turned + begin * sets * int8_set_bytes(form->block.group), 0, sets, form->block, stop);
}

/* Takes all whole INT8_OUTPUTS features of several rows; returns the first feature that is left. */
static int64_t int8_turned_whole(const gd_cpu_linear *op, const int8_memory *memory, int64_t begin, int64_t end, const uint32_t *stop) {
  const gd_cpu_matrix *matrix = &op->weight;
  int64_t columns = matrix->columns, whole = begin + (end - begin) / INT8_OUTPUTS * INT8_OUTPUTS;
  if (whole == begin || int8_turned_bytes(matrix->format, op->rows, columns) == 0) return begin;
  const int8_turned_form *turned = int8_turned_of(matrix->format);
  int8_form form = int8_form_of(matrix);
  int64_t sets = int8_turned_sets(columns, turned->block), of_part = sets * int8_set_bytes(form.group), most = int8_turned_most(of_part);
  /* As many rows each time, whole parts. */
  int64_t times = (op->rows + most - 1) / most, rows = int8_turned_parts((op->rows + times - 1) / times) * INT8_TURNED_ROWS;
  uint8_t *own = (uint8_t *)(((uintptr_t)memory->x + 63) & ~(uintptr_t)63);
  int8_turned way = {
    .op = op, .form = &form, .end = memory->end, .scales = memory->scales, .columns = columns,
    .row_bytes = matrix_bytes(matrix, columns), .groups = columns / form.group, .sets = sets, .stride = 2 * sets};
  int8_turned_begin(form.group);
  for (; way.row < op->rows; way.row += rows) {
    way.rows = least(rows, op->rows - way.row);
    way.x = op->rounded->turned != NULL ? op->rounded->turned + way.row / INT8_TURNED_ROWS * of_part : own;
    if (way.x == own) int8_turned_x(op, way.row, way.rows, own, 0, sets, turned->block, stop);
    _Pragma("clang loop unroll(disable)")
    for (int64_t row = 0; row < way.rows; row++) way.out[row] = linear_element(op, &op->out, way.row + row, 0);
    turned->run(&way, begin, whole, stop);
  }
  int8_turned_end();
  return whole;
}
