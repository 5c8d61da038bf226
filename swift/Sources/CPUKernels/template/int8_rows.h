/* Rows of x as signed bytes, a scale for each group of columns of the weight's form:
 *   scale = max |x| / 127, q = x / scale rounded to nearest even, within -127 .. 127
 * in float32, one rounding each. A group of zeros has scale 0; one with NaN or an infinity has scale NaN, and so its row's outputs
 * are NaN. Scales below the smallest float32 number are 0: such a group counts as zeros. */

/* Adding this rounds to an integer, which is in the sum's lowest bits. */
static const float int8_rounder = 0x1.8p23f;

/* An integer product begins with this many times the sum of x's numbers. */
GD_INLINE int32_t int8_start(gd_cpu_int8_form form) { return INT8_MIDDLE(form.is_small) - form.middle; }

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

#include "int8_groups.h"

/* Puts the even ones of eight columns before the odd ones, in place, as the halves of a weight's bytes are (int8_packed.h). */
GD_INLINE void int8_pair(int8_t *values, int64_t columns) {
#if GD_WIDTH >= 8
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

/* `count` groups, which x and out begin with, one by one: those from number `first` of all rows on. */
static void int8_row_groups(const gd_cpu_int8_rows *op, const float *x, int64_t first, int64_t count, int8_t *out) {
  const int64_t group = op->form.group;
  for (int64_t g = 0; g < count; g++) {
    const float *values = x + g * group;
    vu most = {0};
    for (int64_t k = 0; k < group; k += GD_WIDTH) {
      most = __builtin_elementwise_max(most, (vu)load(values, k, GD_CPU_F32) & 0x7fffffffu);
    }
    uint32_t bits = __builtin_reduce_max(most);
    float magnitude;
    __builtin_memcpy(&magnitude, &bits, 4);
    float scale = bits < 0x7f800000u ? magnitude / 127.0f : __builtin_nanf("");
    int32_t sum = 0;
    if (scale > 0) sum = int8_round(values, group, scale, out + g * group);
    else __builtin_memset(out + g * group, 0, (size_t)group);
    op->scales[first + g] = scale;
    op->sums[first + g] = (float)sum * scale;
    op->starts[first + g] = int8_start(op->form) * sum;
  }
}

/* Columns begin .. end - 1 of a row, whole groups. */
static void int8_row(const gd_cpu_int8_rows *op, int64_t row, int64_t begin, int64_t end) {
  enum { AT_ONCE = 16 };
  const void *x = element(&op->x, row / op->ranks, row % op->ranks, 0);
  int64_t group = op->form.group, step = AT_ONCE * group;
  int8_t *out = op->values + row * op->stride;
  float memory[AT_ONCE * 128];
  for (int64_t i = begin; i < end; i += step) {
    int64_t count = least(AT_ONCE, (end - i) / group), first = row * op->groups + i / group;
    const float *values = as_floats(x, i, op->x.dtype, count * group, memory);
#if GD_WIDTH == 16
    if (int8_groups(
          values, group, count, out + i, op->scales + first, op->sums + first, op->starts + first, int8_start(op->form))) continue;
#endif
    int8_row_groups(op, values, first, count, out + i);
  }
  if (op->form.is_paired) int8_pair(out + begin, end - begin);
  if (end == op->columns) __builtin_memset(out + end, 0, (size_t)(op->stride - end));
}
