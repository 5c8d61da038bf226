// The shim's calls into the runtime. Every call that synchronises lanes carries its place in the .metal source.
#ifndef EMU_CALLS_H
#define EMU_CALLS_H

struct emu_site {
  const char *file;
  unsigned line, column;
  static constexpr emu_site here(const char *file = __builtin_FILE(), unsigned line = __builtin_LINE(),
                                 unsigned column = __builtin_COLUMN()) {
    return {file, line, column};
  }
};

// Up to 16 bytes of a value, passed in registers so that no local variable needs an address.
struct emu_bits {
  unsigned long low, high;
};

enum emu_type {
  EMU_FLOAT,
  EMU_HALF,
  EMU_BFLOAT,
  EMU_CHAR,
  EMU_UCHAR,
  EMU_SHORT,
  EMU_USHORT,
  EMU_INT,
  EMU_UINT,
  EMU_LONG,
  EMU_ULONG
};

enum emu_permute {
  EMU_SHUFFLE,
  EMU_SHUFFLE_XOR,
  EMU_SHUFFLE_UP,
  EMU_SHUFFLE_DOWN,
  EMU_ROTATE_UP,
  EMU_ROTATE_DOWN,
  EMU_BROADCAST,
  EMU_BROADCAST_FIRST,
  EMU_FILL_UP,
  EMU_FILL_DOWN,
  EMU_PERMUTES
};

enum emu_reduce {
  EMU_SUM,
  EMU_PRODUCT,
  EMU_MIN,
  EMU_MAX,
  EMU_AND,
  EMU_OR,
  EMU_XOR,
  EMU_INCLUSIVE_SUM,
  EMU_EXCLUSIVE_SUM,
  EMU_INCLUSIVE_PRODUCT,
  EMU_EXCLUSIVE_PRODUCT,
  EMU_REDUCTIONS
};

enum emu_vote { EMU_BALLOT, EMU_ALL, EMU_ANY, EMU_IS_FIRST, EMU_ACTIVE, EMU_VOTES };

// Width in lanes (32 or 4), as the kind's upper bits.
enum { EMU_SIMD = 0, EMU_QUAD = 0x100 };

extern "C" {
void emu_threadgroup_barrier(emu_site at, unsigned flags);
void emu_simdgroup_barrier(emu_site at, unsigned flags);
void emu_fence(emu_site at, unsigned flags, unsigned order, unsigned scope);

emu_bits emu_simd_permute(emu_site at, unsigned kind, emu_bits value, unsigned argument);
// `control`: delta | modulo << 16.
emu_bits emu_simd_fill(emu_site at, unsigned kind, emu_bits value, unsigned control, unsigned bytes, emu_bits filling);
// `layout`: emu_type | components << 8.
emu_bits emu_simd_reduce(emu_site at, unsigned kind, emu_bits value, unsigned layout);
unsigned long emu_simd_vote(emu_site at, unsigned kind, bool value);

// 8x8 matrices; two elements per lane. `layout`: emu_type | transpose << 8.
emu_bits emu_matrix_load(emu_site at, const void *source, unsigned long stride, unsigned layout);
void emu_matrix_store(emu_site at, void *target, unsigned long stride, unsigned layout, unsigned long elements);
// `types`: of d | a << 8 | b << 16 | c << 24; ab holds a's bits, then b's.
unsigned long emu_matrix_multiply(emu_site at, unsigned types, emu_bits ab, unsigned long c);
unsigned emu_lane_index();

char *emu_threadgroup_memory();
[[noreturn]] void emu_bad_component(emu_site at, long index, unsigned count);

float emu_math_1(unsigned function, float x);
float emu_math_2(unsigned function, float x, float y);
}

#endif
