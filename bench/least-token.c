/* The least time of a token's work, as a share of reading its matrices (limits.md): two threads go through the matrices of model.md's folder, one after
 * another, and meet after each; they do the products and nothing else with what they read, read and write the states, and pause for JavaScript's time.
 * Everything is done in several orders of asking for memory, in turns, each against reading all bytes in one pass.
 *
 *     cc -O3 -D_GNU_SOURCE -o least-token least-token.c -lpthread && ./least-token int8-4|int8-8|exact-8 [seconds 20] [pause in us 500] */
#include <immintrin.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { LAYERS = 24, STATES = 18, STATE = 1 << 20, MOST = 2000, HUGE_PAGE = 2 << 20 };
typedef struct matrix { char *values, *factors; int64_t value_bytes, factor_bytes; } matrix;
static matrix matrices[8 * LAYERS];
static int count, bits;
static char *states;
static int64_t all_bytes;
static int pause_us = 500;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static char *memory(int64_t bytes) {
  char *all = mmap(NULL, bytes + 2 * HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) abort();
  if (bytes >= HUGE_PAGE) {
    all = (char *)(((uintptr_t)all + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
    madvise(all, bytes, MADV_HUGEPAGE);
  }
  memset(all, 3, bytes + HUGE_PAGE / 2);
  return all;
}

static void add(int64_t outputs, int64_t columns) {
  matrix *m = &matrices[count++];
  m->value_bytes = outputs * columns * bits / 8;
  m->factor_bytes = outputs * columns / 64 * 4;
  m->values = memory(m->value_bytes);
  m->factors = memory(m->factor_bytes);
  all_bytes += m->value_bytes + m->factor_bytes;
}

/* Orders of asking, as 128 bytes are read: nothing; 8 KiB ahead into the second cache; that, and 4 KiB ahead into the first; 2 KiB ahead into the first;
 * lines of the next four pages in turn, and of the next eight, alone and with 4 KiB ahead into the first. */
enum { NONE, FAR, FAR_NEAR, NEAR, FOUR, FOUR_NEAR, EIGHT, EIGHT_NEAR, ORDERS };
static const char *const order_names[] = {"nothing", "8 KiB, L2", "8 KiB, L2; 4 KiB, L1", "2 KiB, L1", "4 pages", "4 pages; 4 KiB, L1", "8 pages", "8 pages; 4 KiB, L1"};
enum { READ, INT8_4, INT8_8, EXACT_8 };
static const char *const work_names[] = {"read", "int8-4", "int8-8", "exact-8"};

#define INLINE static inline __attribute__((always_inline))
INLINE void ask(const char *at, int order) {
  if (order == FAR || order == FAR_NEAR) __builtin_prefetch(at + 8192, 0, 2), __builtin_prefetch(at + 8192 + 64, 0, 2);
  if (order == NEAR) __builtin_prefetch(at + 2048), __builtin_prefetch(at + 2048 + 64);
  if (order == FAR_NEAR || order == FOUR_NEAR || order == EIGHT_NEAR) __builtin_prefetch(at + 4096), __builtin_prefetch(at + 4096 + 64);
  if (order >= FOUR) {
    const int pages = order >= EIGHT ? 8 : 4;
    uintptr_t all = 4096 * (uintptr_t)pages, line = (uintptr_t)at % all / 64;
    for (uintptr_t k = line; k < line + 2; k++) __builtin_prefetch((const char *)(((uintptr_t)at & ~(all - 1)) + all + k % pages * 4096 + k / pages * 64), 0, 2);
  }
}

#define TARGET_512 __attribute__((target("avx512f,avx512bw,avx512vnni,avx512vbmi")))
#define TARGET_256 __attribute__((target("avx2,fma")))

TARGET_512 INLINE __m512i go_512(const char *at, int64_t bytes, int order, int work, const __m512i *x) {
  const __m512i low = _mm512_set1_epi8(15), lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  __m512i a = _mm512_setzero_si512(), b = a;
  __m512 f[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()};
  for (int64_t i = 0; i + 128 <= bytes; i += 128) {
    const char *line = at + i;
    const __m512i *own = x + (i >> 5 & 12);
    ask(line, order);
    for (int v = 0; v < 128 / 64; v++) {
      __m512i own_bytes = _mm512_loadu_si512(line + 64 * v);
      if (work == EXACT_8) {
        for (int q = 0; q < 4; q++) {
          /* Each byte to a lane of its own, which is a number of a fixed exponent once that is added. */
          __m512i numbers = _mm512_maskz_permutexvar_epi8(0x1111111111111111, _mm512_add_epi32(lanes, _mm512_set1_epi32(16 * q)), own_bytes);
          f[q] = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_add_epi32(numbers, low)), _mm512_castsi512_ps(own[q]), f[q]);
        }
      }
      if (work == READ) a = _mm512_xor_si512(a, own_bytes);
      if (work == INT8_8) a = _mm512_dpbusd_epi32(a, own_bytes, own[v]);
      if (work == INT8_4) {
        a = _mm512_dpbusd_epi32(a, _mm512_and_si512(own_bytes, low), own[2 * v]);
        b = _mm512_dpbusd_epi32(b, _mm512_and_si512(_mm512_srli_epi16(own_bytes, 4), low), own[2 * v + 1]);
      }
    }
  }
  for (int q = 0; q < 4; q++) a = _mm512_xor_si512(a, _mm512_castps_si512(f[q]));
  return _mm512_xor_si512(a, b);
}

