/* The processor and the system: the instruction set, the floating-point mode, the cores. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1
#endif
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#endif

#include "tables.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <xmmintrin.h>

static uint64_t enabled_state(void) {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t)high << 32 | low;
}

/* Asks the system for the registers of AMX, which a process has by permission only (Linux 5.16 and later). The system
 * refuses if a thread has a stack for signals that is too small for them. */
static int may_use_tiles(void) {
#if defined(__linux__)
  enum { ASK = 0x1023, TILES = 18 }; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */
  return syscall(SYS_arch_prctl, ASK, TILES) == 0;
#else
  return 0;
#endif
}

/* The processor's instructions, less those whose registers the operating system does not save. */
typedef struct x86_sets {
  int avx2, avxvnni, avx512, avx512vnni, avx512bf16, amx;
} x86_sets;

static x86_sets detect(void) {
  unsigned a, b, c, d;
  x86_sets sets = {0};
  if (!__get_cpuid(1, &a, &b, &c, &d)) return sets;
  if ((c & (bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C)) != (bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C)) return sets;
  uint64_t state = enabled_state();
  if ((state & 0x6) != 0x6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return sets;
  sets.avx2 = (b & bit_AVX2) != 0;
  unsigned wanted = bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ;
  sets.avx512 = sets.avx2 && (b & wanted) == wanted && (state & 0xe6) == 0xe6;
  sets.avx512vnni = sets.avx512 && (c & bit_AVX512VNNI) != 0;
  unsigned tiles = 1u << 24 | 1u << 25; /* bit_AMXTILE, bit_AMXINT8 */
  int has_tiles = (d & tiles) == tiles && (c & bit_GFNI) != 0 && (state & 0x60000) == 0x60000;
  /* Leaf 7 says in its first part how many parts it has. */
  if (a < 1 || !__get_cpuid_count(7, 1, &a, &b, &c, &d)) return sets;
  sets.avxvnni = sets.avx2 && (a & bit_AVXVNNI) != 0;
  sets.avx512bf16 = sets.avx512vnni && (a & bit_AVX512BF16) != 0;
  sets.amx = sets.avx512bf16 && has_tiles;
  return sets;
}
#endif

#if defined(__aarch64__)
static int has_dot_products(void) {
#if defined(__linux__)
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#else
  return 1; /* every Apple silicon */
#endif
}
#endif

int gd_cpu_asks_by_pages, gd_cpu_has_vbmi, gd_cpu_is_wide;
#if defined(__x86_64__)
__attribute__((constructor)) static void find_properties(void) {
  unsigned a, b, c, d;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) gd_cpu_has_vbmi = (c & bit_AVX512VBMI) != 0 && (c & bit_GFNI) != 0;
  unsigned version = __get_cpuid(1, &a, &b, &c, &d) ? a : 0;
  if (!__get_cpuid(0, &a, &b, &c, &d)) return;
  if (b == signature_INTEL_ebx && c == signature_INTEL_ecx && d == signature_INTEL_edx) {
    /* As measured (bench/linear/memory.md): family 6, model 207 is Emerald Rapids. */
    gd_cpu_asks_by_pages = (version & 0x0fff0ff0) == 0x000c06f0 ? 4 : 8;
    gd_cpu_is_wide = 1;
  } else if (b == signature_AMD_ebx && c == signature_AMD_ecx && d == signature_AMD_edx) {
    /* Family 26 is Zen 5 and later. Of its models 0x20 to 0x2f and 0x60 to 0x6f, for laptops, units have 256 bits. */
    unsigned family = (version >> 8 & 0xf) + (version >> 20 & 0xff), models = version >> 16 & 0xf;
    gd_cpu_is_wide = family == 26 && models != 2 && models != 6;
  }
}
#endif

/* A device that opens later finds them set, as kernels may run. */
int gd_cpu_ask_by_pages(int32_t pages) {
  if (pages != 0 && pages != 4 && pages != 8) return 0;
  if (gd_cpu_asks_by_pages != pages) gd_cpu_asks_by_pages = pages;
  return 1;
}
int gd_cpu_take_as_wide(int32_t wide) {
  if (wide != 0 && wide != 1) return 0;
  if (gd_cpu_is_wide != wide) gd_cpu_is_wide = wide;
  return 1;
}

static const gd_cpu_kernels *table_at(int32_t index) {
#if defined(__x86_64__)
  x86_sets sets = detect();
  if (index == 0) return sets.amx && may_use_tiles() ? &gd_cpu_amx : NULL;
  if (index == 1) return sets.avx512bf16 ? &gd_cpu_avx512bf16 : NULL;
  if (index == 2) return sets.avx512vnni ? &gd_cpu_avx512vnni : NULL;
  if (index == 3) return sets.avx512 ? &gd_cpu_avx512 : NULL;
  if (index == 4) return sets.avxvnni ? &gd_cpu_avxvnni : NULL;
  if (index == 5) return sets.avx2 ? &gd_cpu_avx2 : NULL;
  if (index == 6) return &gd_cpu_baseline;
#elif defined(__aarch64__)
  if (index == 7) return has_dot_products() ? &gd_cpu_neondot : NULL;
  if (index == 8) return &gd_cpu_neon;
#else
  if (index == 6) return &gd_cpu_baseline;
#endif
  return NULL;
}

