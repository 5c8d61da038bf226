/* Formats of weights that are multiplied by int8 activations straight from their blocks, by vectors of 8 or 16 lanes. */

/* group: columns of a group. type: ggml's type; for a form of MLX, the type that has the same numbers, or 0 for affine forms. bytes, groups: those of
 * a block, which is a single group in MLX's forms. is_mlx: whether it is a form of MLX, whose factors are in tensors of their own. */
typedef struct int8_block {
  int64_t group;
  uint32_t type;
  int bytes, groups, is_mlx;
} int8_block;

/* The formats that are taken straight from their blocks: F(FORMAT, its name in functions' names, the members of int8_block); the first of
 * them by a few rows, too (int8_few.h). */
#define GD_INT8_AFFINE(F)                        \
  F(AFFINE4_G32, affine32, 32, 0, 16, 1, 1)      \
  F(AFFINE4_G64, affine64, 64, 0, 32, 1, 1)      \
  F(AFFINE4_G128, affine128, 128, 0, 64, 1, 1)
#define GD_INT8_GGML_NIBBLES(F)                  \
  F(Q4_0, q4_0, 32, GGML_Q4_0, 18, 1, 0)         \
  F(Q4_1, q4_1, 32, GGML_Q4_1, 20, 1, 0)         \
  F(IQ4_NL, iq4_nl, 32, GGML_IQ4_NL, 18, 1, 0)   \
  F(GGUF_MXFP4, mxfp4, 32, GGML_MXFP4, 17, 1, 0) \
  F(Q4_K, q4_k, 32, GGML_Q4_K, 144, 8, 0)
#define GD_INT8_NIBBLES(F) GD_INT8_AFFINE(F) GD_INT8_GGML_NIBBLES(F)
#define GD_INT8_MICRO(F) F(MXFP4, micro, 32, GGML_MXFP4, 16, 1, 1)
#define GD_INT8_DIRECT(F) GD_INT8_NIBBLES(F) GD_INT8_MICRO(F)
/* The formats of eight bits, and those of five and six, that a few rows, too, take from their blocks. */
#define GD_INT8_BYTES(F)                   \
  F(AFFINE8_G32, bytes32, 32, 0, 32, 1, 1) \
  F(AFFINE8_G64, bytes64, 64, 0, 64, 1, 1) \
  F(Q8_0, q8_0, 32, GGML_Q8_0, 34, 1, 0)
#define GD_INT8_FIVES_AND_SIXES(F)        \
  F(Q5_K, q5_k, 32, GGML_Q5_K, 176, 8, 0) \
  F(Q6_K, q6_k, 16, GGML_Q6_K, 210, 16, 0)

/* Where in a block its four-bit numbers begin, or its bytes for Q8_0. */
GD_INLINE int int8_offset(int8_block form) {
  return form.is_mlx ? 0 : form.type == GGML_Q4_K ? 16 : form.type == GGML_Q5_K ? 48 : ggml_offset(form.type);
}

/* The formats that one row takes straight from their blocks. */
#define GD_INT8_BLOCKS(F)                \
  GD_INT8_DIRECT(F)                      \
  GD_INT8_BYTES(F)                       \
  F(AFFINE8_G128, bytes128, 128, 0, 128, 1, 1) \
  F(Q5_0, q5_0, 32, GGML_Q5_0, 22, 1, 0) \
  F(Q5_1, q5_1, 32, GGML_Q5_1, 24, 1, 0) \
  F(IQ4_XS, iq4_xs, 32, GGML_IQ4_XS, 136, 8, 0) \
  F(Q2_K, q2_k, 16, GGML_Q2_K, 84, 16, 0) \
  F(Q3_K, q3_k, 16, GGML_Q3_K, 110, 16, 0) \
  GD_INT8_FIVES_AND_SIXES(F)             \
  F(NVFP4, nvfp4, 16, GGML_MXFP4, 8, 1, 1)

/* MLX's eight bits, which lie as they are multiplied. */
GD_INLINE int int8_is_affine8(int8_block form) { return form.is_mlx && form.bytes == form.group; }
/* Whether a block is one group, with a byte for each number. */
GD_INLINE int int8_has_bytes(int8_block form) { return form.groups == 1 && form.bytes >= form.group; }

/* Whether one row's numbers are asked for into the first cache: FETCH_NEAR bytes ahead, or INT8_NEAR if none are into the second one. */
enum { INT8_NEAR = 7168 };
GD_INLINE int int8_asks_near(int8_block form) {
#if defined(GD_DOT_AVX512VNNI)
  if (gd_cpu_is_wide && form.groups == 1) return 1;
#endif
  return (void)form, gd_cpu_asks_by_pages;
}

/* The largest number. */
GD_INLINE int int8_most(int8_block form) { return int8_is_affine8(form) ? 255 : int8_ggml_most(form.type); }
GD_INLINE int int8_block_is_small(int8_block form) { return int8_most(form) < 128; }

/* Whether vectors of 16 lanes take blocks that are whole lines, four at a time: these are asked for into the first cache between the
 * products, others after them. */
GD_INLINE int int8_four_are_lines(int8_block form) { return GD_WIDTH == 16 && form.groups == 1 && form.group > 16 && 4 * form.bytes % 64 == 0; }

/* Groups that are taken at a time: as many as a vector has lanes, or a block's. */
GD_INLINE int int8_step(int8_block form) { return form.groups > GD_WIDTH ? form.groups : GD_WIDTH; }
