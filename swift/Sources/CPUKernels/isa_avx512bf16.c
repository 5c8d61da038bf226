/* AVX-512 with the instruction that rounds to bf16 (Cooper Lake, Zen 4 and later), which all have AVX-512 VNNI. A second table is for
 * those with AMX (Sapphire Rapids). */
#if defined(__x86_64__)
#include <immintrin.h>

#include "tables.h"

#define GD_TABLE gd_cpu_avx512bf16
#define GD_ISA_NAME "avx512bf16"
#define GD_ISA_INT8 avx512vnni
#define GD_DOT_TABLE gd_cpu_amx
#define GD_DOT_NAME "amx"
#define GD_DOT_INT8 amx
#define GD_WIDTH 16
#define GD_FMA 1
#define GD_F16_AVX512 1
#define GD_BF16_AVX512 1

#pragma clang attribute push( \
  __attribute__((target("avx,avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16"))), apply_to = function)
#include "template/kernels.h"
#pragma clang attribute pop
#else
typedef int gd_cpu_no_avx512bf16;
#endif
