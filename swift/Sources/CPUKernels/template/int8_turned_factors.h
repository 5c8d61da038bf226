/* The scales and offsets of a few outputs for int8_turned_dots.h, made where they are needed: in a pass of their own over whole rows they take a tenth of the time, as the
 * rows' lines are fetched into the first cache twice. */

/* Sets whose scales and offsets are made at a time, before their products: of small blocks one, whose half floats are copied as it is unpacked, and those of a
 * large block. 0: those of a row are made at once, since they lie next to each other, or in formats without a kernel of their own. */
GD_INLINE int int8_dots_span(int8_block form) {
  int is_small = !form.is_mlx && form.groups == 1 && form.type != GGML_MXFP4;
  return int8_is_any(form) ? 0 : is_small ? 1 : form.groups / 2;
}

/* Half floats of a set: two of each output, then as many offsets. */
enum { INT8_DOTS_HALVES = 2 * INT8_OUTPUTS };
/* Copies an output's. In assembly: compilers gather such numbers in vectors, whose units are what limits products. */
GD_INLINE void int8_dots_copy(const uint8_t *from, uint16_t *halves, int8_block form) {
  GD_UNROLL for (int i = 0; i < (int8_has_offset(form) ? 4 : 2); i++) {
    uint16_t half = *(const h1_memory *)(from + i % 2 * form.bytes + i / 2 * 2);
    __asm__ volatile("movw %w1, %0" : "=m"(halves[i / 2 * INT8_DOTS_HALVES + i % 2]) : "r"(half));
  }
}
/* Of the large blocks of INT8_OUTPUTS rows, from `block` on. */
static __attribute__((noinline)) void int8_dots_eights(const uint8_t *block, int64_t row_bytes, float *scales) {
  for (int f = 0; f < INT8_OUTPUTS; f++, block += row_bytes, scales += 8) int8_eights(block, scales, scales + INT8_OFFSETS, GGML_Q4_K);
}
static __attribute__((noinline)) void int8_dots_sixteens(const uint8_t *block, int64_t row_bytes, float *scales) {
  for (int f = 0; f < INT8_OUTPUTS; f++, block += row_bytes, scales += 16) {
    vf own, none;
    int8_sixteens_factors(block, &own, &none, GGML_Q6_K);
    store(scales, 0, GD_CPU_F32, own);
  }
}
/* Those of the sets from `set` on of the rows from `row` on. */
GD_INLINE void int8_dots_factors(const int8_turned *way, const uint8_t *row, int64_t set, const uint16_t *halves, int8_block form) {
  if (form.groups == 8) int8_dots_eights(row + set / 4 * form.bytes, way->row_bytes, way->scales);
  if (form.groups == 16) int8_dots_sixteens(row + set / 8 * form.bytes, way->row_bytes, way->scales);
  if (form.groups > 1) return;
  GD_UNROLL for (int i = 0; i < (int8_has_offset(form) ? 4 : 2); i++) {
    store(way->scales + i / 2 * INT8_OFFSETS, i % 2 * 16, GD_CPU_F32, load(halves, 16 * i, GD_CPU_F16));
  }
}
