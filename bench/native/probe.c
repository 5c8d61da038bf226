/* The limits of this machine: memory streamed in place, copied and summed, and fused multiply-adds from registers.
 * The benchmarks divide by it. It is not part of the library.
 *
 * Build: clang -O3 -std=gnu17 -shared -fPIC probe.c -o libprobe.so -lpthread */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#if defined(__APPLE__)
#define ANONYMOUS MAP_ANON
#else
#define ANONYMOUS MAP_ANONYMOUS
#endif

typedef struct variant {
  const char *name;
  int32_t width; /* floats in a vector */
  /* pattern 0: a ← a·s; 1: a ← b·s; 2: a ← b·s + c; 3: Σ a. Which way of doing so is fastest differs between processors
   * and between caches and memory, so there are several. way: 1 prefetches a page ahead, 2 goes through four parts at
   * once, 4 stores past the caches. */
  float (*stream)(int pattern, int way, float *a, const float *b, const float *c, int64_t floats, float s);
  /* Returns a number that depends on every multiply-add. */
  float (*multiply_add)(int64_t rounds, float x, float y);
} variant;

/* Sums per round, for the count: enough independent chains to fill the pipes of every core that is known, and few enough that they
 * stay in registers with the factor and the term. */
#if defined(__x86_64__)
#define CHAINS 12 /* of 16 registers below AVX-512; two units of four cycles need eight */
#else
#define CHAINS 16
#endif

#if defined(__x86_64__)
#define NAME(x) x##_avx512
#define ISA "avx512"
#define WIDTH 16
#define FUSED 1
#pragma clang attribute push(__attribute__((target("avx512f,avx512vl,fma"))), apply_to = function)
#include "probe_kernels.h"
#pragma clang attribute pop
#define NAME(x) x##_avx2
#define ISA "avx2"
#define WIDTH 8
#define FUSED 1
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#include "probe_kernels.h"
#pragma clang attribute pop
#define NAME(x) x##_baseline
#define ISA "baseline"
#define WIDTH 4
#define FUSED 0
#include "probe_kernels.h"
#else
#define NAME(x) x##_neon
#define ISA "neon"
#define WIDTH 4
#define FUSED 1
#include "probe_kernels.h"
#endif

static variant chosen(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512vl")) return variant_avx512();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return variant_avx2();
  return variant_baseline();
#else
  return variant_neon();
#endif
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One measurement: every thread does its share of each pass, and no pass begins before the last one has ended everywhere. */
typedef struct job {
  variant use;
  int pattern, way; /* pattern -1: multiply-adds */
  float *a;
  const float *b, *c;
  int64_t floats, rounds;
  int32_t threads, passes;
  double *seconds;
  _Atomic int32_t arrived, phase;
  _Atomic float sink;
} job;

static void barrier(job *j) {
  int32_t phase = atomic_load_explicit(&j->phase, memory_order_relaxed);
  if (atomic_fetch_add(&j->arrived, 1) + 1 == j->threads) {
    atomic_store_explicit(&j->arrived, 0, memory_order_relaxed);
    atomic_store_explicit(&j->phase, phase + 1, memory_order_release);
    return;
  }
  /* A thread without a core of its own must not keep the others from theirs. */
  for (int spins = 0; atomic_load_explicit(&j->phase, memory_order_acquire) == phase; spins++) {
    if (spins > 2000) sched_yield();
  }
}

static void work(job *j, int32_t thread) {
  int64_t blocks = j->floats / 16;
  int64_t from = 16 * (blocks * thread / j->threads), to = 16 * (blocks * (thread + 1) / j->threads);
  float scale = 1.0f;
  __asm__ volatile("" : "+m"(scale)); /* else the compiler would leave the pass out */
  for (int32_t pass = 0; pass < j->passes; pass++) {
    barrier(j);
    double since = now();
    float result = j->pattern >= 0 ? j->use.stream(j->pattern, j->way, j->a + from, j->b + from, j->c + from, to - from, scale)
                                   : j->use.multiply_add(j->rounds, scale, 1e-9f);
    atomic_store_explicit(&j->sink, result, memory_order_relaxed);
    barrier(j);
    if (thread == 0) j->seconds[pass] = now() - since;
  }
}

typedef struct seat {
  job *j;
  int32_t thread;
} seat;

static void *helper(void *argument) {
  seat *s = argument;
  work(s->j, s->thread);
  return NULL;
}

#define MOST_THREADS 1024

/* Runs a job; 0, or -1 if its threads could not be started. */
static int run(job *j) {
  static pthread_t ids[MOST_THREADS];
  static seat seats[MOST_THREADS];
  if (j->threads < 1 || j->threads > MOST_THREADS || j->passes < 1) return -1;
  for (int32_t i = 1; i < j->threads; i++) {
    seats[i] = (seat){j, i};
    /* Those already started wait for it at the barrier and can't be called back. */
    if (pthread_create(&ids[i], NULL, helper, &seats[i]) != 0) abort();
  }
  work(j, 0);
  for (int32_t i = 1; i < j->threads; i++) pthread_join(ids[i], NULL);
  return 0;
}

#define EXPORT __attribute__((visibility("default")))

/* Memory as the library's own is: whole pages, huge ones if the system has them, touched. NULL if there is none. */
EXPORT float *probe_allocate(uint64_t bytes) {
  uint64_t huge = 2u << 20, padded = (bytes + 2 * huge - 1) / huge * huge;
  char *start = mmap(NULL, padded, PROT_READ | PROT_WRITE, MAP_PRIVATE | ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) return NULL;
  start += (huge - (uintptr_t)start % huge) % huge;
#if defined(MADV_HUGEPAGE)
  madvise(start, bytes, MADV_HUGEPAGE);
#endif
  float *floats = (float *)start;
  for (uint64_t i = 0; i < bytes / 4; i++) floats[i] = 1.0f;
  return floats;
}

#define WAYS_THERE_ARE 8

/* Streams `floats` floats (of each array) `passes` times, in one of 8 ways; `seconds` gets the time of each pass. */
EXPORT int32_t probe_stream(int32_t pattern, int32_t way, float *a, float *b, float *c, int64_t floats, int32_t threads,
                            int32_t passes, double *seconds) {
  if (pattern < 0 || pattern > 3 || way < 0 || way >= WAYS_THERE_ARE) return -1;
  job j = {.use = chosen(), .pattern = pattern, .way = way, .a = a, .b = b, .c = c, .floats = floats};
  j.threads = threads, j.passes = passes, j.seconds = seconds;
  return run(&j);
}

/* Fused multiply-adds (one float each) that a pass of `rounds` does on every thread. */
EXPORT double probe_multiply_adds(int64_t rounds) {
  return (double)rounds * CHAINS * chosen().width;
}

EXPORT int32_t probe_peak(int64_t rounds, int32_t threads, int32_t passes, double *seconds) {
  job j = {.use = chosen(), .pattern = -1, .rounds = rounds, .threads = threads, .passes = passes, .seconds = seconds};
  return run(&j);
}

EXPORT const char *probe_name(void) { return chosen().name; }