TARGET_256 INLINE __m256i go_256(const char *at, int64_t bytes, int order, int work, const __m256i *x) {
  const __m256i low = _mm256_set1_epi8(15);
  __m256i a = _mm256_setzero_si256(), b = a;
  __m256 f[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
  for (int64_t i = 0; i + 128 <= bytes; i += 128) {
    const char *line = at + i;
    const __m256i *own = x + (i >> 4 & 24);
    ask(line, order);
    for (int v = 0; v < 128 / 32; v++) {
      if (work == EXACT_8) {
        for (int q = 0; q < 4; q++) {
          __m256 numbers = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(line + 32 * v + 8 * q))));
          f[q] = _mm256_fmadd_ps(numbers, _mm256_castsi256_ps(own[q]), f[q]);
        }
        continue;
      }
      __m256i own_bytes = _mm256_loadu_si256((const __m256i *)(line + 32 * v));
      if (work == READ) a = _mm256_xor_si256(a, own_bytes);
      if (work == INT8_8) a = _mm256_add_epi16(a, _mm256_maddubs_epi16(_mm256_abs_epi8(own_bytes), _mm256_sign_epi8(own[v], own_bytes)));
      if (work == INT8_4) {
        a = _mm256_add_epi16(a, _mm256_maddubs_epi16(_mm256_and_si256(own_bytes, low), own[2 * v]));
        b = _mm256_add_epi16(b, _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(own_bytes, 4), low), own[2 * v + 1]));
      }
    }
  }
  for (int q = 0; q < 4; q++) a = _mm256_xor_si256(a, _mm256_castps_si256(f[q]));
  return _mm256_xor_si256(a, b);
}

static _Alignas(64) char numbers_of_x[4096];
static volatile int sink;
#define CASE(WIDTH, VECTOR, ORDER) case ORDER: result = go_##WIDTH(at, bytes, ORDER, work, (const VECTOR *)numbers_of_x); break;
#define CASES(WIDTH, VECTOR)                                                                                                                \
  CASE(WIDTH, VECTOR, NONE) CASE(WIDTH, VECTOR, FAR) CASE(WIDTH, VECTOR, FAR_NEAR) CASE(WIDTH, VECTOR, NEAR) CASE(WIDTH, VECTOR, FOUR)      \
  CASE(WIDTH, VECTOR, FOUR_NEAR) CASE(WIDTH, VECTOR, EIGHT) CASE(WIDTH, VECTOR, EIGHT_NEAR)
#define GO(WORK, NAME)                                                                                          \
  TARGET_512 __attribute__((noinline)) static void NAME##_512(const char *at, int64_t bytes, int order) {      \
    const int work = WORK;                                                                                      \
    __m512i result = _mm512_setzero_si512();                                                                    \
    switch (order) { CASES(512, __m512i) }                                                                      \
    sink ^= _mm512_reduce_add_epi32(result);                                                                    \
  }                                                                                                             \
  TARGET_256 __attribute__((noinline)) static void NAME##_256(const char *at, int64_t bytes, int order) {      \
    const int work = WORK;                                                                                      \
    __m256i result = _mm256_setzero_si256();                                                                    \
    switch (order) { CASES(256, __m256i) }                                                                      \
    sink ^= _mm256_extract_epi32(result, 0);                                                                    \
  }
GO(READ, go_read)
GO(INT8_4, go_int8_4)
GO(INT8_8, go_int8_8)
GO(EXACT_8, go_exact_8)
typedef void go_of(const char *at, int64_t bytes, int order);
static go_of *const all_256[] = {go_read_256, go_int8_4_256, go_int8_8_256, go_exact_8_256}, *const all_512[] = {go_read_512, go_int8_4_512, go_int8_8_512, go_exact_8_512};
static go_of *const *go;

