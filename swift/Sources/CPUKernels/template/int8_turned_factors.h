/* The scales and offsets of a few outputs for int8_turned_dots.h, made where they are needed: a pass of their own over whole
 * rows takes a tenth of the time, since the rows' lines are fetched into the first cache twice. */

/* Sets whose scales and offsets are made at a time, before their products: of small blocks one, whose half floats are copied as it is unpacked, and those of a
 * large block. 0: those of a row are made at once, since they lie next to each other, or in formats without a kernel of their own. */
GD_INLINE int int8_dots_span(int8_block form) {
  int is_small = !form.is_mlx && form.groups == 1 && form.type != GGML_MXFP4;
  return int8_is_any(form) ? 0 : is_small ? 1 : form.groups / 2;
}

/* Half floats of a set: two of each output, then as many offsets. */
enum { INT8_DOTS_HALVES = 2 * INT8_OUTPUTS };
/* Copies the half floats of an output. */
GD_INLINE void int8_dots_copy(const uint8_t *from, uint16_t *halves, int8_block form) {
  GD_UNROLL for (int i = 0; i < (int8_has_offset(form) ? 4 : 2); i++) {
    int8_copy_half(from + i % 2 * form.bytes + i / 2 * 2, halves + i / 2 * INT8_DOTS_HALVES + i % 2);
  }
}
/* Of the large blocks of INT8_OUTPUTS rows, from `block` on: of each set two scales of each row. A lane is a row, in the order 0, 1, 8, 9, 2, 3, 10, 11 and so on,
 * which puts rows 0 to 7 into one vector where those of two groups are paired. */
static __attribute__((noinline)) void int8_dots_eights(const uint8_t *block, int64_t row_bytes, float *scales) {
  vi own[4], words[4];
  GD_UNROLL for (int i = 0; i < 4; i++) own[i] = int8_of_four(block + (i % 2 + i / 2 * 8) * row_bytes, 2 * row_bytes);
  int8_transpose_4(own, words);
  GD_UNROLL for (int kind = 0; kind < 2; kind++, scales += INT8_OFFSETS) {
    vu bytes[2];
    vf factor = int8_eights_bytes((const vu *)words, kind, bytes);
    GD_UNROLL for (int set = 0; set < 4; set++) {
      vu two = bytes[set / 2] >> set % 2 * 16;
      vf first = __builtin_convertvector((vi)(two & 0xff), vf) * factor, second = __builtin_convertvector((vi)(two >> 8 & 0xff), vf) * factor;
      store(scales, set * 32, GD_CPU_F32, (vf)_mm512_unpacklo_ps((__m512)first, (__m512)second));
      store(scales, set * 32 + 16, GD_CPU_F32, (vf)_mm512_unpackhi_ps((__m512)first, (__m512)second));
    }
  }
}
/* The same for blocks of sixteen groups: all scales of each row. */
static __attribute__((noinline)) void int8_dots_sixteens(const uint8_t *block, int64_t row_bytes, float *scales) {
  for (int f = 0; f < INT8_OUTPUTS; f++, block += row_bytes, scales += 16) {
    vf own, none;
    int8_sixteens_factors(block, &own, &none, GGML_Q6_K);
    store(scales, 0, GD_CPU_F32, own);
  }
}
/* The scales and offsets of the sets from `set` on of the rows from `row` on. */
GD_INLINE void int8_dots_factors(const int8_turned *way, const uint8_t *row, int64_t set, const uint16_t *halves, int8_block form) {
  if (form.groups == 8) int8_dots_eights(row + set / 4 * form.bytes, way->row_bytes, way->scales);
  if (form.groups == 16) int8_dots_sixteens(row + set / 8 * form.bytes, way->row_bytes, way->scales);
  if (form.groups > 1) return;
  GD_UNROLL for (int i = 0; i < (int8_has_offset(form) ? 4 : 2); i++) {
    store(way->scales + i / 2 * INT8_OFFSETS, i % 2 * 16, GD_CPU_F32, load(halves, 16 * i, GD_CPU_F16));
  }
}
