/* int8 activations with AVX-512 VNNI: four products per lane. */
#if defined(__x86_64__)
#include <immintrin.h>

#include "tables.h"

#define GD_INT8(KERNEL) gd_cpu_int8_avx512vnni_##KERNEL
#define GD_WIDTH 16
#define GD_FMA 1
#define GD_F16_AVX512 1
#define GD_DOT_AVX512VNNI 1

#pragma clang attribute push( \
  __attribute__((target("avx,avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni"))), apply_to = function)
#include "template/int8.h"
#pragma clang attribute pop
#else
typedef int gd_cpu_no_int8_avx512vnni;
#endif
