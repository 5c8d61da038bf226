/* int8 activations with AVX2 and AVX-VNNI: four products per lane. */
#if defined(__x86_64__)
#include <immintrin.h>

#include "tables.h"

#define GD_INT8(KERNEL) gd_cpu_int8_avxvnni_##KERNEL
#define GD_WIDTH 8
#define GD_FMA 1
#define GD_F16_F16C 1
#define GD_DOT_AVXVNNI 1

#pragma clang attribute push(__attribute__((target("avx,avx2,fma,f16c,avxvnni"))), apply_to = function)
#include "template/int8.h"
#pragma clang attribute pop
#else
typedef int gd_cpu_no_int8_avxvnni;
#endif
