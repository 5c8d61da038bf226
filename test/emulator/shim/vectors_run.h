// Metal's vectors as classes: exact constructors, no conversion between vectors, swizzles, comparisons that give bool
// vectors. The storage is a clang vector, so that arithmetic and whole loads and stores are single instructions.
#ifndef EMU_VECTORS_RUN_H
#define EMU_VECTORS_RUN_H

#include "calls.h"
#include "traits.h"

// Shim code has its caller's place in line tables (it has no debug information of its own) and never costs a call.
#define EMU_SHIM __attribute__((__always_inline__, __nodebug__))

extern "C" [[noreturn]] void emu_bad_division();

namespace metal {
template <class T, int N> struct vec;
template <class T, int N> struct packed_vec;
}  // namespace metal

namespace emu {
struct fill {};
struct convert {};
template <class S, int N> struct row {
  S item[N];
};
template <class T> struct stored {
  typedef T type;
};
template <> struct stored<bool> {
  typedef unsigned char type;
};
template <class T> struct element {
  typedef T type;
  static constexpr int count = 1;
  static constexpr bool is_vector = false;
};
template <class T, int N> struct element<metal::vec<T, N>> {
  typedef T type;
  static constexpr int count = N;
  static constexpr bool is_vector = true;
};
// An argument of a vector's constructor: any scalar, or a vector of the same element type.
template <class A, class T>
constexpr bool fits = element<A>::is_vector ? is_same<typename element<A>::type, T>::value
                                            : metal::is_arithmetic<A>::value || metal::is_enum<A>::value;
template <class T, class... A> constexpr bool all_fit = (fits<A, T> && ...);
template <class... A> constexpr int total = (element<A>::count + ...);

// A component's number and the place of its use.
struct subscript {
  long index;
  emu_site site;
  template <class I, enable_if_t<metal::is_integral<I>::value || metal::is_enum<I>::value, int> = 0>
  EMU_SHIM constexpr subscript(I i, emu_site s = emu_site::here()) : index(long(i)), site(s) {}
};

template <class S, class T, int N, class U> EMU_SHIM constexpr void append(row<S, N> &out, int &at, U s) {
  out.item[at++] = S(T(s));
}
template <class S, class T, int N, int M> EMU_SHIM constexpr void append(row<S, N> &out, int &at, metal::vec<T, M> v) {
  for (int i = 0; i < M; ++i) out.item[at++] = v.v_[i];
}
template <class S, class T, int N, class... A> EMU_SHIM constexpr row<S, N> gather(A... a) {
  row<S, N> out = {};
  int at = 0;
  (append<S, T, N>(out, at, a), ...);
  return out;
}

template <int N, class M> EMU_SHIM constexpr metal::vec<bool, N> truth(M mask) {
  return metal::vec<bool, N>::of(__builtin_convertvector(mask & 1, typename metal::vec<bool, N>::storage));
}
template <class T, int N, class V> EMU_SHIM constexpr metal::vec<bool, N> both(V a, V b) {
  static_assert(is_same<T, bool>::value, "&& acts on bool vectors");
  return metal::vec<bool, N>::of(a & b);
}
template <class T, int N, class V> EMU_SHIM constexpr metal::vec<bool, N> either(V a, V b) {
  static_assert(is_same<T, bool>::value, "|| acts on bool vectors");
  return metal::vec<bool, N>::of(a | b);
}
template <class T, int N, class V> EMU_SHIM constexpr metal::vec<bool, N> neither(V a) {
  static_assert(is_same<T, bool>::value, "! acts on bool vectors");
  return metal::vec<bool, N>::of(a ^ 1);
}
// Integers divide one by one: a zero divisor is reported, and the smallest number by -1 wraps instead of trapping.
template <class S> EMU_SHIM constexpr S quotient(S a, S b) {
  if (b == 0) emu_bad_division();
  return S(b == S(-1) && S(-1) < S(0) ? S(0) - a : a / b);
}
template <class S> EMU_SHIM constexpr S modulus(S a, S b) {
  if (b == 0) emu_bad_division();
  return S(b == S(-1) && S(-1) < S(0) ? S(0) : a % b);
}
template <class T, int N, class V> EMU_SHIM constexpr V divide(V a, V b) {
  if constexpr (metal::is_floating_point<T>::value)
    return a / b;
  else {
    for (int i = 0; i < N; ++i) a[i] = quotient<T>(a[i], b[i]);
    return a;
  }
}
template <class T, int N, class V> EMU_SHIM constexpr V remainder(V a, V b) {
  for (int i = 0; i < N; ++i) a[i] = modulus<T>(a[i], b[i]);
  return a;
}
template <class T, int... I> EMU_SHIM constexpr void distinct() {
  static_assert(((1 << I) + ...) == ((1 << I) | ...) && sizeof(T) > 0,
                "a swizzle that is assigned to repeats a component");
}
}  // namespace emu

