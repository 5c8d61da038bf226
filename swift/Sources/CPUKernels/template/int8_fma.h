/* a * b + c in one rounding with every instruction set, since the results are the same with all of them. */
#if GD_FMA
GD_INLINE vf int8_fma(vf a, vf b, vf c) { return fma_vf(a, b, c); }
#else
typedef double int8_doubles __attribute__((vector_size(8 * GD_WIDTH)));
typedef int64_t int8_longs __attribute__((vector_size(8 * GD_WIDTH)));

/* A product of floats is exact as a double. Its sum with c is rounded to odd: if something is lost, the last bit is set, so that rounding to float once more gives what
 * rounding the exact sum gives (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008). */
GD_INLINE vf int8_fma(vf a, vf b, vf c) {
  int8_doubles product = __builtin_convertvector(a, int8_doubles) * __builtin_convertvector(b, int8_doubles);
  int8_doubles added = __builtin_convertvector(c, int8_doubles), sum = product + added;
  /* sum + lost is the exact sum (Knuth's TwoSum). It is NaN if a number is not finite. */
  int8_doubles rest = sum - product, lost = (product - (sum - rest)) + (added - rest);
  int8_longs bits = (int8_longs)sum, is_inexact = (lost > 0) | (lost < 0), is_even = (bits & 1) - 1;
  int8_longs is_away = (lost > 0) == (sum > 0);
  bits += (-2 * is_away - 1) & is_even & is_inexact;
  return __builtin_convertvector((int8_doubles)bits, vf);
}
#endif
