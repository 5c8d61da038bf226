/* Rows of x as signed bytes, a scale for each group of columns of the weight's form:
 *   scale = max |x| / 127, q = x / scale rounded to nearest even, within -127 .. 127
 * in float32, one rounding each. A group of zeros has scale 0; one with NaN or an infinity has scale NaN, and so its row's outputs
 * are NaN. Scales below the smallest float32 number are 0: such a group counts as zeros. */

/* Adding it rounds to an integer, which the sum's lowest bits are. */
static const float int8_rounder = 0x1.8p23f;

/* A group of x: its bytes, and their sum. */
GD_INLINE int32_t int8_round(const float *x, int64_t count, float scale, int8_t *out) {
  vi sum = {0};
  for (int64_t i = 0; i < count; i += GD_WIDTH) {
    vf q = load(x, i, GD_CPU_F32) / splat(scale);
    q = __builtin_elementwise_min(__builtin_elementwise_max(q, splat(-127.0f)), splat(127.0f)) + splat(int8_rounder);
    vi number = (vi)q - (vi)splat(int8_rounder);
    sum += number;
    vsb bytes = __builtin_convertvector(number, vsb);
    __builtin_memcpy(out + i, &bytes, sizeof bytes);
  }
  return __builtin_reduce_add(sum);
}

/* Puts the even ones of eight columns before the odd ones, in place, as the halves of a weight's bytes are (int8_packed.h). */
GD_INLINE void int8_pair(int8_t *values, int64_t columns) {
#if GD_WIDTH == 16
  for (int64_t i = 0; i < columns; i += 32) {
    int8_b32_memory *at = (int8_b32_memory *)(values + i);
    *at = __builtin_shufflevector(
      *at, *at, 0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15, 16, 18, 20, 22, 17, 19, 21, 23, 24, 26, 28, 30, 25, 27, 29, 31);
  }
#else
  (void)values;
  (void)columns;
#endif
}

/* Columns begin .. end - 1 of a row, whole groups. */
static void int8_row(const gd_cpu_int8_rows *op, int64_t row, int64_t begin, int64_t end) {
  const void *x = element(&op->x, row / op->ranks, row % op->ranks, 0);
  int64_t group = op->form.group, first = row * op->groups + begin / group;
  int8_t *out = op->values + row * op->stride;
  float memory[128];
  for (int64_t i = begin, g = first; i < end; i += group, g++) {
    const float *values = as_floats(x, i, op->x.dtype, group, memory);
    vu most = {0};
    for (int64_t k = 0; k < group; k += GD_WIDTH) {
      most = __builtin_elementwise_max(most, (vu)load(values, k, GD_CPU_F32) & 0x7fffffffu);
    }
    uint32_t bits = __builtin_reduce_max(most);
    float magnitude;
    __builtin_memcpy(&magnitude, &bits, 4);
    float scale = bits < 0x7f800000u ? magnitude / 127.0f : __builtin_nanf("");
    int32_t sum = 0;
    if (scale > 0) sum = int8_round(values, group, scale, out + i);
    else __builtin_memset(out + i, 0, (size_t)group);
    op->scales[g] = scale;
    op->sums[g] = (float)sum * scale;
    op->starts[g] = (INT8_MIDDLE - op->form.middle) * sum;
  }
  if (op->form.is_paired) int8_pair(out + begin, end - begin);
  if (end == op->columns) __builtin_memset(out + end, 0, (size_t)(op->stride - end));
}