static const char *const isa_names[] = {"amx", "avx512bf16", "avx512vnni", "avx512", "avxvnni", "avx2", "baseline", "neondot", "neon"};
enum { ISA_COUNT = sizeof isa_names / sizeof isa_names[0] };

const char *gd_cpu_isa_name(int32_t index) { return index >= 0 && index < ISA_COUNT ? isa_names[index] : NULL; }

const gd_cpu_kernels *gd_cpu_kernels_named(const char *name) {
  for (int32_t i = 0; i < ISA_COUNT; i++) {
    if (strcmp(name, isa_names[i]) == 0) return table_at(i);
  }
  return NULL;
}

const gd_cpu_kernels *gd_cpu_kernels_best(void) {
  for (int32_t i = 0; i < ISA_COUNT; i++) {
    const gd_cpu_kernels *table = table_at(i);
    if (table != NULL) return table;
  }
  return NULL;
}

#if defined(__x86_64__)
/* Round to nearest, denormals kept, exceptions masked: the mode in which the x86-64 ABI starts a thread. */
enum { MODE = 0x1f80 };

uint64_t gd_cpu_float_environment_enter(void) {
  uint32_t before = _mm_getcsr();
  /* The flags that record exceptions don't matter; setting the mode again would cost more than asking. */
  if ((before & ~0x3fu) != MODE) _mm_setcsr(MODE);
  return before;
}
void gd_cpu_float_environment_leave(uint64_t before) {
  if (((uint32_t)before & ~0x3fu) != MODE) _mm_setcsr((uint32_t)before);
}
void gd_cpu_pause(void) { _mm_pause(); }
#elif defined(__aarch64__)
uint64_t gd_cpu_float_environment_enter(void) {
  uint64_t before;
  __asm__ volatile("mrs %0, fpcr" : "=r"(before));
  if (before != 0) __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
  return before;
}
void gd_cpu_float_environment_leave(uint64_t before) {
  if (before != 0) __asm__ volatile("msr fpcr, %0" : : "r"(before));
}
void gd_cpu_pause(void) { __asm__ volatile("yield"); }
#else
uint64_t gd_cpu_float_environment_enter(void) { return 0; }
void gd_cpu_float_environment_leave(uint64_t before) { (void)before; }
void gd_cpu_pause(void) {}
#endif

void gd_cpu_brand(char *name, size_t size) {
  if (size == 0) return;
  name[0] = 0;
#if defined(__x86_64__)
  unsigned words[13] = {0};
  if (__get_cpuid_max(0x80000000u, NULL) < 0x80000004u) return;
  for (unsigned i = 0; i < 3; i++) {
    __get_cpuid(0x80000002u + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2], &words[4 * i + 3]);
  }
  const char *text = (const char *)words;
  while (*text == ' ') text++;
  size_t length = strlen(text);
  while (length > 0 && text[length - 1] == ' ') length--;
  if (length >= size) length = size - 1;
  memcpy(name, text, length);
  name[length] = 0;
#endif
}

int32_t gd_cpu_usable_cores(void) {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
#endif
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (int32_t)online : 1;
}

uint64_t gd_cpu_nanoseconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

#if defined(__linux__)
/* The total time that the calling thread has waited for a core, in nanoseconds; negative if the system does not say. */
static int64_t waited_for_core(void) {
  char text[96];
  int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0) return -1;
  text[length] = 0;
  /* Time on a core, time waited for one, times put on one. */
  const char *space = strchr(text, ' ');
  return space != NULL ? strtoll(space, NULL, 10) : -1;
}
#endif

int32_t gd_cpu_lost_core(void) {
#if defined(__linux__)
  /* Nanoseconds, and a fraction of the time, that a thread may wait without this counting as contention. */
  enum { SHORT = 200000, SHARE = 10 };
  static _Thread_local long seen = -1;
  static _Thread_local int64_t waited, since;
  struct rusage usage;
  if (getrusage(RUSAGE_THREAD, &usage) != 0 || usage.ru_nivcsw == seen) return 0;
  int64_t wait = waited_for_core(), now = (int64_t)gd_cpu_nanoseconds();
  /* When all cores are in use, a thread of this process that checks whether the work is done takes one for a moment, which
   * is not contention. Other work takes a core for milliseconds. */
  int32_t lost = seen >= 0 && (wait < 0 || (wait - waited >= SHORT && wait - waited >= (now - since) / SHARE));
  seen = usage.ru_nivcsw;
  waited = wait;
  since = now;
  return lost;
#else
  return 0;
#endif
}

void gd_cpu_name_thread(const char *name) {
#if defined(__APPLE__)
  pthread_setname_np(name);
#elif defined(__linux__)
  pthread_setname_np(pthread_self(), name);
#else
  (void)name;
#endif
}
