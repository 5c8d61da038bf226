/* Generated from gated_delta.h: change that header and run `node swift/scripts/layout.mjs` again. */
#ifndef GATED_DELTA_SHADERS_WEIGHT_FORMATS_H
#define GATED_DELTA_SHADERS_WEIGHT_FORMATS_H

/* Formats of families whose blocks hold their factors. */
enum {
  GDM_UNPACK_Q4_0 = 0,
  GDM_UNPACK_Q4_1 = 1,
  GDM_UNPACK_Q5_0 = 2,
  GDM_UNPACK_Q5_1 = 3,
  GDM_UNPACK_Q8_0 = 4,
  GDM_UNPACK_Q2_K = 5,
  GDM_UNPACK_Q3_K = 6,
  GDM_UNPACK_Q4_K = 7,
  GDM_UNPACK_Q5_K = 8,
  GDM_UNPACK_Q6_K = 9,
  GDM_UNPACK_IQ4_NL = 10,
  GDM_UNPACK_IQ4_XS = 11,
  GDM_UNPACK_GGUF_MXFP4 = 12
};

/* INSTANTIATE(function, name, type) for everything that unpacks blocks. */
#define GDM_EACH_UNPACKING(INSTANTIATE, function) \
  INSTANTIATE(function, "affine2", Affine<2>) \
  INSTANTIATE(function, "affine3", Affine<3>) \
  INSTANTIATE(function, "affine4", Affine<4>) \
  INSTANTIATE(function, "affine5", Affine<5>) \
  INSTANTIATE(function, "affine6", Affine<6>) \
  INSTANTIATE(function, "affine8", Affine<8>) \
  INSTANTIATE(function, "ggml", Ggml) \
  INSTANTIATE(function, "micro4", Micro<4>) \
  INSTANTIATE(function, "micro8", Micro<8>)

#endif
