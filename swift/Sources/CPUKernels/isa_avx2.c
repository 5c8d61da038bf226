/* AVX2 with FMA and F16C: 8 floats per vector, 16 registers. Processors since 2013 (Haswell, Zen). A second table is for those with
 * AVX-VNNI (Alder Lake, Zen 5). */
#if defined(__x86_64__)
#include <immintrin.h>

#include "tables.h"

#define GD_TABLE gd_cpu_avx2
#define GD_ISA_NAME "avx2"
#define GD_ISA_INT8 avx2
#define GD_DOT_TABLE gd_cpu_avxvnni
#define GD_DOT_NAME "avxvnni"
#define GD_DOT_INT8 avxvnni
#define GD_WIDTH 8
#define GD_FMA 1
#define GD_F16_F16C 1

#pragma clang attribute push(__attribute__((target("avx,avx2,fma,f16c"))), apply_to = function)
#include "template/kernels.h"
#pragma clang attribute pop
#else
typedef int gd_cpu_no_avx2;
#endif
