// Overloads for every type that Metal lists, and no templates: max(int, uint) must be ambiguous here as in Metal.
#ifndef EMU_LISTS_H
#define EMU_LISTS_H

#define EMU_SIZES(M, name, T) M(name, T##2, 2, T) M(name, T##3, 3, T) M(name, T##4, 4, T)
#define EMU_REALS(S, V, name) S(name, float) S(name, half) EMU_SIZES(V, name, float) EMU_SIZES(V, name, half)
#define EMU_SINGLES(S, V, name) S(name, float) EMU_SIZES(V, name, float)
#define EMU_WHOLES(S, V, name)                                                                                \
  S(name, char)                                                                                               \
  S(name, uchar) S(name, short) S(name, ushort) S(name, int) S(name, uint) S(name, long) S(name, ulong)       \
      EMU_SIZES(V, name, char) EMU_SIZES(V, name, uchar) EMU_SIZES(V, name, short) EMU_SIZES(V, name, ushort) \
          EMU_SIZES(V, name, int) EMU_SIZES(V, name, uint) EMU_SIZES(V, name, long) EMU_SIZES(V, name, ulong)

// One, two or three arguments of one type: the scalar forms call emu::name##_of, the vector forms go by component.
#define EMU_S1(name, T) \
  EMU_SHIM inline T name(T x) { return emu::name##_of(x); }
#define EMU_S2(name, T) \
  EMU_SHIM inline T name(T x, T y) { return emu::name##_of(x, y); }
#define EMU_S3(name, T) \
  EMU_SHIM inline T name(T x, T y, T z) { return emu::name##_of(x, y, z); }
#define EMU_V1(name, V, N, T)                                   \
  EMU_SHIM inline V name(V x) {                                 \
    V r;                                                        \
    for (int i = 0; i < N; ++i) r[i] = emu::name##_of(T(x[i])); \
    return r;                                                   \
  }
#define EMU_V2(name, V, N, T)                                            \
  EMU_SHIM inline V name(V x, V y) {                                     \
    V r;                                                                 \
    for (int i = 0; i < N; ++i) r[i] = emu::name##_of(T(x[i]), T(y[i])); \
    return r;                                                            \
  }
#define EMU_V3(name, V, N, T)                                                     \
  EMU_SHIM inline V name(V x, V y, V z) {                                         \
    V r;                                                                          \
    for (int i = 0; i < N; ++i) r[i] = emu::name##_of(T(x[i]), T(y[i]), T(z[i])); \
    return r;                                                                     \
  }

#endif
