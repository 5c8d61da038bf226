/* int8 activations with AMX: products of tiles for several rows. One row, or a few, take the kernels of AVX-512 VNNI, which such
 * processors have. */
#if defined(__x86_64__)
#include <immintrin.h>

#include "tables.h"

#define GD_INT8(KERNEL) gd_cpu_int8_amx_##KERNEL
#define GD_WIDTH 16
#define GD_FMA 1
#define GD_F16_AVX512 1
#define GD_DOT_AVX512VNNI 1
#define GD_DOT_AMX 1

#pragma clang attribute push( \
  __attribute__((target("avx,avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,gfni,amx-tile,amx-int8"))), \
  apply_to = function)
#include "template/int8.h"
#pragma clang attribute pop
#else
typedef int gd_cpu_no_int8_amx;
#endif
