// <metal_compute> barriers and <metal_atomic>.
#ifndef EMU_SYNCHRONISATION_H
#define EMU_SYNCHRONISATION_H

#include "simd.h"

#ifdef EMU_TYPED
#define EMU_SPACES(M) M(__attribute__((address_space(1)))) M(__attribute__((address_space(3))))
#define EMU_DEVICE(M) M(__attribute__((address_space(1))))
#else
#define EMU_SPACES(M) M()
#define EMU_DEVICE(M) M()
#endif

namespace metal {
enum class mem_flags {
  mem_none = 0,
  mem_device = 1,
  mem_threadgroup = 2,
  mem_texture = 4,
  mem_threadgroup_imageblock = 8,
  mem_object_data = 16
};
EMU_SHIM inline constexpr mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(int(a) | int(b)); }
EMU_SHIM inline constexpr mem_flags operator&(mem_flags a, mem_flags b) { return mem_flags(int(a) & int(b)); }
enum memory_order { memory_order_relaxed = 0, memory_order_seq_cst = 5 };
enum thread_scope { thread_scope_thread, thread_scope_simdgroup, thread_scope_threadgroup, thread_scope_device };

EMU_SHIM inline void threadgroup_barrier(mem_flags flags, emu_site at = emu_site::here()) {
  emu_threadgroup_barrier(at, unsigned(flags));
}
EMU_SHIM inline void threadgroup_barrier(mem_flags flags, thread_scope, emu_site at = emu_site::here()) {
  emu_threadgroup_barrier(at, unsigned(flags));
}
EMU_SHIM inline void simdgroup_barrier(mem_flags flags, emu_site at = emu_site::here()) {
  emu_simdgroup_barrier(at, unsigned(flags));
}
EMU_SHIM inline void simdgroup_barrier(mem_flags flags, thread_scope, emu_site at = emu_site::here()) {
  emu_simdgroup_barrier(at, unsigned(flags));
}
EMU_SHIM inline void atomic_thread_fence(mem_flags flags, memory_order order, thread_scope scope = thread_scope_device,
                                         emu_site at = emu_site::here()) {
  emu_fence(at, unsigned(flags), unsigned(order), unsigned(scope));
}

