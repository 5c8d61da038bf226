// Elementary functions in float32, one helper each, used by every kernel: their bits must not depend on the platform's
// mathematics library, so they are built from correctly rounded operations alone (+ - * fma, divide, sqrt).
//
// Contraction is off: a fused multiply-add happens only where fma() is written. The host also compiles with mathMode
// safe, on which these helpers rely for infinities and NaN.
#ifndef GATED_DELTA_SHADERS_NUMERICS_H
#define GATED_DELTA_SHADERS_NUMERICS_H

#include <metal_stdlib>
using namespace metal;
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

// e^x 2^offset factor, the last two of which cancel. The exponent of 2^n e^r is added as an integer: the result is a
// number above the smallest normal one and below infinity if n + offset is from -125 to 126, and is rounded once, by
// the last operation. Cody-Waite reduction x = n ln 2 + r, |r| <= ln 2 / 2, and a minimax polynomial for
// (e^r - 1 - r) / r^2 of relative weight, error 3e-9 of e^r. n is rounded by adding 1.5 2^23, which leaves it in the
// lowest bits. No branches: a GPU works on several of these at once.
METAL_FUNC float gd_exp_scaled(float x, float offset, float factor) {
  float rounding = 12582912.0f + offset;
  float shifted = fma(x, 1.44269504f, rounding);
  float n = shifted - rounding;
  float r = fma(n, -0.693145751953125f, x);  // ln 2 in two parts: the upper has 15 significant bits, so n times it is exact
  r = fma(n, -1.42860677e-6f, r);
  float p = 0.00138146023f;
  p = fma(p, r, 0.00836871564f);
  p = fma(p, r, 0.041668389f);
  p = fma(p, r, 0.166665211f);
  p = fma(p, r, 0.49999994f);
  float y = 1.0f + fma(p, r * r, r);
  float scaled = as_type<float>(as_type<uint>(y) + (as_type<uint>(shifted) << 23));
  return fma(scaled, factor, x - x);  // NaN may have lost its bits
}

// e^x for x <= 0, within 1 ulp; 0 below -104, NaN for NaN.
METAL_FUNC float gd_exp_down(float x) {
  return gd_exp_scaled(x < -104.0f ? -104.0f : x, 64.0f, 0x1p-64f);
}

// e^x within 1 ulp; 0 below -104, infinity above 88.8, NaN for NaN.
METAL_FUNC float gd_exp(float x) {
  float bounded = x > 88.8f ? 88.8f : x;
  bounded = bounded < -104.0f ? -104.0f : bounded;
  bool up = x > 0.0f;
  return gd_exp_scaled(bounded, up ? -64.0f : 64.0f, up ? 0x1p64f : 0x1p-64f);
}

// 1 / d for d in [1, 2], within 1 ulp, and exactly for 1 and 2: a quadratic of relative error 1 / 99 (1 - d p(d) is the
// Chebyshev polynomial T3(3 - 2 d) / T3(3)), whose error two steps of Newton's method square twice.
METAL_FUNC float gd_reciprocal_unit(float d) {
  float r = fma(fma(0.323232323f, d, -1.45454545f), d, 2.12121212f);
  r = fma(r, fma(-d, r, 1.0f), r);
  return fma(r, fma(-d, r, 1.0f), r);
}

// log(1 + u) for u in [0, 1], relative error below 3 ulp for the smallest u too: 2 atanh(u / (2 + u)).
METAL_FUNC float gd_log1p_unit(float u) {
  float s = precise::divide(u, 2.0f + u);
  float z = s * s;
  float p = 0.243009329f;
  p = fma(p, z, 0.214276582f);
  p = fma(p, z, 0.286168844f);
  p = fma(p, z, 0.39998877f);
  p = fma(p, z, 0.666666746f);
  return s * fma(p, z, 2.0f);
}

// log(1 + e^x) = max(x, 0) + log(1 + e^-|x|): no overflow, and e^x for very negative x.
METAL_FUNC float gd_softplus(float x) {
  float tail = gd_log1p_unit(gd_exp_down(-fabs(x)));
  return x > 0.0f ? x + tail : tail;
}

// 1 / (1 + e^-x), from e^-|x| so that neither end loses relative precision.
METAL_FUNC float gd_sigmoid(float x) {
  float e = gd_exp_down(-fabs(x));
  float r = gd_reciprocal_unit(1.0f + e);
  return x < 0.0f ? e * r : r;
}

METAL_FUNC float gd_silu(float x) { return x * gd_sigmoid(x); }

// 1 / sqrt(x) from two correctly rounded operations: within 1 ulp, and the same bits everywhere.
METAL_FUNC float gd_rsqrt(float x) { return precise::divide(1.0f, precise::sqrt(x)); }

#endif