TARGET_256 static void write_state(char *at, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 32) {
    _mm256_store_si256((__m256i *)(at + i), _mm256_xor_si256(_mm256_load_si256((const __m256i *)(at + i)), _mm256_set1_epi8(1)));
  }
}

static atomic_int arrived, meeting, turn, ended;
static void meet(void) {
  int now_on = atomic_load(&meeting);
  if (atomic_fetch_add(&arrived, 1) == 1) {
    atomic_store(&arrived, 0);
    atomic_store(&meeting, now_on + 1);
  } else {
    while (atomic_load(&meeting) == now_on) _mm_pause();
  }
}

static int is_token, work, order;
/* One thread's half. A token's states come after each of the first matrices. */
static void half(int thread) {
  for (int i = 0; i < count; i++) {
    matrix m = matrices[i];
    int64_t values = m.value_bytes / 2 / 64 * 64, factors = m.factor_bytes / 2 / 64 * 64;
    go[is_token ? work : READ](m.values + thread * values, values, order);
    go[READ](m.factors + thread * factors, factors, order);
    if (!is_token) continue;
    meet();
    if (i >= STATES) continue;
    write_state(states + (int64_t)i * STATE + thread * (STATE / 2), STATE / 2);
    meet();
  }
  if (!is_token) return;
  for (double end = now() + 1e-6 * pause_us; now() < end;) _mm_pause();
}

static void *helper(void *unused) {
  (void)unused;
  for (int seen = 0;; seen++) {
    while (atomic_load(&turn) == seen) _mm_pause();
    half(1);
    atomic_fetch_add(&ended, 1);
  }
  return NULL;
}

static int by_value(const void *a, const void *b) { return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }

int main(int given, char **arguments) {
  for (work = INT8_4; work <= EXACT_8 && (given < 2 || strcmp(arguments[1], work_names[work]) != 0); work++) {}
  if (work > EXACT_8) return fprintf(stderr, "int8-4, int8-8 or exact-8?\n"), 1;
  double seconds = given > 2 ? atof(arguments[2]) : 20;
  if (given > 3) pause_us = atoi(arguments[3]);
  bits = work == INT8_4 ? 4 : 8;
  go = __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi") && getenv("AVX2") == NULL ? all_512 : all_256;
  for (int layer = 0; layer < LAYERS; layer++) {
    if (layer % 4 != 3) add(6144, 1024), add(2048, 1024);
    else add(4096, 1024), add(1024, 1024);
    add(1024, 2048), add(7168, 1024), add(1024, 3584);
  }
  add(248320, 1024);
  states = memory((int64_t)STATES * STATE);
  memset(numbers_of_x, 1, sizeof numbers_of_x);
  pthread_t thread;
  if (pthread_create(&thread, NULL, helper, NULL) != 0) abort();
  static double times[2][ORDERS][MOST];
  int rounds = 0;
  for (double end = now() + seconds; rounds < MOST && now() < end; rounds++) {
    for (int k = 0; k < 2 * ORDERS; k++) {
      int chosen = (k + rounds) % (2 * ORDERS);
      order = chosen / 2, is_token = chosen % 2;
      atomic_store(&ended, 0);
      double since = now();
      atomic_fetch_add(&turn, 1);
      half(0);
      while (atomic_load(&ended) == 0) _mm_pause();
      times[is_token][order][rounds] = now() - since;
    }
  }
  double medians[2] = {1e9, 1e9}, leasts[2] = {1e9, 1e9};
  printf("%s, %.0f MB, %d rounds, %s: ms, least and median\n", work_names[work], 1e-6 * (double)all_bytes, rounds, go == all_512 ? "AVX-512 VNNI" : "AVX2");
  for (int o = 0; o < ORDERS; o++) {
    printf("%-22s", order_names[o]);
    for (int k = 0; k < 2; k++) {
      qsort(times[k][o], (size_t)rounds, sizeof(double), by_value);
      double least = times[k][o][0], median = times[k][o][rounds / 2];
      if (least < leasts[k]) leasts[k] = least;
      if (median < medians[k]) medians[k] = median;
      printf("  %s %6.2f %6.2f (%.1f GB/s)", k ? "token" : "reading", 1e3 * least, 1e3 * median, 1e-9 * (double)all_bytes / median);
    }
    puts("");
  }
  printf("the best orders: a token has %.1f %% of reading by medians, %.1f %% by leasts\n", 100 * medians[0] / medians[1], 100 * leasts[0] / leasts[1]);
}
