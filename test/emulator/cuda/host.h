// Just enough of CUDA's language for a C++ compiler to read translated kernels: a check on machines without a card and
// CUDA.
#pragma once
#define __forceinline__ inline __attribute__((__always_inline__))
#define __global__
#define __shared__
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__
#define __launch_bounds__(n)
#define asm(...) ((void)0)
struct emu_host_dimensions {
  unsigned x, y, z;
};
extern emu_host_dimensions threadIdx, blockIdx, blockDim, gridDim;
extern "C" void *memcpy(void *, const void *, unsigned long);
void __syncthreads();
void __syncwarp();
void __threadfence();
template <class T> T __shfl_sync(unsigned, T, int);
template <class T> T __shfl_xor_sync(unsigned, T, int);
int __all_sync(unsigned, int);
int __any_sync(unsigned, int);
int __popc(unsigned);
int __clz(int);
int __ffs(int);
float __int_as_float(int);
float __uint_as_float(unsigned);
float expf(float), exp2f(float), logf(float), log2f(float), sqrtf(float), sinf(float), cosf(float), tanhf(float),
    fabsf(float), floorf(float), ceilf(float), truncf(float);
float roundf(float), rintf(float), fmaf(float, float, float), powf(float, float), fmodf(float, float),
    copysignf(float, float), ldexpf(float, int), fmaxf(float, float);
float fminf(float, float);
double fma(double, double, double);
template <class T> T atomicExch(T *, T);
template <class T> T atomicAdd(T *, T);
template <class T> T atomicMax(T *, T);
template <class T> T atomicMin(T *, T);
template <class T> T atomicAnd(T *, T);
template <class T> T atomicOr(T *, T);
template <class T> T atomicXor(T *, T);
