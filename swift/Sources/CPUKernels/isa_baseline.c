/* The instructions that every processor of the architecture has (SSE2 on x86-64): 4 floats per vector, no fused multiply-add. */
#if !defined(__aarch64__)
#include "tables.h"

#define GD_TABLE gd_cpu_baseline
#define GD_ISA_NAME "baseline"
#define GD_ISA_INT8 baseline
#define GD_WIDTH 4
#define GD_FMA 0

/* Emulated multiply-adds take most of the time here, and their code, unrolled, an eighth of the library. */
#pragma clang attribute push(__attribute__((minsize)), apply_to = function)
#include "template/kernels.h"
#pragma clang attribute pop
#else
typedef int gd_cpu_no_baseline;
#endif
