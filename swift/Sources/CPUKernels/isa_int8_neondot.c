/* int8 activations with the dot products of Armv8.4: four products per lane. */
#if defined(__aarch64__)
#include <arm_neon.h>

#include "tables.h"

#define GD_INT8(KERNEL) gd_cpu_int8_neondot_##KERNEL
#define GD_WIDTH 4
#define GD_FMA 1
#define GD_F16_NEON 1
#define GD_DOT_NEON 1

#pragma clang attribute push(__attribute__((target("dotprod"))), apply_to = function)
#include "template/int8.h"
#pragma clang attribute pop
#else
typedef int gd_cpu_no_int8_neondot;
#endif