// An atomic object can be accessed only through the functions below.
template <class T> struct atomic {
  T emu_value;
};
}  // namespace metal
typedef metal::atomic<int> atomic_int;
typedef metal::atomic<uint> atomic_uint;
typedef metal::atomic<bool> atomic_bool;
typedef metal::atomic<float> atomic_float;
typedef metal::atomic<ulong> atomic_ulong;
namespace metal {
using ::atomic_bool;
using ::atomic_float;
using ::atomic_int;
using ::atomic_uint;
using ::atomic_ulong;

#define EMU_ATOMIC_BASIC(A, T, SPACE)                                                                          \
  EMU_SHIM inline void atomic_store_explicit(volatile SPACE A *object, T desired, memory_order) {              \
    __atomic_store_n(&object->emu_value, desired, __ATOMIC_RELAXED);                                           \
  }                                                                                                            \
  EMU_SHIM inline T atomic_load_explicit(const volatile SPACE A *object, memory_order) {                       \
    return __atomic_load_n(&object->emu_value, __ATOMIC_RELAXED);                                              \
  }                                                                                                            \
  EMU_SHIM inline T atomic_exchange_explicit(volatile SPACE A *object, T desired, memory_order) {              \
    return __atomic_exchange_n(&object->emu_value, desired, __ATOMIC_RELAXED);                                 \
  }                                                                                                            \
  EMU_SHIM inline bool atomic_compare_exchange_weak_explicit(volatile SPACE A *object, T *expected, T desired, \
                                                             memory_order, memory_order) {                     \
    return __atomic_compare_exchange_n(&object->emu_value, expected, desired, true, __ATOMIC_RELAXED,          \
                                       __ATOMIC_RELAXED);                                                      \
  }
#define EMU_ATOMIC_FETCH(A, T, SPACE)                                                                        \
  EMU_SHIM inline T atomic_fetch_add_explicit(volatile SPACE A *object, T x, memory_order) {                 \
    return __atomic_fetch_add(&object->emu_value, x, __ATOMIC_RELAXED);                                      \
  }                                                                                                          \
  EMU_SHIM inline T atomic_fetch_sub_explicit(volatile SPACE A *object, T x, memory_order) {                 \
    return __atomic_fetch_sub(&object->emu_value, x, __ATOMIC_RELAXED);                                      \
  }                                                                                                          \
  EMU_SHIM inline T atomic_fetch_and_explicit(volatile SPACE A *object, T x, memory_order) {                 \
    return __atomic_fetch_and(&object->emu_value, x, __ATOMIC_RELAXED);                                      \
  }                                                                                                          \
  EMU_SHIM inline T atomic_fetch_or_explicit(volatile SPACE A *object, T x, memory_order) {                  \
    return __atomic_fetch_or(&object->emu_value, x, __ATOMIC_RELAXED);                                       \
  }                                                                                                          \
  EMU_SHIM inline T atomic_fetch_xor_explicit(volatile SPACE A *object, T x, memory_order) {                 \
    return __atomic_fetch_xor(&object->emu_value, x, __ATOMIC_RELAXED);                                      \
  }                                                                                                          \
  EMU_SHIM inline T atomic_fetch_min_explicit(volatile SPACE A *object, T x, memory_order) {                 \
    T old = __atomic_load_n(&object->emu_value, __ATOMIC_RELAXED);                                           \
    while (!__atomic_compare_exchange_n(&object->emu_value, &old, x < old ? x : old, true, __ATOMIC_RELAXED, \
                                        __ATOMIC_RELAXED)) {}                                                \
    return old;                                                                                              \
  }                                                                                                          \
  EMU_SHIM inline T atomic_fetch_max_explicit(volatile SPACE A *object, T x, memory_order) {                 \
    T old = __atomic_load_n(&object->emu_value, __ATOMIC_RELAXED);                                           \
    while (!__atomic_compare_exchange_n(&object->emu_value, &old, x > old ? x : old, true, __ATOMIC_RELAXED, \
                                        __ATOMIC_RELAXED)) {}                                                \
    return old;                                                                                              \
  }
#define EMU_ATOMICS(SPACE)                                                              \
  EMU_ATOMIC_BASIC(atomic_int, int, SPACE)                                              \
  EMU_ATOMIC_BASIC(atomic_uint, uint, SPACE) EMU_ATOMIC_BASIC(atomic_bool, bool, SPACE) \
      EMU_ATOMIC_FETCH(atomic_int, int, SPACE) EMU_ATOMIC_FETCH(atomic_uint, uint, SPACE)
EMU_SPACES(EMU_ATOMICS)

// atomic_float exists only in device memory, and has add and sub.
#define EMU_ATOMIC_FLOAT(SPACE)                                                                                       \
  EMU_SHIM inline float atomic_load_explicit(const volatile SPACE atomic_float *object, memory_order) {               \
    return as_type<float>(__atomic_load_n((const volatile SPACE uint *)&object->emu_value, __ATOMIC_RELAXED));        \
  }                                                                                                                   \
  EMU_SHIM inline void atomic_store_explicit(volatile SPACE atomic_float *object, float desired, memory_order) {      \
    __atomic_store_n((volatile SPACE uint *)&object->emu_value, as_type<uint>(desired), __ATOMIC_RELAXED);            \
  }                                                                                                                   \
  EMU_SHIM inline float atomic_exchange_explicit(volatile SPACE atomic_float *object, float desired, memory_order) {  \
    return as_type<float>(                                                                                            \
        __atomic_exchange_n((volatile SPACE uint *)&object->emu_value, as_type<uint>(desired), __ATOMIC_RELAXED));    \
  }                                                                                                                   \
  EMU_SHIM inline bool atomic_compare_exchange_weak_explicit(volatile SPACE atomic_float *object, float *expected,    \
                                                             float desired, memory_order, memory_order) {             \
    uint bits = as_type<uint>(*expected);                                                                             \
    bool done = __atomic_compare_exchange_n((volatile SPACE uint *)&object->emu_value, &bits, as_type<uint>(desired), \
                                            true, __ATOMIC_RELAXED, __ATOMIC_RELAXED);                                \
    *expected = as_type<float>(bits);                                                                                 \
    return done;                                                                                                      \
  }                                                                                                                   \
  EMU_SHIM inline float atomic_fetch_add_explicit(volatile SPACE atomic_float *object, float x, memory_order order) { \
    float old = atomic_load_explicit(object, order);                                                                  \
    while (!atomic_compare_exchange_weak_explicit(object, &old, old + x, order, order)) {}                            \
    return old;                                                                                                       \
  }                                                                                                                   \
  EMU_SHIM inline float atomic_fetch_sub_explicit(volatile SPACE atomic_float *object, float x, memory_order order) { \
    return atomic_fetch_add_explicit(object, -x, order);                                                              \
  }                                                                                                                   \
  EMU_SHIM inline void atomic_min_explicit(volatile SPACE atomic_ulong *object, ulong x, memory_order) {              \
    ulong old = __atomic_load_n(&object->emu_value, __ATOMIC_RELAXED);                                                \
    while (!__atomic_compare_exchange_n(&object->emu_value, &old, x < old ? x : old, true, __ATOMIC_RELAXED,          \
                                        __ATOMIC_RELAXED)) {}                                                         \
  }                                                                                                                   \
  EMU_SHIM inline void atomic_max_explicit(volatile SPACE atomic_ulong *object, ulong x, memory_order) {              \
    ulong old = __atomic_load_n(&object->emu_value, __ATOMIC_RELAXED);                                                \
    while (!__atomic_compare_exchange_n(&object->emu_value, &old, x > old ? x : old, true, __ATOMIC_RELAXED,          \
                                        __ATOMIC_RELAXED)) {}                                                         \
  }
EMU_DEVICE(EMU_ATOMIC_FLOAT)
}  // namespace metal

#endif
