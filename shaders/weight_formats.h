/* Generated from gated_delta.h: change that header and run `node swift/scripts/layout.mjs` again. */
#ifndef GATED_DELTA_SHADERS_WEIGHT_FORMATS_H
#define GATED_DELTA_SHADERS_WEIGHT_FORMATS_H

/* INSTANTIATE(function, name, type) for everything that unpacks blocks. */
#define GDM_EACH_UNPACKING(INSTANTIATE, function) \
  INSTANTIATE(function, "affine2", Affine<2>) \
  INSTANTIATE(function, "affine3", Affine<3>) \
  INSTANTIATE(function, "affine4", Affine<4>) \
  INSTANTIATE(function, "affine5", Affine<5>) \
  INSTANTIATE(function, "affine6", Affine<6>) \
  INSTANTIATE(function, "affine8", Affine<8>)

#endif
