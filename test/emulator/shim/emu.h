// Everything a translated unit is compiled against. No C or C++ header is reachable from here.
#ifndef EMU_H
#define EMU_H
#pragma clang system_header
#include "vectors_run.h"
#include "limits.h"
#include "matrix.h"
#include "simdgroup_matrix.h"
#include "entry.h"
#endif
