/* Vectors of the native width, included once for every instruction set inside its target region.
 *
 * The including file defines GD_WIDTH (floats in a vector: 16, 8 or 4), GD_FMA (1 if fused multiply-add is an
 * instruction), one of GD_F16_AVX512, GD_F16_F16C, GD_F16_NEON or none of them, and GD_BF16_AVX512 if there is an
 * instruction that rounds to bf16.
 *
 * Everything that sums does so over GD_LANES partial sums, element i into partial i mod 16, for every width: the
 * order of a sum depends only on its length. */

#define GD_INLINE static inline __attribute__((always_inline, unused))
#define GD_LANES 16
#define GD_PARTS (GD_LANES / GD_WIDTH)
#define GD_UNROLL _Pragma("clang loop unroll(full)")

typedef float vf __attribute__((vector_size(GD_WIDTH * 4)));
typedef int32_t vi __attribute__((vector_size(GD_WIDTH * 4)));
typedef uint32_t vu __attribute__((vector_size(GD_WIDTH * 4)));
typedef uint16_t vh __attribute__((vector_size(GD_WIDTH * 2)));
/* The same, and single elements, in memory. At any address: weights may lie anywhere in a file. No instruction set has
 * loads that are faster for what is aligned to elements only. */
typedef float vf_memory __attribute__((vector_size(GD_WIDTH * 4), aligned(1), may_alias));
typedef uint16_t vh_memory __attribute__((vector_size(GD_WIDTH * 2), aligned(1), may_alias));
typedef float f1_memory __attribute__((aligned(1), may_alias));
typedef uint16_t h1_memory __attribute__((aligned(1), may_alias));

GD_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

GD_INLINE vf splat(float x) { return x - (vf){0}; }

/* a * b + c, in one rounding if the instruction set can. */
GD_INLINE vf fma_vf(vf a, vf b, vf c) {
#if GD_FMA
  return __builtin_elementwise_fma(a, b, c);
#else
  return a * b + c;
#endif
}

GD_INLINE vf select_vf(vi mask, vf yes, vf no) { return (vf)((mask & (vi)yes) | (~mask & (vi)no)); }

GD_INLINE vf bf16_to_vf(vh h) { return (vf)(__builtin_convertvector(h, vu) << 16); }

GD_INLINE vu bf16_rounded(vf x) {
  vu bits = (vu)x;
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

#if defined(GD_BF16_AVX512)
/* The instruction rounds as the others do, but treats subnormal numbers as zeros. They are rare. */
GD_INLINE vh vf_to_bf16(vf x) {
  vh rounded = (vh)_mm512_cvtneps_pbh((__m512)x);
  __mmask16 subnormal = _mm512_fpclass_ps_mask((__m512)x, 0x20);
  if (__builtin_expect(subnormal != 0, 0)) {
    vh exact = __builtin_convertvector(bf16_rounded(x), vh);
    rounded = (vh)_mm256_mask_mov_epi16((__m256i)rounded, subnormal, (__m256i)exact);
  }
  return rounded;
}
#else
GD_INLINE vh vf_to_bf16(vf x) {
  vu quiet = ((vu)x >> 16) | 0x40u;
  vu nan = (vu)(x != x);
  return __builtin_convertvector((nan & quiet) | (~nan & bf16_rounded(x)), vh);
}
#endif

#if defined(GD_F16_AVX512)
GD_INLINE vf f16_to_vf(vh h) { return (vf)_mm512_cvtph_ps((__m256i)h); }
GD_INLINE vh vf_to_f16(vf x) { return (vh)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
#elif defined(GD_F16_F16C)
GD_INLINE vf f16_to_vf(vh h) { return (vf)_mm256_cvtph_ps((__m128i)h); }
GD_INLINE vh vf_to_f16(vf x) { return (vh)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
#elif defined(GD_F16_NEON)
GD_INLINE vf f16_to_vf(vh h) { return (vf)vcvt_f32_f16(vreinterpret_f16_u16((uint16x4_t)h)); }
GD_INLINE vh vf_to_f16(vf x) { return (vh)vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)x)); }
#else
/* In software these are long, and the kernels have hundreds of them: inlined they were half of the compiler's time and a
 * quarter of the code of this instruction set. */
