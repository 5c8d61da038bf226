// The parts of the tables at the end of a translated unit (emit/entries.ts).
#ifndef EMU_ENTRY_H
#define EMU_ENTRY_H

#include "kernel_info.h"
#include "simdgroup_matrix.h"

namespace emu {
template <unsigned I, class F> struct parameter_at;
template <class P, class... Q> struct parameter_at<0, void (*)(P, Q...)> {
  typedef P type;
};
template <unsigned I, class P, class... Q>
struct parameter_at<I, void (*)(P, Q...)> : parameter_at<I - 1, void (*)(Q...)> {};
template <class F, unsigned I> using parameter_type = typename parameter_at<I, F>::type;

template <class P> struct argument;
template <class T> struct argument<T *> {
  EMU_SHIM static T *from(void *p) { return static_cast<T *>(p); }
};
template <class T> struct argument<T &> {
  EMU_SHIM static T &from(void *p) { return *static_cast<T *>(p); }
};
template <class P> struct target {
  typedef P type;
};
template <class T> struct target<T *> {
  typedef T type;
};
template <class T> struct target<T &> {
  typedef T type;
};
template <class P> using target_type = typename target<P>::type;
template <class T> constexpr bool is_const = false;
template <class T> constexpr bool is_const<const T> = true;
template <class T> constexpr unsigned size_of = sizeof(T);
template <> inline constexpr unsigned size_of<void> = 1;
template <> inline constexpr unsigned size_of<const void> = 1;
template <class T> constexpr unsigned align_of = alignof(T);
template <> inline constexpr unsigned align_of<void> = 1;
template <> inline constexpr unsigned align_of<const void> = 1;
// The runtime extracts the type's name from this.
template <class T> const char *pretty_type() { return __PRETTY_FUNCTION__; }

template <class P> struct built {
  static P from(emu_uint3 v) { return P(v.x); }
  static P from(unsigned v) { return P(v); }
};
template <class T> struct built<metal::vec<T, 2>> {
  static metal::vec<T, 2> from(emu_uint3 v) { return metal::vec<T, 2>(T(v.x), T(v.y)); }
};
template <class T> struct built<metal::vec<T, 3>> {
  static metal::vec<T, 3> from(emu_uint3 v) { return metal::vec<T, 3>(T(v.x), T(v.y), T(v.z)); }
};
template <class P, class V> EMU_SHIM inline metal::remove_cv_t<P> builtin(V v) {
  return built<metal::remove_cv_t<P>>::from(v);
}

// The group's arena: variables in order, with gaps between so that overruns are seen. `sum` adds up sizes
// as Metal does.
struct arena_start {
  static constexpr ulong end = 0, sum = 0;
};
template <class Before, class T> struct arena_slot {
  static constexpr ulong gap = 64;
  static constexpr ulong at = (Before::end + gap + 63) / 64 * 64;
  static constexpr ulong end = at + sizeof(T);
  static constexpr ulong sum = (Before::sum + alignof(T) - 1) / alignof(T) * alignof(T) + sizeof(T);
};
template <class T> constexpr unsigned innermost = sizeof(T);
template <class T, ulong N> constexpr unsigned innermost<T[N]> = innermost<T>;
template <class T, int N> constexpr unsigned innermost<metal::vec<T, N>> = sizeof(T);

template <auto Kernel, unsigned I, class Slot, class T, class Name> struct registered {
  static const bool done;
};
template <auto Kernel, unsigned I, class Slot, class T, class Name>
const bool registered<Kernel, I, Slot, T, Name>::done =
    (emu_register_threadgroup_variable(reinterpret_cast<const void *>(Kernel), I, Slot::at, sizeof(T), innermost<T>,
                                       Slot::sum, Name::text()),
     true);

template <auto Kernel, unsigned I, class Slot, class Name, class T> EMU_SHIM inline T &threadgroup_at() {
  (void)&registered<Kernel, I, Slot, T, Name>::done;
  return *reinterpret_cast<T *>(emu_threadgroup_memory() + Slot::at);
}
}  // namespace emu

#endif
