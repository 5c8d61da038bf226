/* int8 activations with the instructions that every processor of the architecture has. */
#if !defined(__aarch64__)
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "tables.h"

#define GD_INT8(KERNEL) gd_cpu_int8_baseline_##KERNEL
#define GD_WIDTH 4
#define GD_FMA 0

#include "template/int8.h"
#else
typedef int gd_cpu_no_int8_baseline;
#endif
