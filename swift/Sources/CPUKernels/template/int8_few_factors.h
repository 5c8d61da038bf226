/* The scales and offsets of INT8_OUTPUTS rows for int8_few.h, where blocks have them, made when their numbers are unpacked: in a pass of their own they took a fifth of
 * the time of eight rows with small blocks, and a tenth with large ones. */
#if defined(GD_DOT_AVX512VNNI)

/* Whether a block is 32 columns and begins with a half float, or two, or a byte that is an exponent, which is copied as half floats are. */
GD_INLINE int int8_few_has_halves(int8_block form) { return !form.is_mlx && form.groups == 1; }

/* The most half floats of a step: those of up to four blocks of all rows. As many offsets follow. */
enum { INT8_FEW_HALVES = 4 * INT8_OUTPUTS };
typedef struct int8_few_factors {
  float scales[16 * INT8_OUTPUTS], offsets[8 * INT8_OUTPUTS]; /* of a large block, or of a step */
  uint16_t halves[INT8_SPAN / 256 * INT8_OUTPUTS];            /* of large blocks all, of small ones those of two steps */
} int8_few_factors;

/* Copies the half floats of a step, or of as many of its blocks as the `left` columns are. */
GD_INLINE void int8_few_copy(const uint8_t *from, int64_t row_bytes, int64_t left, uint16_t *halves, int step, int8_block form) {
  int64_t blocks = least(left, step) / 32;
  int8_halves_across(from, row_bytes, blocks, form.bytes, halves);
  if (int8_ggml_has_offset(form.type)) int8_halves_across(from + 2, row_bytes, blocks, form.bytes, halves + INT8_FEW_HALVES);
}

/* INT8_OUTPUTS of them as float32. */
GD_INLINE vf int8_few_floats(const uint16_t *halves, int8_block form) {
  if (form.type != GGML_MXFP4) return load(halves, 0, GD_CPU_F16);
  vu exponents = __builtin_convertvector(*(const vh_memory *)halves, vu) & 0xff;
  vu are_least = (vu)(exponents < 2); /* as in ggml_half_of_power */
  return (vf)((are_least & 0x00200000u << (exponents & 1)) | (~are_least & (exponents - 1) << 23));
}

/* Before the first step: rows of `count` columns begin at `from`. */
GD_INLINE void int8_few_begin(int8_few_factors *own, const uint8_t *from, int64_t row_bytes, int64_t count, int step, int8_block form) {
  if (form.type == GGML_Q6_K) int8_halves_across(from + ggml_half_at(GGML_Q6_K), row_bytes, count / 256, form.bytes, own->halves);
  if (int8_few_has_halves(form)) int8_few_copy(from, row_bytes, count, own->halves, step, form);
}

/* The factors of the step from column i on, whose rows begin at `from`; for large blocks those of both steps. left: columns from i on. */
GD_INLINE void int8_few_make(
  int8_few_factors *own, const uint8_t *from, int64_t row_bytes, int64_t i, int64_t left, int step, int8_block form
) {
  if (int8_few_has_halves(form)) {
    /* The half floats of the next step are copied meanwhile: a load of several waits for the stores of each. */
    uint16_t *these = own->halves + i / step % 2 * 2 * INT8_FEW_HALVES, *next = own->halves + (i / step + 1) % 2 * 2 * INT8_FEW_HALVES;
    int blocks = step / 32;
    if (left > step) int8_few_copy(from + blocks * form.bytes, row_bytes, left - step, next, step, form);
    GD_UNROLL for (int g = 0; g < blocks * INT8_OUTPUTS; g += INT8_OUTPUTS) {
      store(own->scales, g, GD_CPU_F32, int8_few_floats(these + g, form));
      if (int8_ggml_has_offset(form.type)) store(own->offsets, g, GD_CPU_F32, int8_few_floats(these + INT8_FEW_HALVES + g, form));
    }
  } else if (form.groups > 1 && i % 256 == 0) {
    if (form.type == GGML_Q6_K) int8_across_sixteens(from, row_bytes, own->halves + i / 256 * INT8_OUTPUTS, own->scales);
    else int8_across_eights(from, row_bytes, own->scales, own->offsets);
  }
}
#endif