namespace metal {
#define EMU_N 2
#include "vector_class.inc"
#undef EMU_N
#define EMU_N 3
#include "vector_class.inc"
#undef EMU_N
#define EMU_N 4
#include "vector_class.inc"
#undef EMU_N

// The same components without padding or alignment beyond an element's.
template <class T, int N> struct packed_vec {
  typedef typename emu::stored<T>::type S;
  S item[N];
  packed_vec() = default;
  EMU_SHIM packed_vec(vec<T, N> v) { put(v); }
  template <class A, class B, class... C,
            emu::enable_if_t<emu::all_fit<T, A, B, C...> && emu::total<A, B, C...> == N, int> = 0>
  EMU_SHIM packed_vec(A a, B b, C... c) {
    put(vec<T, N>(a, b, c...));
  }
  template <class U, emu::enable_if_t<emu::converts<U, T>, int> = 0> EMU_SHIM packed_vec(U s) { put(vec<T, N>(s)); }
  template <class U, emu::enable_if_t<!is_same<U, T>::value, int> = 0> EMU_SHIM explicit packed_vec(vec<U, N> v) {
    put(vec<T, N>(v));
  }
  EMU_SHIM T &operator[](emu::subscript s) {
    if (__builtin_expect(s.index < 0 || s.index >= N, 0)) emu_bad_component(s.site, s.index, N);
    return reinterpret_cast<T *>(item)[s.index];
  }
  EMU_SHIM T operator[](emu::subscript s) const {
    if (__builtin_expect(s.index < 0 || s.index >= N, 0)) emu_bad_component(s.site, s.index, N);
    return T(item[s.index]);
  }
#define EMU_PART(name, i)                                                  \
  __declspec(property(get = emu_get_##name, put = emu_put_##name)) T name; \
  EMU_SHIM T emu_get_##name() const {                                      \
    static_assert(i < N, "no such component");                             \
    return T(item[i]);                                                     \
  }                                                                        \
  EMU_SHIM void emu_put_##name(T v) {                                      \
    static_assert(i < N, "no such component");                             \
    item[i] = S(v);                                                        \
  }
 EMU_PART(x, 0)
 EMU_PART(y, 1) EMU_PART(z, 2) EMU_PART(w, 3) EMU_PART(r, 0) EMU_PART(g, 1) EMU_PART(b, 2) EMU_PART(a, 3)
#undef EMU_PART
#define EMU_OPERATION(op)                                                                                    \
  EMU_SHIM friend vec<T, N> operator op(packed_vec a, packed_vec b) { return vec<T, N>(a) op vec<T, N>(b); } \
  EMU_SHIM friend vec<T, N> operator op(packed_vec a, vec<T, N> b) { return vec<T, N>(a) op b; }             \
  EMU_SHIM friend vec<T, N> operator op(vec<T, N> a, packed_vec b) { return a op vec<T, N>(b); }             \
  EMU_SHIM packed_vec &operator op## = (vec<T, N> b) {                                                       \
    put(vec<T, N>(*this) op b);                                                                              \
    return *this;                                                                                            \
  }
     EMU_OPERATION(+) EMU_OPERATION(-) EMU_OPERATION(*) EMU_OPERATION(/)
#undef EMU_OPERATION
         private : EMU_SHIM void put(vec<T, N> v) {
    for (int i = 0; i < N; ++i) item[i] = v.v_[i];
  }
};

template <class T> EMU_SHIM vec<T, 2>::vec(packed_vec<T, 2> o) : v_{o.item[0], o.item[1]} {}
template <class T> EMU_SHIM vec<T, 3>::vec(packed_vec<T, 3> o) : v_{o.item[0], o.item[1], o.item[2]} {}
template <class T> EMU_SHIM vec<T, 4>::vec(packed_vec<T, 4> o) : v_{o.item[0], o.item[1], o.item[2], o.item[3]} {}
}  // namespace metal

#define EMU_NAME(name, T)           \
  typedef metal::vec<T, 2> name##2; \
  typedef metal::vec<T, 3> name##3; \
  typedef metal::vec<T, 4> name##4;
#define EMU_PACKED(name, T)                         \
  typedef metal::packed_vec<T, 2> packed_##name##2; \
  typedef metal::packed_vec<T, 3> packed_##name##3; \
  typedef metal::packed_vec<T, 4> packed_##name##4;
#include "vector_names.inc"
#undef EMU_NAME
#undef EMU_PACKED

// Reinterprets bits; only the padding of three-component vectors may differ.
template <class D, class S> EMU_SHIM constexpr D as_type(S value) {
  static_assert(sizeof(D) == sizeof(S), "as_type needs types of the same size");
  return __builtin_bit_cast(D, value);
}
namespace metal {
using ::as_type;
}

#endif
