/* int8 activations with NEON. */
#if defined(__aarch64__)
#include <arm_neon.h>

#include "tables.h"

#define GD_INT8(KERNEL) gd_cpu_int8_neon_##KERNEL
#define GD_WIDTH 4
#define GD_FMA 1
#define GD_F16_NEON 1

#include "template/int8.h"
#else
typedef int gd_cpu_no_int8_neon;
#endif
