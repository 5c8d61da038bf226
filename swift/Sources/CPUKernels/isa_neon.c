/* NEON: 4 floats per vector, 32 registers, on every aarch64 processor. A second table is for those with dot products of
 * bytes (Armv8.4, Apple M1). */
#if defined(__aarch64__)
#include <arm_neon.h>

#include "tables.h"

#define GD_TABLE gd_cpu_neon
#define GD_ISA_NAME "neon"
#define GD_ISA_INT8 neon
#define GD_DOT_TABLE gd_cpu_neondot
#define GD_DOT_NAME "neondot"
#define GD_DOT_INT8 neondot
#define GD_WIDTH 4
#define GD_FMA 1
#define GD_F16_NEON 1

#include "template/kernels.h"
#else
typedef int gd_cpu_no_neon;
#endif
