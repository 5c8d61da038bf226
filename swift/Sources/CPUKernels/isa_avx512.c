/* AVX-512: 16 floats per vector, 32 registers. Processors since 2017 (Skylake-X, Zen 4) have all of these subsets. A
 * second table is for those with AVX-512 VNNI (Cascade Lake, Zen 4). */
#if defined(__x86_64__)
#include <immintrin.h>

#include "tables.h"

#define GD_TABLE gd_cpu_avx512
#define GD_ISA_NAME "avx512"
#define GD_ISA_INT8 avx512
#define GD_DOT_TABLE gd_cpu_avx512vnni
#define GD_DOT_NAME "avx512vnni"
#define GD_DOT_INT8 avx512vnni
#define GD_WIDTH 16
#define GD_FMA 1
#define GD_F16_AVX512 1

#pragma clang attribute push( \
  __attribute__((target("avx,avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq"))), apply_to = function)
#include "template/kernels.h"
#pragma clang attribute pop
#else
typedef int gd_cpu_no_avx512;
#endif
