// Everything the typed check is compiled against.
#ifndef EMU_TYPED_H
#define EMU_TYPED_H
#pragma clang system_header
#define EMU_TYPED 1
#include "vectors_typed.h"
#include "limits.h"
#include "matrix.h"
#include "simdgroup_matrix.h"
template <class T> bool emu_is_defined(const __attribute__((address_space(2))) T &);
#endif
