/* Shared by the files of this folder only. */
#ifndef GATED_DELTA_CPU_TABLES_H
#define GATED_DELTA_CPU_TABLES_H

#include "cpu_kernels.h"

#if defined(__x86_64__)
extern const gd_cpu_kernels gd_cpu_amx, gd_cpu_avx512bf16, gd_cpu_avx512vnni, gd_cpu_avx512, gd_cpu_avxvnni, gd_cpu_avx2;
#endif
#if defined(__aarch64__)
extern const gd_cpu_kernels gd_cpu_neondot, gd_cpu_neon;
#else
extern const gd_cpu_kernels gd_cpu_baseline;
#endif

/* The initial state of a head, never written. It is not const because its zeros would take space in the library's file. */
extern float gd_cpu_zeros[GD_CPU_MAX_DIM * GD_CPU_MAX_DIM];

/* Moves bytes: the same for every instruction set. */
void gd_cpu_copy_slots_run(const void *op, int64_t begin, int64_t end, void *scratch, const uint32_t *stop);

/* The kernels of int8 activations. */
#define GD_INT8_KERNELS(ISA)                                                                              \
  gd_cpu_run gd_cpu_int8_##ISA##_rows, gd_cpu_int8_##ISA##_linear, gd_cpu_int8_##ISA##_expert_linear; \
  int64_t gd_cpu_int8_##ISA##_turned_bytes(uint32_t format, int64_t rows, int64_t columns)
#if defined(__x86_64__)
GD_INT8_KERNELS(amx);
GD_INT8_KERNELS(avx512vnni);
GD_INT8_KERNELS(avx512);
GD_INT8_KERNELS(avxvnni);
GD_INT8_KERNELS(avx2);
#endif
#if defined(__aarch64__)
GD_INT8_KERNELS(neondot);
GD_INT8_KERNELS(neon);
#else
GD_INT8_KERNELS(baseline);
#endif
#undef GD_INT8_KERNELS

/* The number of pages of memory that the processor reads faster in turn than one after another: Intel's processors prefetch within a page
 * only. 0 for other processors. Written before any kernel runs. */
extern __attribute__((visibility("hidden"))) int gd_cpu_asks_by_pages;
/* Whether an AVX-512 processor's vector units have 512 bits: on Intel's, and on most of AMD's from Zen 5 on. Then several int8
 * rows are lanes with VBMI (int8_turned_dots.h), numbers of small blocks for one row are asked for into the first cache, and up
 * to 24 rows by floats have no panels (linear.h). Written as early. */
extern __attribute__((visibility("hidden"))) int gd_cpu_is_wide;
/* Whether the processor has AVX-512 VBMI and GFNI, which int8 kernels use besides their set's instructions. Written as early. */
extern __attribute__((visibility("hidden"))) int gd_cpu_has_vbmi;

/* Monotonic time. */
uint64_t gd_cpu_nanoseconds(void);

/* True if the work must end: see gd_cpu_run. */
static inline __attribute__((always_inline, unused)) int gd_cpu_stopped(const uint32_t *stop) {
  return __atomic_load_n(stop, __ATOMIC_RELAXED) != 0;
}

#endif
