#include "matrix.h"

#include <cmath>
#include <cstring>

#include "fault.h"
#include "memory.h"

namespace emu {

MatrixSum matrix_sum = MatrixSum::fused;

namespace {

// Element (row, column) is component column % 2 of this lane. The inverse: row_of, column_of.
constexpr unsigned lane_of(unsigned row, unsigned column) {
  return (row & 4) << 2 | (row & 3) << 1 | (column & 4) << 1 | (column >> 1 & 1);
}
constexpr unsigned row_of(unsigned lane) { return (lane >> 4 & 1) * 4 + (lane >> 1 & 3); }
constexpr unsigned column_of(unsigned lane) { return (lane >> 3 & 1) * 4 + (lane & 1) * 2; }

unsigned size_of(unsigned type) { return type == EMU_FLOAT ? 4 : 2; }

float read(uint64_t bits, unsigned type, unsigned component) {
  const char *p = reinterpret_cast<const char *>(&bits) + component * size_of(type);
  if (type == EMU_FLOAT) {
    float v;
    memcpy(&v, p, 4);
    return v;
  }
  if (type == EMU_HALF) {
    _Float16 v;
    memcpy(&v, p, 2);
    return float(v);
  }
  __bf16 v;
  memcpy(&v, p, 2);
  return float(v);
}

void write(uint64_t &bits, unsigned type, unsigned component, float value) {
  char *p = reinterpret_cast<char *>(&bits) + component * size_of(type);
  if (type == EMU_FLOAT)
    memcpy(p, &value, 4);
  else if (type == EMU_HALF) {
    const _Float16 v = _Float16(value);
    memcpy(p, &v, 2);
  } else {
    const __bf16 v = __bf16(value);
    memcpy(p, &v, 2);
  }
}

void unpack(float (&m)[8][8], const emu_bits (&values)[lanes_per_simdgroup], bool high, unsigned type) {
  for (unsigned lane = 0; lane < lanes_per_simdgroup; ++lane) {
    const uint64_t bits = high ? values[lane].high : values[lane].low;
    m[row_of(lane)][column_of(lane)] = read(bits, type, 0);
    m[row_of(lane)][column_of(lane) + 1] = read(bits, type, 1);
  }
}

float dot(const float (&a)[8], const float (&b)[8][8], unsigned column, float c) {
  if (matrix_sum == MatrixSum::exact) {
    double sum = c;
    for (unsigned k = 0; k < 8; ++k) sum = std::fma(double(a[k]), double(b[k][column]), sum);
    return float(sum);
  }
  if (matrix_sum == MatrixSum::pairwise) {
    float part[8];
    for (unsigned k = 0; k < 8; ++k) part[k] = a[k] * b[k][column];
    return c + (((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7])));
  }
  float sum = c;
  for (unsigned k = 0; k < 8; ++k) sum = std::fma(a[k], b[k][column], sum);
  return sum;
}

}  // namespace

void complete_matrix(Simdgroup &g, Exchange &e) {
  if (Operation(g.rendezvous.operation >> 16) != Operation::matrix_multiply) {
    // A load or store: every lane names the same memory.
    for (unsigned lane = 1; lane < lanes_per_simdgroup; ++lane) {
      if (e.value[lane].low != e.value[0].low || e.value[lane].high != e.value[0].high) {
        fault_at(g.rendezvous.site, format("%s: lane %u passes another pointer or row length than lane 0",
                                           operation_name(g.rendezvous.operation), lane));
      }
    }
    return;
  }
  const unsigned types = g.rendezvous.control, d = types & 0xff, ta = types >> 8 & 0xff, tb = types >> 16 & 0xff,
                 tc = types >> 24;
  float a[8][8], b[8][8], c[8][8];
  unpack(a, e.value, false, ta);
  unpack(b, e.value, true, tb);
  unpack(c, e.second, false, tc);
  for (unsigned lane = 0; lane < lanes_per_simdgroup; ++lane) {
    const unsigned row = row_of(lane), column = column_of(lane);
    uint64_t bits = 0;
    write(bits, d, 0, dot(a[row], b, column, c[row][column]));
    write(bits, d, 1, dot(a[row], b, column + 1, c[row][column + 1]));
    e.second[lane].high = bits;
  }
  static_assert(lane_of(5, 6) == 27 && row_of(27) == 5 && column_of(27) == 6, "the lane map and its inverse");
}

}  // namespace emu

using namespace emu;

namespace {

/// The distance of element (row, column + component) of the matrix from its first one, in elements.
unsigned long place(unsigned lane, unsigned component, unsigned long stride, bool transpose) {
  const unsigned long row = row_of(lane), column = column_of(lane) + component;
  return transpose ? column * stride + row : row * stride + column;
}

}  // namespace

extern "C" {

emu_bits emu_matrix_load(emu_site at, const void *source, unsigned long stride, unsigned layout) {
  Exchange &e = arrive(at, Operation::matrix_load, 0, layout);
  const unsigned lane = scheduler.lane, bytes = size_of(layout & 0xff);
  e.value[lane] = {reinterpret_cast<unsigned long>(source), stride};
  gather(e);
  emu_bits out = {0, 0};
  for (unsigned k = 0; k < 2; ++k) {
    const char *p = static_cast<const char *>(source) + place(lane, k, stride, layout & 256) * bytes;
    check_access(reinterpret_cast<uintptr_t>(p), bytes, false, at);
    memcpy(reinterpret_cast<char *>(&out) + k * bytes, p, bytes);
  }
  return out;
}

void emu_matrix_store(emu_site at, void *target, unsigned long stride, unsigned layout, unsigned long elements) {
  Exchange &e = arrive(at, Operation::matrix_store, 0, layout);
  const unsigned lane = scheduler.lane, bytes = size_of(layout & 0xff);
  e.value[lane] = {reinterpret_cast<unsigned long>(target), stride};
  gather(e);
  for (unsigned k = 0; k < 2; ++k) {
    char *p = static_cast<char *>(target) + place(lane, k, stride, layout & 256) * bytes;
    check_access(reinterpret_cast<uintptr_t>(p), bytes, true, at);
    memcpy(p, reinterpret_cast<char *>(&elements) + k * bytes, bytes);
  }
}

unsigned long emu_matrix_multiply(emu_site at, unsigned types, emu_bits ab, unsigned long c) {
  Exchange &e = arrive(at, Operation::matrix_multiply, 0, types);
  e.value[scheduler.lane] = ab;
  e.second[scheduler.lane] = {c, 0};
  gather(e);
  return e.second[scheduler.lane].high;
}

}  // extern "C"