#define GD_OUT_OF_LINE static __attribute__((noinline, unused))
GD_OUT_OF_LINE vf f16_to_vf(vh h) {
  vu bits = __builtin_convertvector(h, vu);
  vu magnitude = bits & 0x7fffu;
  /* 2^112 moves the exponent from half's bias to single's, denormals included. */
  vu finite = (vu)((vf)(magnitude << 13) * splat(0x1p112f));
  vu nan = (vu)(magnitude > 0x7c00u);
  vu special = (magnitude << 13) | 0x7f800000u | (nan & 0x00400000u);
  vu isSpecial = (vu)(magnitude >= 0x7c00u);
  return (vf)(((bits & 0x8000u) << 16) | (isSpecial & special) | (~isSpecial & finite));
}
GD_OUT_OF_LINE vh vf_to_f16(vf x) {
  vu bits = (vu)x;
  vu magnitude = bits & 0x7fffffffu;
  vu normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  normal = normal - (112u << 10);
  /* One unit in the last place of 0.5 is half's smallest denormal: the addition rounds to it. */
  vu denormal = (vu)((vf)magnitude + splat(0.5f)) - 0x3f000000u;
  vu isDenormal = (vu)(magnitude < 0x38800000u);
  vu isLarge = (vu)(magnitude >= 0x47800000u);
  vu isNaN = (vu)(magnitude > 0x7f800000u);
  vu large = 0x7c00u | (isNaN & (0x200u | ((magnitude >> 13) & 0x3ffu)));
  vu result = (isDenormal & denormal) | (~isDenormal & ~isLarge & normal) | (isLarge & large);
  return __builtin_convertvector(result | ((bits >> 16) & 0x8000u), vh);
}
#endif

GD_INLINE int64_t dtype_size(uint32_t dtype) { return dtype == GD_CPU_F32 ? 4 : 2; }

/* A vector of elements i, i + 1, ... of an array. */
GD_INLINE vf load(const void *array, int64_t i, uint32_t dtype) {
  if (dtype == GD_CPU_F32) return (vf) * (const vf_memory *)((const f1_memory *)array + i);
  vh h = (vh) * (const vh_memory *)((const h1_memory *)array + i);
  return dtype == GD_CPU_F16 ? f16_to_vf(h) : bf16_to_vf(h);
}

GD_INLINE void store(void *array, int64_t i, uint32_t dtype, vf x) {
  if (dtype == GD_CPU_F32) {
    *(vf_memory *)((float *)array + i) = x;
  } else {
    *(vh_memory *)((uint16_t *)array + i) = dtype == GD_CPU_F16 ? vf_to_f16(x) : vf_to_bf16(x);
  }
}

/* The first n elements of such a vector, n < GD_WIDTH; zeros after them. */
GD_INLINE vf load_first(const void *array, int64_t i, uint32_t dtype, int64_t n) {
  if (dtype == GD_CPU_F32) {
    vf x = {0};
    for (int64_t l = 0; l < n; l++) ((float *)&x)[l] = ((const f1_memory *)array)[i + l];
    return x;
  }
  vh h = {0};
  for (int64_t l = 0; l < n; l++) ((uint16_t *)&h)[l] = ((const h1_memory *)array)[i + l];
  return dtype == GD_CPU_F16 ? f16_to_vf(h) : bf16_to_vf(h);
}

GD_INLINE void store_first(void *array, int64_t i, uint32_t dtype, int64_t n, vf x) {
  if (dtype == GD_CPU_F32) {
    for (int64_t l = 0; l < n; l++) ((float *)array)[i + l] = ((float *)&x)[l];
  } else {
    vh h = dtype == GD_CPU_F16 ? vf_to_f16(x) : vf_to_bf16(x);
    for (int64_t l = 0; l < n; l++) ((uint16_t *)array)[i + l] = ((uint16_t *)&h)[l];
  }
}

/* One element as a float. */
GD_INLINE float load_one(const void *array, int64_t i, uint32_t dtype) {
  return dtype == GD_CPU_F32 ? ((const f1_memory *)array)[i] : load_first(array, i, dtype, 1)[0];
}
