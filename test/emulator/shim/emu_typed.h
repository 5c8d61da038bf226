// Everything the typed check is compiled against.
#ifndef EMU_TYPED_H
#define EMU_TYPED_H
#pragma clang system_header
#define EMU_TYPED 1
#include "vectors_typed.h"
#include "limits.h"
#include "matrix.h"
#include "simdgroup_matrix.h"
namespace emu {
template <class T> struct in_thread { static constexpr bool value = true; };
template <class T> struct in_thread<__attribute__((address_space(1))) T> { static constexpr bool value = false; };
template <class T> struct in_thread<__attribute__((address_space(2))) T> { static constexpr bool value = false; };
template <class T> struct in_thread<__attribute__((address_space(3))) T> { static constexpr bool value = false; };
template <class T> struct points_to_thread { static constexpr bool value = in_thread<T>::value; };
template <class T> struct points_to_thread<T *> { static constexpr bool value = in_thread<T>::value; };
template <class T> struct points_to_thread<T *const> { static constexpr bool value = in_thread<T>::value; };
template <class T> struct points_to_thread<T &> { static constexpr bool value = in_thread<T>::value; };
/// Whether a parameter that is declared `thread` points or refers to such memory, whatever a template made of its type.
template <class T> constexpr bool is_thread = points_to_thread<T>::value;
}  // namespace emu
template <class T> bool emu_is_defined(const __attribute__((address_space(2))) T &);
#endif
