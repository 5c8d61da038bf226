// Type traits of metal_stdlib, and the shim's own.
#ifndef EMU_TRAITS_H
#define EMU_TRAITS_H

#include "scalars.h"

namespace metal {
template <class T, T V> struct integral_constant {
  static constexpr T value = V;
  typedef T value_type;
  typedef integral_constant type;
  constexpr operator T() const { return V; }
};
template <bool B> using bool_constant = integral_constant<bool, B>;
typedef bool_constant<true> true_type;
typedef bool_constant<false> false_type;

template <class A, class B> struct is_same : false_type {};
template <class A> struct is_same<A, A> : true_type {};
template <bool B, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> {
  typedef T type;
};
template <bool B, class T, class F> struct conditional {
  typedef T type;
};
template <class T, class F> struct conditional<false, T, F> {
  typedef F type;
};
template <class T> struct remove_const {
  typedef T type;
};
template <class T> struct remove_const<const T> {
  typedef T type;
};
template <class T> struct remove_volatile {
  typedef T type;
};
template <class T> struct remove_volatile<volatile T> {
  typedef T type;
};
template <class T> struct remove_cv {
  typedef typename remove_const<typename remove_volatile<T>::type>::type type;
};
template <class T> struct remove_reference {
  typedef T type;
};
template <class T> struct remove_reference<T &> {
  typedef T type;
};
template <class T> struct remove_reference<T &&> {
  typedef T type;
};
template <class T> struct remove_pointer {
  typedef T type;
};
template <class T> struct remove_pointer<T *> {
  typedef T type;
};
template <class T> struct is_pointer : false_type {};
template <class T> struct is_pointer<T *> : true_type {};
template <class T> struct is_void : is_same<typename remove_cv<T>::type, void> {};
template <class T>
struct is_floating_point : bool_constant<is_same<typename remove_cv<T>::type, float>::value ||
                                         is_same<typename remove_cv<T>::type, half>::value ||
                                         is_same<typename remove_cv<T>::type, bfloat>::value> {};
template <class T> struct is_integral : bool_constant<__is_integral(T)> {};
template <class T> struct is_arithmetic : bool_constant<is_integral<T>::value || is_floating_point<T>::value> {};
template <class T> struct is_scalar : bool_constant<is_arithmetic<T>::value || is_pointer<T>::value> {};
template <class T> struct is_signed : bool_constant<is_floating_point<T>::value || __is_signed(T)> {};
template <class T> struct is_unsigned : bool_constant<__is_unsigned(T)> {};
template <class T> struct is_enum : bool_constant<__is_enum(T)> {};
template <class T> struct is_class : bool_constant<__is_class(T)> {};
template <class A, class B> struct is_convertible : bool_constant<__is_convertible_to(A, B)> {};
template <class T> struct make_unsigned {
  typedef T type;
};
template <> struct make_unsigned<char> {
  typedef uchar type;
};
template <> struct make_unsigned<signed char> {
  typedef uchar type;
};
template <> struct make_unsigned<short> {
  typedef ushort type;
};
template <> struct make_unsigned<int> {
  typedef uint type;
};
template <> struct make_unsigned<long> {
  typedef ulong type;
};
template <class T> struct make_signed {
  typedef T type;
};
template <> struct make_signed<uchar> {
  typedef char type;
};
template <> struct make_signed<ushort> {
  typedef short type;
};
template <> struct make_signed<uint> {
  typedef int type;
};
template <> struct make_signed<ulong> {
  typedef long type;
};

template <bool B, class T = void> using enable_if_t = typename enable_if<B, T>::type;
template <bool B, class T, class F> using conditional_t = typename conditional<B, T, F>::type;
template <class T> using remove_const_t = typename remove_const<T>::type;
template <class T> using remove_cv_t = typename remove_cv<T>::type;
template <class T> using remove_reference_t = typename remove_reference<T>::type;
template <class T> using remove_pointer_t = typename remove_pointer<T>::type;
template <class T> using make_unsigned_t = typename make_unsigned<T>::type;
template <class T> using make_signed_t = typename make_signed<T>::type;
template <class A, class B> constexpr bool is_same_v = is_same<A, B>::value;
template <class T> constexpr bool is_floating_point_v = is_floating_point<T>::value;
template <class T> constexpr bool is_integral_v = is_integral<T>::value;
template <class T> constexpr bool is_arithmetic_v = is_arithmetic<T>::value;
template <class T> constexpr bool is_signed_v = is_signed<T>::value;
template <class T> constexpr bool is_unsigned_v = is_unsigned<T>::value;
template <class T> constexpr bool is_pointer_v = is_pointer<T>::value;
template <class T> constexpr bool is_enum_v = is_enum<T>::value;
}  // namespace metal

namespace emu {
using metal::enable_if_t;
using metal::is_same;
template <class T> constexpr bool is_brain = is_same<T, bfloat>::value;
// Metal converts scalars to one another implicitly, but not to bfloat, and bfloat to float only.
template <class From, class To>
constexpr bool converts =
    metal::is_arithmetic<From>::value && metal::is_arithmetic<To>::value &&
    (is_same<From, To>::value ||
     (is_brain<From> ? is_same<To, float>::value : !(is_brain<To> && metal::is_floating_point<From>::value)));
template <int... I> struct indices {};
template <int N, int... I> struct make_indices : make_indices<N - 1, N - 1, I...> {};
template <int... I> struct make_indices<0, I...> {
  typedef indices<I...> type;
};
}  // namespace emu

#endif
