/* Rows of blocks that hold all of their factors (matrix.h): as float32, and their dot products. */

/* The unpacking of a format: always passed on as a constant, so that its functions are inlined. */
typedef struct block_unpacking {
  void (*scales)(const uint8_t *block, int64_t apart, int rows, block_scales *out, uint32_t number);
  factors (*factors)(const block_scales *scales, int row, int64_t run, uint32_t number);
  factors (*factors_at)(const float *scale, uint32_t number);
  vf (*values)(const uint8_t *block, const block_scales *scales, int64_t run, int part, factors group, uint32_t number);
  int group, step, elements, bytes, ahead, halves;
  uint32_t number;
} block_unpacking;
#define GD_BLOCK_UNPACKING(FAMILY, NUMBER, ELEMENTS, BYTES) \
  (block_unpacking) { \
    FAMILY##_scales, FAMILY##_factors, FAMILY##_factors_at, FAMILY##_values, FAMILY##_group(NUMBER), FAMILY##_step(NUMBER), ELEMENTS, \
      BYTES, FAMILY##_ahead(NUMBER), FAMILY##_halves_first(NUMBER), NUMBER \
  }

/* Elements first .. first + count - 1 of a row, which are whole blocks. */
GD_INLINE void expand_blocks(
  const gd_cpu_matrix *matrix, int64_t row, int64_t first, int64_t count, float *out, vector_order order,
  block_unpacking format
) {
  const uint8_t *block = (const uint8_t *)matrix_row(matrix, row) + matrix_bytes(matrix, first);
  for (int64_t i = 0; i < count; i += format.elements, block += format.bytes) {
    block_scales scales;
    format.scales(block, 0, 1, &scales, format.number);
    for (int64_t run = 0; run < format.elements / GD_LANES; run += format.step) {
      float *to = out + vector_place(order, (i / GD_LANES + run) * GD_PARTS);
      GD_UNROLL for (int k = 0; k < format.step; k++) {
        factors group = format.factors(&scales, 0, (run + k) / format.group * format.group, format.number);
        GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
          vf values = format.values(block, &scales, run + k, p, group, format.number);
          store(to, vector_place(order, k * GD_PARTS + p), GD_CPU_F32, values);
        }
      }
    }
  }
}
