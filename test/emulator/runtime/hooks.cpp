// The functions that -fsanitize=thread makes translated code call. The sanitizer's own runtime is not linked: these are
// ours, and check the rules for a GPU's threads. Shim code has no debug information, so a return address is the
// line of the .metal source that caused the access.
#include <cstdint>
#include <cstring>

#include "fault.h"
#include "fence.h"
#include "memory.h"
#include "scheduler.h"

namespace emu {
/// One function for each size and direction: nearly every access of a kernel comes through one of them.
template <unsigned bytes, bool write> void check_aligned(uintptr_t address, const void *pc);
void check_unaligned(uintptr_t address, unsigned bytes, bool write, const void *pc);
void look_at_clock(const void *pc);
void device_fence_now();
}  // namespace emu

using namespace emu;

#define PC __builtin_return_address(0)
#define HOOKS(N)                                                                         \
  void __tsan_read##N(void *p) { aligned<N, false>(uintptr_t(p), PC); }                  \
  void __tsan_write##N(void *p) { aligned<N, true>(uintptr_t(p), PC); }                  \
  void __tsan_unaligned_read##N(void *p) { unaligned(uintptr_t(p), N, false, PC); }      \
  void __tsan_unaligned_write##N(void *p) { unaligned(uintptr_t(p), N, true, PC); }

namespace {

/// A lane's own variables need no check, and are no memory whose accesses count: how many there are depends on what is inlined.
uint64_t own_accesses;
inline bool is_own(uintptr_t address, size_t bytes, const void *pc) {
  const uintptr_t from = address - stack_region.low;
  if (from >= stack_region.bytes || bytes > stack_region.bytes - from) return false;
  if (__builtin_expect((++own_accesses & 0xfffff) == 0, 0)) look_at_clock(pc);
  return true;
}

template <unsigned bytes, bool write> inline void aligned(uintptr_t address, const void *pc) {
  if (!is_own(address, bytes, pc)) check_aligned<bytes, write>(address, pc);
}

inline void unaligned(uintptr_t address, unsigned bytes, bool write, const void *pc) {
  if (!is_own(address, bytes, pc)) check_unaligned(address, bytes, write, pc);
}

void check_block(uintptr_t address, size_t bytes, bool write, const void *pc) {
  if (is_own(address, bytes, pc) || (!write && is_own_constant(address, bytes))) return;
  while (bytes > 0) {
    // The largest power of two that the address is aligned to, so that the history's grain stays what it was.
    unsigned part = 16;
    while (part > 1 && ((address & (part - 1)) != 0 || part > bytes)) part /= 2;
    check_unaligned(address, part, write, pc);
    address += part;
    bytes -= part;
  }
}

}  // namespace

extern "C" {

HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

void __tsan_init() {}

/// Called on entry of functions that were not inlined (-finstrument-functions-after-inlining): is there stack left?
void __cyg_profile_func_exit(void *, void *) {}
void __cyg_profile_func_enter(void *, void *) {
  const uintptr_t here = uintptr_t(__builtin_frame_address(0)) - stack_region.low;
  if (here < stack_region.bytes && here % stack_bytes < stack_margin) {
    fault_pc(PC, "stack overflow: recursion without end, or too many local variables");
  }
}

void *__tsan_memcpy(void *to, const void *from, size_t bytes) {
  check_block(uintptr_t(from), bytes, false, PC);
  check_block(uintptr_t(to), bytes, true, PC);
  return memcpy(to, from, bytes);
}
void *__tsan_memmove(void *to, const void *from, size_t bytes) {
  check_block(uintptr_t(from), bytes, false, PC);
  check_block(uintptr_t(to), bytes, true, PC);
  return memmove(to, from, bytes);
}
void *__tsan_memset(void *to, int value, size_t bytes) {
  check_block(uintptr_t(to), bytes, true, PC);
  return memset(to, value, bytes);
}

#define ATOMIC_FETCH(BITS, T, name, expression)                   \
  T __tsan_atomic##BITS##_fetch_##name(volatile T *p, T v, int) { \
    check_atomic(uintptr_t(p), sizeof(T), true, PC);              \
    const T old = *p;                                             \
    *p = T(expression);                                           \
    device_atomic_now(uintptr_t(p), true, true);                  \
    return old;                                                   \
  }
#define ATOMICS(BITS, T)                                                                   \
  T __tsan_atomic##BITS##_load(const volatile T *p, int) {                                 \
    check_atomic(uintptr_t(p), sizeof(T), false, PC);                                      \
    device_atomic_now(uintptr_t(p), true, false);                                          \
    count_spin(PC);                                                                        \
    return *p;                                                                             \
  }                                                                                        \
  void __tsan_atomic##BITS##_store(volatile T *p, T v, int) {                              \
    check_atomic(uintptr_t(p), sizeof(T), true, PC);                                       \
    *p = v;                                                                                \
    device_atomic_now(uintptr_t(p), false, true);                                               \
  }                                                                                        \
  T __tsan_atomic##BITS##_exchange(volatile T *p, T v, int) {                              \
    check_atomic(uintptr_t(p), sizeof(T), true, PC);                                       \
    const T old = *p;                                                                      \
    *p = v;                                                                                \
    device_atomic_now(uintptr_t(p), true, true);                                                \
    count_spin(PC);                                                                        \
    return old;                                                                            \
  }                                                                                        \
  T __tsan_atomic##BITS##_compare_exchange_val(volatile T *p, T expected, T v, int, int) { \
    check_atomic(uintptr_t(p), sizeof(T), true, PC);                                       \
    const T old = *p;                                                                      \
    if (old == expected)                                                                   \
      *p = v;                                                                              \
    else                                                                                   \
      count_spin(PC);                                                                      \
    device_atomic_now(uintptr_t(p), true, old == expected);                                     \
    return old;                                                                            \
  }                                                                                        \
  ATOMIC_FETCH(BITS, T, add, old + v)                                                      \
  ATOMIC_FETCH(BITS, T, sub, old - v)                                                      \
  ATOMIC_FETCH(BITS, T, and, old &v)                                                       \
  ATOMIC_FETCH(BITS, T, or, old | v)                                                       \
  ATOMIC_FETCH(BITS, T, xor, old ^ v)

}  // extern "C"

namespace {

/// Threads that have not run yet cannot make a lane's wait end, and other threadgroups run later: a lane that reads the
/// same atomic again and again will do so for ever.
uint64_t spins;
unsigned spinning_thread = ~0u;

void count_spin(const void *pc) {
  if (spinning_thread != scheduler.thread) {
    spinning_thread = scheduler.thread;
    spins = 0;
  }
  if (++spins > 20'000'000) {
    spins = 0;
    fault_pc(pc,
             "this thread waits for another in a loop on an atomic; threads and threadgroups have no guarantee of "
             "running side by side");
  }
}

}  // namespace

extern "C" {
ATOMICS(8, uint8_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)

void emu_fence(emu_site at, unsigned flags, unsigned order, unsigned scope) {
  (void)at;
  // A relaxed fence does nothing; a fence of narrower scope orders nothing between threadgroups.
  if ((flags & 1) && order != 0 && scope == 3) device_fence_now();
}

char *emu_threadgroup_memory() { return arena; }
}
