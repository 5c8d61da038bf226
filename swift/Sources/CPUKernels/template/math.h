/* exp, sigmoid and softplus: one of each for the library. Every lane is computed alike, so a value has the same bits
 * wherever it stands in a vector. Errors stay within about two units in the last place, and limits are exact, except for
 * the activations of norms and convolutions, which state their own bounds. */

/* e^x = 2^n e^r with n = round(x / ln 2), |r| <= ln 2 / 2, e^r = 1 + r + r^2 P(r), P the minimax polynomial of
 * relative error 0.05 units. ln 2 is split so that n * high is exact. exp(-inf) = 0; results below the normal numbers
 * are rounded once, because 2^n is applied in two exact powers of which only the last can round. */
GD_INLINE vf exp_vf(vf x) {
  const vf low = splat(-104.0f), high = splat(89.0f), magic = splat(0x1.8p23f);
  x = select_vf(x < low, low, x); /* beyond these the result is 0 or inf in any case; NaN passes */
  x = select_vf(x > high, high, x);
  vf shifted = fma_vf(x, splat(0x1.715476p+0f), magic);
  vf n = shifted - magic;
  vf r = fma_vf(n, splat(-0x1.63p-1f), x);
  r = fma_vf(n, splat(0x1.bd0106p-13f), r);
  vf p = fma_vf(splat(0x1.6a2434p-10f), r, splat(0x1.1239e2p-7f));
  p = fma_vf(p, r, splat(0x1.5558f2p-5f));
  p = fma_vf(p, r, splat(0x1.555492p-3f));
  p = fma_vf(p, r, splat(0x1.fffffcp-2f));
  vf e = fma_vf(r * r, p, r) + splat(1.0f);
#if GD_WIDTH == 16
  return (vf)_mm512_scalef_ps((__m512)e, (__m512)n); /* the same in one instruction */
#else
  vi whole = (vi)shifted - (vi)magic;
  vi half = whole >> 1;
  vf first = (vf)((half + 127) << 23), second = (vf)((whole - half + 127) << 23);
  return e * first * second;
#endif
}

/* ln(1 + y) for y in [0, 1]: 2 atanh(s) with s = y / (2 + y), by its odd minimax polynomial on [0, 1/3]. */
GD_INLINE vf log1p_unit_vf(vf y) {
  vf s = y / (y + splat(2.0f));
  vf z = s * s;
  vf p = fma_vf(splat(0x1.f1733ep-3f), z, splat(0x1.b6e6ccp-3f));
  p = fma_vf(p, z, splat(0x1.2508b2p-2f));
  p = fma_vf(p, z, splat(0x1.9996b0p-2f));
  p = fma_vf(p, z, splat(0x1.555558p-1f));
  return fma_vf(s * z, p, s + s);
}

GD_INLINE vf abs_vf(vf x) { return (vf)((vu)x & 0x7fffffffu); }

/* 1 / (1 + e^-x), from e^-|x| so that neither side overflows. */
GD_INLINE vf sigmoid_vf(vf x) {
  vf e = exp_vf(-abs_vf(x));
  vf numerator = select_vf(x < splat(0.0f), e, splat(1.0f));
  return numerator / (splat(1.0f) + e);
}

/* The activations of norms and convolutions, one for every element that memory moves: cheaper than the sigmoid of gates,
 * and as accurate as a result of a few roundings needs. 1 + e^-x with e^-x = 2^n e^-s, s = x + n ln 2,
 * e^-s by the polynomial of degree 5 that begins 1 - s and has the least relative error, 1.05e-7. ln 2 is one float
 * where the product is not rounded: s is off by |n| 2^-29. 1 + e^-x is as exact for either sign, as long as e^-x and its
 * reciprocal are normal numbers: for |x| up to 87. Down to -88.7 e^-x is one, and its reciprocal is not. */
enum { ACTIVATION_END = 87 };
#define ACTIVATION_SILU_END 88.7f

GD_INLINE vf one_plus_exp_of_minus(vf x) {
  const vf magic = splat(0x1.8p23f);
  vf shifted = fma_vf(x, splat(-0x1.715476p+0f), magic);
  vf n = shifted - magic;
#if GD_FMA
  vf s = fma_vf(n, splat(0x1.62e43p-1f), x);
#else
  vf s = n * splat(0x1.63p-1f) + x; /* exact, as the product is */
  s = n * splat(-0x1.bd0106p-13f) + s;
#endif
  vf p = fma_vf(splat(-0x1.10627ap-7f), s, splat(0x1.572a06p-5f));
  p = fma_vf(p, s, splat(-0x1.5557aep-3f));
  p = fma_vf(p, s, splat(0x1.fffdfcp-2f));
  p = fma_vf(p, s, splat(-1.0f));
  p = fma_vf(p, s, splat(1.0f));
  return splat(1.0f) + (vf)((vu)p + ((vu)shifted << 23));
}

/* Both pass NaN. */
GD_INLINE vf at_least_vf(vf x, float low) { return select_vf(x < splat(low), splat(low), x); }
GD_INLINE vf at_most_vf(vf x, float high) { return select_vf(x > splat(high), splat(high), x); }

/* 1 / (1 + e^-x), relative error at most 3e-7 for |x| below 20 and 5e-7 beyond; from -87 down it stays 1.6e-38. */
GD_INLINE vf activation_sigmoid_vf(vf x) {
  x = at_most_vf(at_least_vf(x, -ACTIVATION_END), ACTIVATION_END);
  return splat(1.0f) / one_plus_exp_of_minus(x);
}

/* x / (1 + e^-x): the same relative error down to -88.7; from there on it stays -2.7e-37, where 0 is the limit. */
GD_INLINE vf silu_vf(vf x) {
  x = at_least_vf(x, -ACTIVATION_SILU_END);
  return x / one_plus_exp_of_minus(at_most_vf(x, ACTIVATION_END));
}

/* ln(1 + e^x) = max(x, 0) + ln(1 + e^-|x|). */
GD_INLINE vf softplus_vf(vf x) {
  vf positive = select_vf(x > splat(0.0f), x, splat(0.0f));
  return positive + log1p_unit_vf(exp_vf(-abs_vf(x)));
}

GD_INLINE vf activate_vf(vf x, uint32_t activation) {
  if (activation == GD_CPU_ACTIVATION_SILU) return silu_vf(x);
  return activation == GD_CPU_ACTIVATION_SIGMOID ? activation_sigmoid_vf(x) : x;
}

GD_INLINE float exp_one(float x) { return exp_vf(splat(x))[0]; }
/* 1 / sqrt(x), rounded once: every element of a row carries its error. */
GD_INLINE float rsqrt_one(double x) { return (float)(1.0 / __builtin_sqrt(x)); }
