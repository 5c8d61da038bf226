// Metal's vectors for the typed check: clang's own, since a class could not be in device memory there (its member
// functions are for the default address space). The translator writes emu_make<float4>(...) for float4(...); the
// computed values do not matter, only the types of arguments and results.
#ifndef EMU_VECTORS_TYPED_H
#define EMU_VECTORS_TYPED_H

#include "calls.h"
#include "traits.h"

#define EMU_SHIM

namespace emu {
// A comparison of clang vectors gives integers of the operands' width, so a vector of bools is one of integers.
template <class T> struct lane {
  typedef T type;
};
template <> struct lane<bool> {
  typedef int type;
};
}  // namespace emu
namespace metal {
template <class T, int N> using vec = typename emu::lane<T>::type __attribute__((ext_vector_type(N)));
template <class T, int N> struct packed_vec {
  T item[N];
  packed_vec() = default;
  packed_vec(vec<T, N>);
  template <class... A> packed_vec(T, T, A...);
  operator vec<T, N>() const;
  T &operator[](int);
  T x, y, z, w;
};
}  // namespace metal

#define EMU_NAME(name, T)                                                 \
  typedef emu::lane<T>::type name##2 __attribute__((ext_vector_type(2))); \
  typedef emu::lane<T>::type name##3 __attribute__((ext_vector_type(3))); \
  typedef emu::lane<T>::type name##4 __attribute__((ext_vector_type(4)));
#define EMU_PACKED(name, T)                         \
  typedef metal::packed_vec<T, 2> packed_##name##2; \
  typedef metal::packed_vec<T, 3> packed_##name##3; \
  typedef metal::packed_vec<T, 4> packed_##name##4;
#include "vector_names.inc"
#undef EMU_NAME
#undef EMU_PACKED

template <class D, class S> constexpr D as_type(S value) {
  static_assert(sizeof(D) == sizeof(S), "as_type needs types of the same size");
  return D();
}
namespace metal {
using ::as_type;
}

namespace emu {
template <class T> struct parts {
  static constexpr int count = 1;
  static constexpr bool is_vector = false;
  typedef T type;
};
template <class T> struct parts<T __attribute__((ext_vector_type(2)))> {
  static constexpr int count = 2;
  static constexpr bool is_vector = true;
  typedef T type;
};
template <class T> struct parts<T __attribute__((ext_vector_type(3)))> {
  static constexpr int count = 3;
  static constexpr bool is_vector = true;
  typedef T type;
};
template <class T> struct parts<T __attribute__((ext_vector_type(4)))> {
  static constexpr int count = 4;
  static constexpr bool is_vector = true;
  typedef T type;
};
template <class T, int N> struct parts<metal::packed_vec<T, N>> {
  static constexpr int count = N;
  static constexpr bool is_vector = true;
  typedef T type;
};
template <class... A> constexpr int total = (parts<A>::count + ... + 0);

template <class T, bool Vector> struct maker {
  template <class... A> static constexpr T make(A... a) { return T(a...); }
};
template <class T> struct maker<T, true> {
  static constexpr T make() { return T(); }
  template <class A> static constexpr T make(A) {
    static_assert(!parts<A>::is_vector || parts<A>::count == parts<T>::count, "a vector of another size");
    return T();
  }
  template <class A, class B, class... C> static constexpr T make(A, B, C...) {
    static_assert(total<A, B, C...> == parts<T>::count, "too few or too many components for this vector");
    return T();
  }
};
template <class T> struct caster {
  constexpr caster operator-() const { return {}; }
  constexpr caster operator+() const { return {}; }
  constexpr caster operator!() const { return {}; }
  constexpr caster operator~() const { return {}; }
};
template <class T, class A> constexpr T operator->*(caster<T>, A a) { return maker<T, parts<T>::is_vector>::make(a); }
}  // namespace emu
// T(...) and (T)x for a type that may be a vector.
template <class T, class... A> constexpr T emu_make(A... a) {
  return emu::maker<T, emu::parts<T>::is_vector>::make(a...);
}

// Bool vectors: any result of a comparison.
namespace metal {
inline bool all(bool x) { return x; }
inline bool any(bool x) { return x; }
template <class V, class = emu::enable_if_t<emu::parts<V>::is_vector>> bool all(V);
template <class V, class = emu::enable_if_t<emu::parts<V>::is_vector>> bool any(V);
template <class T, class = emu::enable_if_t<!emu::parts<T>::is_vector>> T select(T, T, bool);
template <class V, class C,
          class = emu::enable_if_t<emu::parts<V>::is_vector && emu::parts<C>::count == emu::parts<V>::count>>
V select(V, V, C);
}  // namespace metal

#endif
