// Elementary functions in float32, one helper each, used by every kernel: their bits must not depend on the platform's
// mathematics library, so they are built from correctly rounded operations alone (+ - * fma, divide, sqrt).
//
// Contraction is off: a fused multiply-add happens where fma() is written and nowhere else. The host compiles with
// mathMode safe too, which these rely on for infinities and NaN.
#ifndef GATED_DELTA_SHADERS_NUMERICS_H
#define GATED_DELTA_SHADERS_NUMERICS_H

#include <metal_stdlib>
using namespace metal;
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

// e^x within 1 ulp; 0 below -104, infinity above 88.8, NaN for NaN. Cody-Waite reduction x = n ln 2 + r,
// |r| <= ln 2 / 2, and a minimax polynomial for (e^r - 1 - r) / r^2 of relative weight, error 3e-9 of e^r.
METAL_FUNC float gd_exp(float x) {
  // The ends are compared first: NaN compares false and goes through the polynomial as NaN, with a harmless n.
  if (x > 88.8f) return as_type<float>(0x7f800000u);
  if (x < -104.0f) return 0.0f;
  float n = floor(fma(x, 1.44269504f, 0.5f));
  // ln 2 in two parts: the upper has 15 significant bits, so n times it is exact.
  float r = fma(n, -0.693145751953125f, x);
  r = fma(n, -1.42860677e-6f, r);
  float p = 0.00138146023f;
  p = fma(p, r, 0.00836871564f);
  p = fma(p, r, 0.041668389f);
  p = fma(p, r, 0.166665211f);
  p = fma(p, r, 0.49999994f);
  float y = 1.0f + fma(p, r * r, r);
  // 2^n in two factors, so that neither overflows nor is denormal before the last product.
  int whole = x == x ? int(n) : 0;
  int lower = whole >> 1;
  int upper = whole - lower;
  return (y * as_type<float>(uint(lower + 127) << 23)) * as_type<float>(uint(upper + 127) << 23);
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
  float tail = gd_log1p_unit(gd_exp(-fabs(x)));
  return x > 0.0f ? x + tail : tail;
}

// 1 / (1 + e^-x), from e^-|x| so that neither end loses relative precision.
METAL_FUNC float gd_sigmoid(float x) {
  float e = gd_exp(-fabs(x));
  return precise::divide(x < 0.0f ? e : 1.0f, 1.0f + e);
}

METAL_FUNC float gd_silu(float x) { return x * gd_sigmoid(x); }

// 1 / sqrt(x) from two correctly rounded operations: within 1 ulp, and the same bits everywhere.
METAL_FUNC float gd_rsqrt(float x) { return precise::divide(1.0f, precise::sqrt(x)); }

#endif
