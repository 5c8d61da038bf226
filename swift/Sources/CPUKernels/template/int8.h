/* The kernels of int8 activations for one instruction set: included once by each isa_int8_*.c, inside its target region, with
 * GD_INT8(NAME) the exported name of a kernel. */

#include "simd.h"
#include "math.h"
#include "sums.h"
#include "rows.h"
#include "matrix.h"
#include "linear_finish.h"
#include "linear_finish_rows.h"
#include "int8_dot.h"
#include "int8_fma.h"
#include "int8_numbers.h"
#include "int8_factors.h"
#include "int8_form.h"
#include "int8_x.h"
#include "int8_block.h"
#include "int8_direct.h"
#include "int8_beside.h"
#include "int8_packed.h"
#include "int8_across.h"
#include "int8_panel.h"
#if defined(GD_DOT_AMX)
#include "int8_amx.h"
#include "int8_turned.h"
#include "int8_sets.h"
#include "int8_turned_tiles.h"
#include "int8_turned_rows.h"
#else
#include "int8_rows.h"
#include "int8_terms.h"
#include "int8_blocks.h"
#include "int8_blocks_8.h"
#include "int8_block_terms.h"
#include "int8_few.h"
#include "int8_one.h"
#include "int8_tile.h"
#if defined(GD_DOT_AVX512VNNI)
#include "int8_turned.h"
#include "int8_turned_dots.h"
#include "int8_turned_rows.h"
#endif
#endif
#include "int8_linear.h"
#include "expert_run.h"

void GD_INT8(rows)(const void *params, int64_t begin, int64_t end, void *scratch, const uint32_t *stop) {
  const gd_cpu_int8_rows *op = params;
#if defined(GD_DOT_AMX)
  gd_cpu_int8_rows own = *op;
  own.format = GD_CPU_FORMAT_F32; /* for which there is no other order */
  gd_cpu_int8_avx512vnni_rows(&own, begin, end, scratch, stop);
#else
  (void)scratch;
  if (op->turned == NULL || op->rows > GD_CPU_INT8_TOGETHER) {
    const int64_t each = op->turned == NULL ? 1 : GD_CPU_INT8_EACH;
    for (int64_t row = each * begin; row < least(each * end, op->rows) && !gd_cpu_stopped(stop); row++) int8_row(op, row, 0, op->columns);
  } else {
    const int64_t pair = 2 * op->form.group;
    for (int64_t row = 0; row < op->rows && !gd_cpu_stopped(stop); row++) int8_row(op, row, begin * pair, least(end * pair, op->columns));
  }
#endif
#if defined(GD_DOT_AVX512VNNI)
  if (op->turned != NULL) int8_turn(op, begin, end, stop);
#endif
}

int64_t GD_INT8(turned_bytes)(uint32_t format, int64_t rows, int64_t columns) {
#if defined(GD_DOT_AVX512VNNI)
  return int8_turned_bytes(format, rows, columns);
#else
  return (void)format, (void)rows, (void)columns, 0;
#endif
}

void GD_INT8(linear)(const void *params, int64_t begin, int64_t end, void *scratch, const uint32_t *stop) {
  const gd_cpu_linear *op = params;
  int8_features(op, begin * INT8_OUTPUTS, least(end * INT8_OUTPUTS, op->out_features), scratch, stop);
}

void GD_INT8(expert_linear)(const void *params, int64_t begin, int64_t end, void *scratch, const uint32_t *stop) {
  expert_run(params, begin, end, scratch, stop, int8_features);
}
