/* Numbers and properties of ggml's types, as ggml.h unpacks them. */
#ifndef GATED_DELTA_GGML_TYPES_H
#define GATED_DELTA_GGML_TYPES_H

enum {
  GGML_Q4_0 = 2, GGML_Q4_1 = 3, GGML_Q5_0 = 6, GGML_Q5_1 = 7, GGML_Q8_0 = 8, GGML_Q2_K = 10, GGML_Q3_K = 11, GGML_Q4_K = 12,
  GGML_Q5_K = 13, GGML_Q6_K = 14, GGML_IQ4_NL = 20, GGML_IQ4_XS = 23, GGML_MXFP4 = 39
};

/* Whether blocks of 256 have scales of their own for ggml_group weights each; others have one scale for all 32. */
#define ggml_is_large(TYPE) ((TYPE) >= GGML_Q2_K && (TYPE) != GGML_IQ4_NL && (TYPE) != GGML_MXFP4)
#define ggml_has_table(TYPE) ((TYPE) == GGML_IQ4_NL || (TYPE) == GGML_IQ4_XS || (TYPE) == GGML_MXFP4)
#define ggml_has_minimum(TYPE) ((TYPE) == GGML_Q2_K || (TYPE) == GGML_Q4_K || (TYPE) == GGML_Q5_K)
#define ggml_has_offset(TYPE) ((TYPE) == GGML_Q4_1 || (TYPE) == GGML_Q5_1)
#define ggml_has_five(TYPE) ((TYPE) == GGML_Q5_0 || (TYPE) == GGML_Q5_1 || (TYPE) == GGML_Q5_K)
/* q is this much less than its unsigned number. */
#define ggml_middle(TYPE) \
  ((TYPE) == GGML_Q4_0 ? 8 : (TYPE) == GGML_Q5_0 ? 16 : (TYPE) == GGML_Q3_K ? 4 : (TYPE) == GGML_Q6_K ? 32 : 0)

/* Runs of 16 weights that share a scale. */
#define ggml_group(TYPE) ((TYPE) == GGML_Q2_K || (TYPE) == GGML_Q3_K || (TYPE) == GGML_Q6_K ? 1 : 2)

/* With int8 activations, numbers are unsigned bytes: this is how much more they are than the integers that they stand for. */
#define int8_ggml_middle(TYPE) \
  ((TYPE) == GGML_Q8_0 || (TYPE) == GGML_IQ4_NL || (TYPE) == GGML_IQ4_XS ? 128 : (TYPE) == GGML_MXFP4 ? 12 : ggml_middle(TYPE))
/* The largest of them, and whether they are small (int8_dot.h). */
#define int8_ggml_most(TYPE)                                                                              \
  (int8_ggml_middle(TYPE) == 128 ? 255 : (TYPE) == GGML_Q6_K ? 63 : ggml_has_five(TYPE) ? 31 : (TYPE) == GGML_MXFP4 ? 24 \
   : (TYPE) == GGML_Q2_K ? 3 : (TYPE) == GGML_Q3_K ? 7 : 15)
#define int8_ggml_is_small(TYPE) (int8_ggml_most(TYPE) < 128)

#endif
