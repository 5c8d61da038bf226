// Generated from shaders/ by swift/scripts/shader-source.mjs. Do not edit.

/// Every kernel, as Metal's runtime compiler takes it.
let kernelSource = ##"""
#line 1 "shaders/chunk_prepare.metal"
// Chunked gated delta rule, first half: the two 16 x 16 matrices of every chunk and value head, all in parallel.
//
// query, key [tokens, Hk, Dk] T; gate (decay) [tokens, Hv] or [tokens, Hv, Dk] f32; beta [tokens, Hv] f32; strides as
// in recurrence_decode.metal. chunks [count]: rows of each chunk, 1..16. scratch [count, Hv, 2, 16, 16] f32, out.
//
// With D(i, j) the product of the decays after token j up to token i (per key dimension it lies inside the dot):
//   A(i, j) = beta_i k_i . (D(i, j) k_j), j < i        scratch 0 = (I + A)^-1 diag(beta)
//   P(i, j) = q_i . (D(i, j) k_j), j <= i              scratch 1 = P
// (Yang et al. 2024, section 3.3, in the form that needs no W: Vn = (I + A)^-1 beta (V - decayed K S).)
//
// D is a running product over at most 16 decays, which is exp(G_i - G_j) without the logarithm: never a ratio, and a
// decay of exactly 0 stays exactly 0 (its log would give -inf - -inf). It also serves decays per key dimension.
//
// Grid: (Hv, chunks) threadgroups of GDM_CHUNK_THREADS: 16 row groups, group j owning token j's key (rows.h).
// Threadgroup memory, in floats: tile [16, Dk] | A [16, 16] | P [16, 16], passed by the host.
//
// 1. Normalise key j into the tile and keep it in registers.   2. For i = 0 .. 15: carry key j on to token i by its
//    decay, dot with key i: -A(i, j).   3. The same with the queries in the tile: P(i, j).
// 4. Simdgroup 0 inverts I + A: each 8 x 8 diagonal block by its Neumann product (I + N)(I + N^2)(I + N^4), N = -A,
//    which is exact in eight terms; the lower left block by T21 = T22 N21 T11. (A 16 x 16 or larger Neumann product
//    cancels badly where keys repeat; blocks do not.)
// 5. Write both matrices. Tokens past the chunk's end are zero rows: A and P zero, the inverse the identity.
//
// Function constants: TILED_HEADS, GATE_PER_KEY, QK_NORM.
#line 1 "shaders/rows.h"
// One state row of the recurrence, held by GDM_ROW_LANES = 8 neighbouring lanes in registers; four rows a simdgroup.
//
// Lane map: lane l holds the key columns 4 (l + 8 i) + {0, 1, 2, 3} for i = 0 .. N - 1, so that the eight lanes read
// 128 neighbouring bytes of float32 at a time. N = 2 for a key dim of 64, 4 for 128; N = 8 serves any multiple of 8 up
// to 256, columns at or beyond the key dim being zero. Which N a call uses depends on the key dim alone, and so does
// the order of every sum: in a lane over i by fma, then (x + y) + (z + w), then across lanes by xor 1, 2, 4. Decode,
// prefill, chunk_prepare, commit and step share it, which is why their bits agree.
//
// The rule (Yang, Kautz, Hatamizadeh, "Gated Delta Networks", 2024, equation 10, in its state-row form):
//   S <- a S;  delta = beta (v - S k);  S <- S + delta k^T;  o = S q
#ifndef GATED_DELTA_SHADERS_ROWS_H
#define GATED_DELTA_SHADERS_ROWS_H

#line 1 "shaders/storage.h"
// How values lie in memory. The activation dtype T and the state dtype S are template parameters of the kernels; the
// dtype of small parameter vectors and the f32 variant of an output are options, read here through one place each, so
// that kernels do not multiply.
#ifndef GATED_DELTA_SHADERS_STORAGE_H
#define GATED_DELTA_SHADERS_STORAGE_H

#line 1 "shaders/options.h"
// The function constants of every kernel: options only. A pipeline sets those its kernel reads, the table in each
// .metal file names them; enum values are those of params.h and of the C header.
#ifndef GATED_DELTA_SHADERS_OPTIONS_H
#define GATED_DELTA_SHADERS_OPTIONS_H

#line 1 "shaders/params.h"
// What the host and the kernels both need to know: parameter structs and sizes. Shared by C, Swift and MSL.
//
// Every struct is plain: 4-byte scalars only, no padding, so that the three languages agree; the assertions below are
// checked by each compiler that sees this file. Strides and extents are in elements: a tensor is at most 4 GiB, so its
// element offsets fit 32 bits; kernels widen them before they multiply.
#ifndef GATED_DELTA_SHADERS_PARAMS_H
#define GATED_DELTA_SHADERS_PARAMS_H

#ifdef __METAL_VERSION__
#include <metal_stdlib>
#else
#include <stdint.h>
#endif

#line 1 "shaders/option_values.h"
/* Generated from gated_delta.h by swift/scripts/layout.mjs: change that header and run it again. */
#ifndef GATED_DELTA_SHADERS_OPTION_VALUES_H
#define GATED_DELTA_SHADERS_OPTION_VALUES_H

enum {
  GDM_F32 = 1,
  GDM_F16 = 2,
  GDM_BF16 = 3,
  GDM_I32 = 4
};
enum {
  GDM_GATE_DECAY = 1,
  GDM_GATE_LOG = 2,
  GDM_GATE_NEG_LOG = 3,
  GDM_GATE_RAW = 4,
  GDM_GATE_RAW_SSM = 5,
  GDM_GATE_RAW_BOUNDED = 6
};
enum {
  GDM_GATE_PER_HEAD = 1,
  GDM_GATE_PER_KEY = 2
};
enum {
  GDM_BETA_GIVEN = 1,
  GDM_BETA_SIGMOID = 2,
  GDM_BETA_TWICE_SIGMOID = 3
};
enum {
  GDM_HEADS_BLOCK = 1,
  GDM_HEADS_TILED = 2
};
enum {
  GDM_NORM_NONE = 1,
  GDM_NORM_L2 = 2,
  GDM_NORM_L2_MAX = 3,
  GDM_NORM_RMS = 4
};
enum {
  GDM_ALGORITHM_AUTO = 0,
  GDM_ALGORITHM_RECURRENT = 1,
  GDM_ALGORITHM_CHUNKED = 2
};
enum {
  GDM_ACTIVATION_NONE = 1,
  GDM_ACTIVATION_SILU = 2,
  GDM_ACTIVATION_SIGMOID = 3
};
enum {
  GDM_NORM_THEN_GATE = 1,
  GDM_GATE_THEN_NORM = 2
};

#endif

#line 16 "shaders/params.h"

#if defined(__METAL_VERSION__) || defined(__cplusplus)
#define GDM_ASSERT_SIZE(type, bytes) static_assert(sizeof(type) == bytes, "layout shared with the host")
#else
#define GDM_ASSERT_SIZE(type, bytes) _Static_assert(sizeof(type) == bytes, "layout shared with the host")
#endif

// Shapes of the work. A state row is spread over GDM_ROW_LANES neighbouring lanes; see rows.h.
enum {
  GDM_SIMD_LANES = 32,
  GDM_ROW_LANES = 8,
  GDM_DECODE_THREADS = 64,    // threads of a decode threadgroup
  GDM_DECODE_ROWS = 8,        // state rows of a decode threadgroup
  GDM_PREFILL_THREADS = 256,
  GDM_PREFILL_ROWS = 32,
  GDM_PREFILL_BLOCK = 16,     // tokens that prefill stages at a time for a key dim of 64 or 128
  GDM_PREFILL_BLOCK_ANY = 8,  // for the others, so that 256 fits threadgroup memory
  GDM_CHUNK = 16,             // tokens of a chunk
  GDM_CHUNK_THREADS = 128,
  GDM_CHUNK_ROWS = 32,        // state rows of a chunk-scan threadgroup
  GDM_CHUNK_SCRATCH = 512,    // floats that chunk_prepare leaves for each chunk and value head
  GDM_CONV_THREADS = 128,     // channels of a conv threadgroup
  GDM_CONV_TILE = 16,         // tokens of a conv thread; at least the largest width - 1
  GDM_CONV_MAX_TAPS = 8,      // the largest width - 1
  GDM_GATE_THREADS = 256,
  GDM_NORM_THREADS = 128,     // one simdgroup a row
  GDM_NORM_ROWS = 4,
  GDM_PROJECT_THREADS = 128,  // four simdgroups, each GDM_PROJECT_TILE outputs of GDM_PROJECT_TILE rows
  GDM_PROJECT_TILE = 4,
  GDM_COPY_THREADS = 256,
  GDM_MAX_DIM = 256           // the largest key or value dim
};

// A slot of a pool to read: 0 and up is that slot of the pool, -1 is zeros, -2 - i is slot i of the staged copies.
enum { GDM_SLOT_NONE = -1, GDM_SLOT_STAGED = -2 };

// An extra store of a sequence's state: what it is after `tokens` tokens of this call, 0 being the state as read.
// A slot of 0 and up is the pool's; -1 - i is entry i of the snapshot tensor. Sorted by tokens within a sequence.
typedef struct GDMStore {
  int32_t tokens;
  int32_t slot;
} GDMStore;
GDM_ASSERT_SIZE(GDMStore, 8);

// One chunk: rows firstToken .. firstToken + count - 1 of the batch, count 1..GDM_CHUNK. A sequence's chunks follow
// one another, and one ends wherever a store wants the state.
typedef struct GDMChunk {
  int32_t firstToken;
  int32_t count;
} GDMChunk;
GDM_ASSERT_SIZE(GDMChunk, 8);

// recurrence_*.metal, chunk_*.metal. gate and beta are the float32 buffers that gates.metal makes.
typedef struct GDMRecurrence {
  uint32_t keyHeads, valueHeads, keyDim, valueDim;
  uint32_t queryTokenStride, queryHeadStride;
  uint32_t keyTokenStride, keyHeadStride;
  uint32_t valueTokenStride, valueHeadStride;
  uint32_t outTokenStride, outHeadStride;
  uint32_t gateTokenStride, gateHeadStride;  // per key dimension the last dim is contiguous
  uint32_t betaTokenStride;
  float scale;    // of the query
  float epsilon;  // of the query and key norm
} GDMRecurrence;
GDM_ASSERT_SIZE(GDMRecurrence, 68);

// recurrence_commit.metal
typedef struct GDMCommit {
  uint32_t keyHeads, valueHeads, keyDim, valueDim;
} GDMCommit;
GDM_ASSERT_SIZE(GDMCommit, 16);

// gates.metal. dims is 1, or keyDim for a gate per key dimension.
typedef struct GDMGates {
  uint32_t tokens, valueHeads, dims;
  uint32_t gateTokenStride, gateHeadStride, betaTokenStride, betaHeadStride;
  float bound;  // L of the raw-bounded form
} GDMGates;
GDM_ASSERT_SIZE(GDMGates, 32);

// conv.metal
typedef struct GDMConv {
  uint32_t channels;
  uint32_t xTokenStride, outTokenStride;
} GDMConv;
GDM_ASSERT_SIZE(GDMConv, 12);

// norm.metal. A row is a (token, head) pair: row = token * heads + head.
typedef struct GDMNorm {
  uint32_t rows, heads, length;
  uint32_t xTokenStride, xHeadStride;
  uint32_t zTokenStride, zHeadStride;
  uint32_t outTokenStride, outHeadStride;
  float epsilon;
} GDMNorm;
GDM_ASSERT_SIZE(GDMNorm, 40);

// projection.metal
typedef struct GDMProject {
  uint32_t rows, inputs, outputs;
  uint32_t xRowStride, outRowStride;
} GDMProject;
GDM_ASSERT_SIZE(GDMProject, 20);

// step.metal: strides of one row (token) a sequence; channels are query | key | value, each head-major.
typedef struct GDMStep {
  uint32_t keyHeads, valueHeads, keyDim, valueDim;
  uint32_t xTokenStride;
  uint32_t gateTokenStride, gateHeadStride, betaTokenStride, betaHeadStride;
  uint32_t zTokenStride, zHeadStride;
  uint32_t outTokenStride, outHeadStride;
  float scale, epsilon, bound, normEpsilon;
} GDMStep;
GDM_ASSERT_SIZE(GDMStep, 68);

// slots.metal: units of a slot, in the kernel's copy unit of 2, 4 or 16 bytes.
typedef struct GDMSlots {
  uint32_t slotUnits;
} GDMSlots;
GDM_ASSERT_SIZE(GDMSlots, 4);

#endif

#line 7 "shaders/options.h"

#include <metal_stdlib>
// Here and not only in numerics.h: the unsigned types' short names are of this namespace.
using namespace metal;

// Recurrence.
constant bool TILED_HEADS [[function_constant(0)]];     // key head of value head h: h % Hk; otherwise h / (Hv / Hk)
constant bool GATE_PER_KEY [[function_constant(1)]];    // a decay for every key dimension, not one a head
constant uint QK_NORM [[function_constant(2)]];         // GDM_NORM_*
constant bool OUT_F32 [[function_constant(3)]];         // out is f32, not the activation dtype
constant bool HAS_STORES [[function_constant(4)]];      // extra stores of the state inside a sequence
constant bool RECORD [[function_constant(5)]];          // keep delta and normalised key of every token

// Gates.
constant uint GATE_FORM [[function_constant(8)]];       // GDM_GATE_*
constant uint BETA_FORM [[function_constant(9)]];       // GDM_BETA_*
constant uint GATE_DTYPE [[function_constant(10)]];     // GDM_F32, GDM_F16, GDM_BF16; so the four below
constant uint BETA_DTYPE [[function_constant(11)]];
constant uint A_LOG_DTYPE [[function_constant(12)]];
constant uint DT_BIAS_DTYPE [[function_constant(13)]];

// Convolution.
constant uint CONV_WIDTH [[function_constant(16)]];     // 2..9
constant bool CONV_BIAS [[function_constant(17)]];
constant bool CONV_SILU [[function_constant(18)]];
constant bool CONV_STATE_F32 [[function_constant(19)]]; // the conv state is f32, not the activation dtype
constant uint CONV_WEIGHT_DTYPE [[function_constant(20)]];
constant uint CONV_BIAS_DTYPE [[function_constant(21)]];

// Gated norm.
constant bool NORM_SIGMOID [[function_constant(24)]];   // gate by sigmoid(z), not silu(z)
constant bool NORM_GATE_FIRST [[function_constant(25)]]; // norm(x act(z)), not norm(x) act(z)
constant bool NORM_X_F32 [[function_constant(26)]];     // x is f32, not the activation dtype
constant uint NORM_WEIGHT_DTYPE [[function_constant(27)]];

#endif

#line 8 "shaders/storage.h"
#line 1 "shaders/numerics.h"
// Elementary functions in float32, one helper each, used by every kernel: their bits must not depend on the platform's
// mathematics library, so they are built from correctly rounded operations alone (+ - * fma, divide, sqrt).
//
// Contraction is off: a fused multiply-add happens where fma() is written and nowhere else. The host compiles with
// mathMode safe too, which these rely on for infinities and NaN.
#ifndef GATED_DELTA_SHADERS_NUMERICS_H
#define GATED_DELTA_SHADERS_NUMERICS_H

#include <metal_stdlib>
using namespace metal;
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

// e^x within 1 ulp; 0 below -104, infinity above 88.8, NaN for NaN. Cody-Waite reduction x = n ln 2 + r,
// |r| <= ln 2 / 2, and a minimax polynomial for (e^r - 1 - r) / r^2 of relative weight, error 3e-9 of e^r.
inline float gd_exp(float x) {
  // The ends are compared first: NaN compares false and goes through the polynomial as NaN, with a harmless n.
  if (x > 88.8f) return as_type<float>(0x7f800000u);
  if (x < -104.0f) return 0.0f;
  float n = floor(fma(x, 1.44269504f, 0.5f));
  // ln 2 in two parts: the upper has 15 significant bits, so n times it is exact.
  float r = fma(n, -0.693145751953125f, x);
  r = fma(n, -1.42860677e-6f, r);
  float p = 0.00138146023f;
  p = fma(p, r, 0.00836871564f);
  p = fma(p, r, 0.041668389f);
  p = fma(p, r, 0.166665211f);
  p = fma(p, r, 0.49999994f);
  float y = 1.0f + fma(p, r * r, r);
  // 2^n in two factors, so that neither overflows nor is denormal before the last product.
  int whole = x == x ? int(n) : 0;
  int lower = whole >> 1;
  int upper = whole - lower;
  return (y * as_type<float>(uint(lower + 127) << 23)) * as_type<float>(uint(upper + 127) << 23);
}

// log(1 + u) for u in [0, 1], relative error below 3 ulp for the smallest u too: 2 atanh(u / (2 + u)).
inline float gd_log1p_unit(float u) {
  float s = precise::divide(u, 2.0f + u);
  float z = s * s;
  float p = 0.243009329f;
  p = fma(p, z, 0.214276582f);
  p = fma(p, z, 0.286168844f);
  p = fma(p, z, 0.39998877f);
  p = fma(p, z, 0.666666746f);
  return s * fma(p, z, 2.0f);
}

// log(1 + e^x) = max(x, 0) + log(1 + e^-|x|): no overflow, and e^x for very negative x.
inline float gd_softplus(float x) {
  float tail = gd_log1p_unit(gd_exp(-fabs(x)));
  return x > 0.0f ? x + tail : tail;
}

// 1 / (1 + e^-x), from e^-|x| so that neither end loses relative precision.
inline float gd_sigmoid(float x) {
  float e = gd_exp(-fabs(x));
  return precise::divide(x < 0.0f ? e : 1.0f, 1.0f + e);
}

inline float gd_silu(float x) { return x * gd_sigmoid(x); }

// 1 / sqrt(x) from two correctly rounded operations: within 1 ulp, and the same bits everywhere.
inline float gd_rsqrt(float x) { return precise::divide(1.0f, precise::sqrt(x)); }

#endif

#line 9 "shaders/storage.h"

// Four neighbouring elements as stored, and their conversion from and to float32.
template <typename T> struct Vec4;
template <> struct Vec4<float> {
  typedef float4 type;
  static float4 widen(float4 v) { return v; }
  static float4 round(float4 v) { return v; }
};
template <> struct Vec4<half> {
  typedef half4 type;
  static float4 widen(half4 v) { return float4(v); }
  static half4 round(float4 v) { return half4(v); }
};
template <> struct Vec4<bfloat> {
  typedef bfloat4 type;
  static float4 widen(bfloat4 v) { return float4(v); }
  static bfloat4 round(float4 v) { return bfloat4(v); }
};

// Element i of a parameter vector (weights, biases, gates) of any float dtype. The pointer is in 16-bit units because
// that is the alignment all three have; float32 data is 4-byte aligned by the host.
inline float read_any(device const ushort* p, ulong i, uint dtype) {
  if (dtype == GDM_F32) return ((device const float*)p)[i];
  if (dtype == GDM_F16) return float(as_type<half>(p[i]));
  return as_type<float>(uint(p[i]) << 16);
}

// Element i of a tensor that holds T or, where `wide`, float32.
template <typename T> inline float read_wide(device const T* p, ulong i, bool wide) {
  if (wide) return ((device const float*)p)[i];
  return float(p[i]);
}

template <typename T> inline void write_wide(device T* p, ulong i, float value, bool wide) {
  if (wide) ((device float*)p)[i] = value;
  else p[i] = T(value);
}

#endif

#line 15 "shaders/rows.h"

template <uint N> struct Row {
  float4 part[N];
};

// The first column of part i of this lane.
inline uint row_column(uint lane, uint i) { return 4 * (lane + GDM_ROW_LANES * i); }

// Only N = 8 has columns beyond the key dim.
template <uint N> inline bool row_holds(uint column, uint keyDim) { return N < 8 || column < keyDim; }

template <uint N> inline void row_zero(thread Row<N>& row) {
  for (uint i = 0; i < N; ++i) row.part[i] = float4(0.0f);
}

template <typename T, uint N>
inline void row_load(thread Row<N>& row, device const T* p, uint lane, uint keyDim) {
  typedef typename Vec4<T>::type T4;
  for (uint i = 0; i < N; ++i) {
    uint column = row_column(lane, i);
    row.part[i] = row_holds<N>(column, keyDim) ? Vec4<T>::widen(*(device const T4*)(p + column)) : float4(0.0f);
  }
}

template <uint N>
inline void row_load(thread Row<N>& row, threadgroup const float* p, uint lane, uint keyDim) {
  for (uint i = 0; i < N; ++i) {
    uint column = row_column(lane, i);
    row.part[i] = row_holds<N>(column, keyDim) ? *(threadgroup const float4*)(p + column) : float4(0.0f);
  }
}

template <typename T, uint N>
inline void row_store(device T* p, thread const Row<N>& row, uint lane, uint keyDim) {
  typedef typename Vec4<T>::type T4;
  for (uint i = 0; i < N; ++i) {
    uint column = row_column(lane, i);
    if (row_holds<N>(column, keyDim)) *(device T4*)(p + column) = Vec4<T>::round(row.part[i]);
  }
}

template <uint N>
inline void row_store(threadgroup float* p, thread const Row<N>& row, uint lane, uint keyDim) {
  for (uint i = 0; i < N; ++i) {
    uint column = row_column(lane, i);
    if (row_holds<N>(column, keyDim)) *(threadgroup float4*)(p + column) = row.part[i];
  }
}

// The sum over the columns of a b, the same bits in all eight lanes. Every lane of the simdgroup must call it.
template <uint N> inline float row_dot(thread const Row<N>& a, thread const Row<N>& b) {
  float4 sum = a.part[0] * b.part[0];
  for (uint i = 1; i < N; ++i) sum = fma(a.part[i], b.part[i], sum);
  float total = (sum.x + sum.y) + (sum.z + sum.w);
  total += simd_shuffle_xor(total, ushort(1));
  total += simd_shuffle_xor(total, ushort(2));
  total += simd_shuffle_xor(total, ushort(4));
  return total;
}

template <uint N> inline void row_scale(thread Row<N>& row, float factor) {
  for (uint i = 0; i < N; ++i) row.part[i] *= factor;
}

template <uint N> inline void row_scale(thread Row<N>& row, thread const Row<N>& factors) {
  for (uint i = 0; i < N; ++i) row.part[i] *= factors.part[i];
}

// S <- S + delta k^T for this row. Columns beyond the key dim stay zero: an infinite delta times their zeros is NaN.
template <uint N>
inline void row_add(thread Row<N>& state, float delta, thread const Row<N>& key, uint lane, uint keyDim) {
  for (uint i = 0; i < N; ++i) {
    float4 sum = fma(float4(delta), key.part[i], state.part[i]);
    state.part[i] = row_holds<N>(row_column(lane, i), keyDim) ? sum : float4(0.0f);
  }
}

// Normalises a query or key row and applies `scale` (1 for keys):
//   l2  x rsqrt(sum x^2 + eps);  l2-max  x / max(sqrt(sum x^2), eps);  rms  x rsqrt(sum x^2 + keyDim eps)
template <uint N> inline void row_normalise(thread Row<N>& row, uint keyDim, float epsilon, float scale) {
  if (QK_NORM == GDM_NORM_NONE) {
    row_scale(row, scale);
    return;
  }
  float sum = row_dot(row, row);
  float inverse = 0.0f;
  if (QK_NORM == GDM_NORM_L2_MAX) {
    float norm = precise::sqrt(sum);
    inverse = precise::divide(1.0f, norm > epsilon ? norm : epsilon);
  } else {
    inverse = gd_rsqrt(QK_NORM == GDM_NORM_RMS ? fma(float(keyDim), epsilon, sum) : sum + epsilon);
  }
  row_scale(row, inverse * scale);
}

// The update of one token on an already decayed row. Returns the output, and delta through its argument.
template <uint N>
inline float row_step(thread Row<N>& state, thread const Row<N>& key, thread const Row<N>& query, float value,
                      float beta, thread float& delta, uint lane, uint keyDim) {
  delta = beta * (value - row_dot(state, key));
  row_add(state, delta, key, lane, keyDim);
  return row_dot(state, query);
}

// The key head that serves a value head, and whether that value head is the first of its key head's.
inline uint key_head_of(uint valueHead, uint keyHeads, uint valueHeads) {
  return TILED_HEADS ? valueHead % keyHeads : valueHead / (valueHeads / keyHeads);
}
inline bool is_first_of_key_head(uint valueHead, uint keyHeads, uint valueHeads) {
  return TILED_HEADS ? valueHead < keyHeads : valueHead % (valueHeads / keyHeads) == 0;
}

// A state row as the op found it, from slot `slot` of the pool or of the staged copies; -1 is zeros by store, so that
// nothing of a slot's old content survives. `row` counts rows within a slot.
template <typename S, uint N>
inline void state_read(thread Row<N>& state, device const S* pool, device const S* staged, int slot, uint slotRows,
                       uint row, uint lane, uint keyDim) {
  if (slot == GDM_SLOT_NONE) {
    row_zero(state);
  } else if (slot >= 0) {
    row_load<S>(state, pool + (ulong(slot) * slotRows + row) * keyDim, lane, keyDim);
  } else {
    row_load<S>(state, staged + (ulong(GDM_SLOT_STAGED - slot) * slotRows + row) * keyDim, lane, keyDim);
  }
}

template <typename S, uint N>
inline void state_write(device S* pool, thread const Row<N>& state, uint slot, uint slotRows, uint row, uint lane,
                        uint keyDim) {
  row_store<S>(pool + (ulong(slot) * slotRows + row) * keyDim, state, lane, keyDim);
}

// Extra stores due after `tokens` tokens: advances `cursor` over them. Only rows that exist are `valid`.
template <typename S, uint N>
inline void state_stores(thread uint& cursor, uint end, device const GDMStore* stores, int tokens, device S* pool,
                         device S* snapshots, thread const Row<N>& state, uint slotRows, uint row, bool valid,
                         uint lane, uint keyDim) {
  while (cursor < end && stores[cursor].tokens <= tokens) {
    int slot = stores[cursor].slot;
    if (valid && slot >= 0) state_write<S>(pool, state, uint(slot), slotRows, row, lane, keyDim);
    if (valid && slot < 0) state_write<S>(snapshots, state, uint(-1 - slot), slotRows, row, lane, keyDim);
    ++cursor;
  }
}

#endif

#line 26 "shaders/chunk_prepare.metal"

// (I - N)^-1 for a strictly lower triangular 8 x 8 block N of a matrix of 16 columns.
inline void chunk_leaf(thread simdgroup_float8x8& inverse, threadgroup const float* block) {
  simdgroup_float8x8 one = simdgroup_float8x8(1.0f);
  simdgroup_float8x8 n;
  simdgroup_float8x8 square;
  simdgroup_float8x8 first;
  simdgroup_float8x8 second;
  simdgroup_float8x8 fourth;
  simdgroup_float8x8 partial;
  simdgroup_load(n, block, GDM_CHUNK, 0, false);
  simdgroup_multiply_accumulate(first, n, one, one);
  simdgroup_multiply_accumulate(second, n, n, one);
  simdgroup_multiply(square, n, n);
  simdgroup_multiply_accumulate(fourth, square, square, one);
  simdgroup_multiply(partial, first, second);
  simdgroup_multiply(inverse, partial, fourth);
}

// Stages row `group` of a chunk, normalised; zeros past the chunk's end, whatever the norm makes of them.
template <typename T, uint N>
inline void chunk_stage(thread Row<N>& row, threadgroup float* tile, device const T* source, bool present,
                        float epsilon, float scale, uint group, uint lane, uint keyDim) {
  row_load<T>(row, source, lane, keyDim);
  row_normalise(row, keyDim, epsilon, scale);
  if (!present) row_zero(row);
  row_store(tile + group * keyDim, row, lane, keyDim);
}

template <typename T, uint N>
[[max_total_threads_per_threadgroup(GDM_CHUNK_THREADS)]]
kernel void gd_chunk_prepare(device const T* query [[buffer(0)]],
                             device const T* key [[buffer(1)]],
                             device const float* gate [[buffer(2)]],
                             device const float* beta [[buffer(3)]],
                             device const GDMChunk* chunks [[buffer(4)]],
                             device float* scratch [[buffer(5)]],
                             constant GDMRecurrence& params [[buffer(6)]],
                             threadgroup float* memory [[threadgroup(0)]],
                             uint2 group [[threadgroup_position_in_grid]],
                             uint index [[thread_index_in_threadgroup]]) {
  uint keyDim = N < 8 ? 32 * N : params.keyDim;
  uint valueHead = group.x;
  uint keyHead = key_head_of(valueHead, params.keyHeads, params.valueHeads);
  threadgroup float* tile = memory;
  threadgroup float* negA = tile + GDM_CHUNK * keyDim;
  threadgroup float* dots = negA + GDM_CHUNK * GDM_CHUNK;

  uint lane = index % GDM_ROW_LANES;
  uint own = index / GDM_ROW_LANES;
  uint count = uint(chunks[group.y].count);
  ulong base = ulong(chunks[group.y].firstToken);
  ulong token = base + min(own, count - 1);
  ulong gateBase = base * params.gateTokenStride + ulong(valueHead) * params.gateHeadStride;
  ulong betaBase = base * params.betaTokenStride + valueHead;
  device const T* keyRow = key + (token * params.keyTokenStride + ulong(keyHead) * params.keyHeadStride);
  device const T* queryRow = query + (token * params.queryTokenStride + ulong(keyHead) * params.queryHeadStride);

  Row<N> ownKey;
  chunk_stage(ownKey, tile, keyRow, own < count, params.epsilon, 1.0f, own, lane, keyDim);
  threadgroup_barrier(mem_flags::mem_threadgroup);

  for (uint pass = 0; pass < 2; ++pass) {
    if (pass == 1) {
      threadgroup_barrier(mem_flags::mem_threadgroup);
      Row<N> ownQuery;
      chunk_stage(ownQuery, tile, queryRow, own < count, params.epsilon, params.scale, own, lane, keyDim);
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    Row<N> carried = ownKey;
    for (uint i = 0; i < GDM_CHUNK; ++i) {
      if (i > own && i < count) {
        ulong at = gateBase + ulong(i) * params.gateTokenStride;
        if (GATE_PER_KEY) {
          Row<N> decay;
          row_load<float>(decay, gate + at, lane, keyDim);
          row_scale(carried, decay);
        } else {
          row_scale(carried, gate[at]);
        }
      }
      Row<N> other;
      row_load(other, tile + i * keyDim, lane, keyDim);
      float product = row_dot(carried, other);
      if (lane == 0 && pass == 0) {
        float b = i < count ? beta[betaBase + ulong(i) * params.betaTokenStride] : 0.0f;
        negA[i * GDM_CHUNK + own] = i > own ? -(b * product) : 0.0f;
      }
      if (lane == 0 && pass == 1) dots[i * GDM_CHUNK + own] = i >= own ? product : 0.0f;
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);

  if (index < GDM_SIMD_LANES) {
    simdgroup_float8x8 upper;
    simdgroup_float8x8 lower;
    simdgroup_float8x8 corner;
    simdgroup_float8x8 partial;
    chunk_leaf(upper, negA);
    chunk_leaf(lower, negA + 8 * GDM_CHUNK + 8);
    simdgroup_load(corner, negA + 8 * GDM_CHUNK, GDM_CHUNK, 0, false);
    simdgroup_multiply(partial, lower, corner);
    simdgroup_multiply(corner, partial, upper);
    // The matrix is in registers: its place takes the inverse, whose upper right block is the zeros already there.
    simdgroup_barrier(mem_flags::mem_threadgroup);
    simdgroup_store(upper, negA, GDM_CHUNK, 0, false);
    simdgroup_store(corner, negA + 8 * GDM_CHUNK, GDM_CHUNK, 0, false);
    simdgroup_store(lower, negA + 8 * GDM_CHUNK + 8, GDM_CHUNK, 0, false);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);

  ulong at = (ulong(group.y) * params.valueHeads + valueHead) * GDM_CHUNK_SCRATCH;
  for (uint i = index; i < GDM_CHUNK * GDM_CHUNK; i += GDM_CHUNK_THREADS) {
    uint column = i % GDM_CHUNK;
    float b = column < count ? beta[betaBase + ulong(column) * params.betaTokenStride] : 0.0f;
    scratch[at + i] = negA[i] * b;
    scratch[at + GDM_CHUNK * GDM_CHUNK + i] = dots[i];
  }
}

// Names: gd_chunk_prepare_<T>_<key dim>; kany serves any multiple of 8 up to 256.
template [[host_name("gd_chunk_prepare_f32_k64")]] kernel decltype(gd_chunk_prepare<float, 2>) gd_chunk_prepare<float, 2>;
template [[host_name("gd_chunk_prepare_f16_k64")]] kernel decltype(gd_chunk_prepare<half, 2>) gd_chunk_prepare<half, 2>;
template [[host_name("gd_chunk_prepare_bf16_k64")]] kernel decltype(gd_chunk_prepare<bfloat, 2>) gd_chunk_prepare<bfloat, 2>;
template [[host_name("gd_chunk_prepare_f32_k128")]] kernel decltype(gd_chunk_prepare<float, 4>) gd_chunk_prepare<float, 4>;
template [[host_name("gd_chunk_prepare_f16_k128")]] kernel decltype(gd_chunk_prepare<half, 4>) gd_chunk_prepare<half, 4>;
template [[host_name("gd_chunk_prepare_bf16_k128")]] kernel decltype(gd_chunk_prepare<bfloat, 4>) gd_chunk_prepare<bfloat, 4>;
template [[host_name("gd_chunk_prepare_f32_kany")]] kernel decltype(gd_chunk_prepare<float, 8>) gd_chunk_prepare<float, 8>;
template [[host_name("gd_chunk_prepare_f16_kany")]] kernel decltype(gd_chunk_prepare<half, 8>) gd_chunk_prepare<half, 8>;
template [[host_name("gd_chunk_prepare_bf16_kany")]] kernel decltype(gd_chunk_prepare<bfloat, 8>) gd_chunk_prepare<bfloat, 8>;

#line 1 "shaders/chunk_scan.metal"
// Chunked gated delta rule, second half: the state through a sequence's chunks, 16 tokens at a time, with 8 x 8
// simdgroup matrices.
//
// query, key, value, gate, state, staged, out, slots and stores: as in recurrence_decode.metal (no records). scratch:
// what chunk_prepare.metal left. chunks, chunkOffsets [n + 1]: sequence s has chunks chunkOffsets[s] ..
// chunkOffsets[s + 1] - 1; one ends wherever a store wants the state.
//
// Grid: (ceil(Dv / 32), Hv, n) threadgroups of GDM_CHUNK_THREADS. A simdgroup owns 8 state rows, held transposed as
// Dk / 8 matrices [8 key columns, 8 rows]; those beyond Dv hold zeros and write nothing.
// Threadgroup memory, in floats: tile [16, Dk] | values [16, 32] | matrices [2, 16, 16] | GATE_PER_KEY: decays
// [Dk / 8, 8, 8], passed by the host.
//
// With g_i the product of the chunk's decays up to token i and h_i of those after it, per head or per key dimension:
// 1. O = (g Q) S.   2. R = V - (g K) S.   3. Vn = (I + A)^-1 beta R, O += P Vn.   4. S <- g_last S + (h K)^T Vn.
// Rows are scaled as they are staged, so that every product but the decay of S is a plain one; S is decayed by a
// diagonal matrix, which adds exact zeros. Products of decays are running ones: see chunk_prepare.metal.
//
// Function constants: TILED_HEADS, GATE_PER_KEY, QK_NORM, OUT_F32, HAS_STORES.
#line 1 "shaders/chunk.h"
// The pieces of chunk_scan.metal: the state as simdgroup matrices, and the tile of 16 staged rows.
//
// Only documented simdgroup_matrix operations are used (load, store, multiply, the diagonal constructor), so nothing
// here depends on which lane holds which element. Every function is called by all threads of the threadgroup, or by
// all lanes of a simdgroup, in uniform control flow.
#ifndef GATED_DELTA_SHADERS_CHUNK_H
#define GATED_DELTA_SHADERS_CHUNK_H



// The panels of the state must live in registers, so loops over them are unrolled: an array with a running index would
// be kept in memory.
#define GDM_UNROLL _Pragma("clang loop unroll(full)")

// The state rows of one simdgroup (never passed as const: the operations on matrices are documented to take references
// to ones that are not): part f is [key columns 8 f .. 8 f + 7, 8 rows].
template <uint P> struct Panels {
  simdgroup_float8x8 part[P];
};

template <uint P> inline bool panel_exists(uint panel, uint panels) { return P < 32 || panel < panels; }

// Puts row `own` into the tile, scaled; zeros past the chunk's end, whatever the norm made of the row.
template <uint N>
inline void chunk_put(threadgroup float* tile, thread const Row<N>& row, bool present, float scale, uint own,
                      uint lane, uint keyDim) {
  Row<N> scaled = row;
  row_scale(scaled, scale);
  if (!present) row_zero(scaled);
  row_store(tile + own * keyDim, scaled, lane, keyDim);
}

// Scales row i of the tile by the product of the decays up to token i, per key dimension.
inline void chunk_scale_up_to(threadgroup float* tile, device const float* gate, ulong gateStride, uint count,
                              uint index, uint keyDim) {
  for (uint d = index; d < keyDim; d += GDM_CHUNK_THREADS) {
    float product = 1.0f;
    for (uint i = 0; i < count; ++i) {
      product *= gate[i * gateStride + d];
      tile[i * keyDim + d] *= product;
    }
  }
}

// Scales row i by the product of the decays after token i, and lays out the chunk's whole product as diagonal 8 x 8
// matrices [Dk / 8, 8, 8].
inline void chunk_scale_after(threadgroup float* tile, threadgroup float* decays, device const float* gate,
                              ulong gateStride, uint count, uint index, uint keyDim) {
  for (uint d = index; d < keyDim; d += GDM_CHUNK_THREADS) {
    float product = 1.0f;
    for (uint i = count; i > 0; --i) {
      tile[(i - 1) * keyDim + d] *= product;
      product *= gate[(i - 1) * gateStride + d];
    }
    for (uint c = 0; c < 8; ++c) decays[d * 8 + c] = c == d % 8 ? product : 0.0f;
  }
}

// result += (8 rows of the tile) times the state.
template <uint P>
inline void chunk_times_state(thread simdgroup_float8x8& result, threadgroup const float* tile,
                              thread Panels<P>& s, uint panels, uint keyDim) {
  GDM_UNROLL
  for (uint f = 0; f < P; ++f) {
    if (panel_exists<P>(f, panels)) {
      simdgroup_float8x8 rows;
      simdgroup_load(rows, tile + 8 * f, keyDim, 0, false);
      simdgroup_multiply_accumulate(result, rows, s.part[f], result);
    }
  }
}

// (y0, y1) = (c0, c1) + M (x0, x1) for a lower triangular M [16, 16].
inline void chunk_lower(thread simdgroup_float8x8& y0, thread simdgroup_float8x8& y1, threadgroup const float* m,
                        simdgroup_float8x8 x0, simdgroup_float8x8 x1, simdgroup_float8x8 c0, simdgroup_float8x8 c1) {
  simdgroup_float8x8 m00;
  simdgroup_float8x8 m10;
  simdgroup_float8x8 m11;
  simdgroup_load(m00, m, GDM_CHUNK, 0, false);
  simdgroup_load(m10, m + 8 * GDM_CHUNK, GDM_CHUNK, 0, false);
  simdgroup_load(m11, m + 8 * GDM_CHUNK + 8, GDM_CHUNK, 0, false);
  simdgroup_multiply_accumulate(y0, m00, x0, c0);
  simdgroup_multiply_accumulate(y1, m10, x0, c1);
  simdgroup_multiply_accumulate(y1, m11, x1, y1);
}

// S <- decay S + (tile)^T Vn. Per head the decay is `total`; per key dimension the diagonal matrices in `decays`.
template <uint P>
inline void chunk_update(thread Panels<P>& s, threadgroup const float* tile, threadgroup const float* decays,
                         float total, simdgroup_float8x8 v0, simdgroup_float8x8 v1, uint panels, uint keyDim) {
  simdgroup_float8x8 decay = simdgroup_float8x8(total);
  GDM_UNROLL
  for (uint f = 0; f < P; ++f) {
    if (panel_exists<P>(f, panels)) {
      simdgroup_float8x8 columns;
      simdgroup_float8x8 next;
      if (GATE_PER_KEY) simdgroup_load(decay, decays + 64 * f, 8, 0, false);
      simdgroup_multiply(next, decay, s.part[f]);
      simdgroup_load(columns, tile + 8 * f, keyDim, 0, true);
      simdgroup_multiply_accumulate(next, columns, v0, next);
      simdgroup_load(columns, tile + 8 * keyDim + 8 * f, keyDim, 0, true);
      simdgroup_multiply_accumulate(next, columns, v1, next);
      s.part[f] = next;
    }
  }
}

// The state rows from their slot, 16 at a time through the tile: each row group reads a row, then the two simdgroups
// that own the rows take them transposed. Rows beyond `rows` are zeros.
template <typename S, uint N>
inline void chunk_state_read(thread Panels<4 * N>& s, threadgroup float* tile, device const S* pool,
                             device const S* staged, int slot, uint slotRows, uint slotRow, uint rows, uint index,
                             uint keyDim) {
  uint lane = index % GDM_ROW_LANES;
  uint own = index / GDM_ROW_LANES;
  uint owner = index / GDM_SIMD_LANES;
  for (uint slice = 0; slice < 2; ++slice) {
    uint row = slice * 16 + own;
    Row<N> x;
    state_read(x, pool, staged, row < rows ? slot : GDM_SLOT_NONE, slotRows, slotRow + row, lane, keyDim);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    row_store(tile + own * keyDim, x, lane, keyDim);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (owner / 2 == slice) {
      GDM_UNROLL
      for (uint f = 0; f < 4 * N; ++f) {
        if (panel_exists<4 * N>(f, keyDim / 8)) {
          simdgroup_load(s.part[f], tile + (owner % 2) * 8 * keyDim + 8 * f, keyDim, 0, true);
        }
      }
    }
  }
}

// The same way back. Begins with a barrier: the tile may still be in use.
template <typename S, uint N>
inline void chunk_state_write(thread Panels<4 * N>& s, threadgroup float* tile, device S* pool, uint slot,
                              uint slotRows, uint slotRow, uint rows, uint index, uint keyDim) {
  uint lane = index % GDM_ROW_LANES;
  uint own = index / GDM_ROW_LANES;
  uint owner = index / GDM_SIMD_LANES;
  for (uint slice = 0; slice < 2; ++slice) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (owner / 2 == slice) {
      GDM_UNROLL
      for (uint f = 0; f < 4 * N; ++f) {
        if (panel_exists<4 * N>(f, keyDim / 8)) {
          simdgroup_store(s.part[f], tile + (owner % 2) * 8 * keyDim + 8 * f, keyDim, 0, true);
        }
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    uint row = slice * 16 + own;
    Row<N> x;
    row_load(x, tile + own * keyDim, lane, keyDim);
    if (row < rows) state_write<S>(pool, x, slot, slotRows, slotRow + row, lane, keyDim);
  }
}

// Extra stores due after `done` tokens.
template <typename S, uint N>
inline void chunk_stores(thread uint& cursor, uint end, device const GDMStore* stores, int done,
                         thread Panels<4 * N>& s, threadgroup float* tile, device S* pool, device S* snapshots,
                         uint slotRows, uint slotRow, uint rows, uint index, uint keyDim) {
  while (cursor < end && stores[cursor].tokens <= done) {
    int slot = stores[cursor].slot;
    if (slot >= 0) chunk_state_write<S, N>(s, tile, pool, uint(slot), slotRows, slotRow, rows, index, keyDim);
    else chunk_state_write<S, N>(s, tile, snapshots, uint(-1 - slot), slotRows, slotRow, rows, index, keyDim);
    ++cursor;
  }
}

#endif

#line 20 "shaders/chunk_scan.metal"

template <typename T, typename S, uint N>
[[max_total_threads_per_threadgroup(GDM_CHUNK_THREADS)]]
kernel void gd_chunk_scan(device const T* query [[buffer(0)]],
                          device const T* key [[buffer(1)]],
                          device const T* value [[buffer(2)]],
                          device const float* gate [[buffer(3)]],
                          device const float* scratch [[buffer(4)]],
                          device S* state [[buffer(5)]],
                          device const S* staged [[buffer(6)]],
                          device T* out [[buffer(7)]],
                          device const GDMChunk* chunks [[buffer(8)]],
                          device const uint* chunkOffsets [[buffer(9)]],
                          device const int* readSlots [[buffer(10)]],
                          device const int* writeSlots [[buffer(11)]],
                          device const uint* storeOffsets [[buffer(12)]],
                          device const GDMStore* stores [[buffer(13)]],
                          device S* snapshots [[buffer(14)]],
                          constant GDMRecurrence& params [[buffer(15)]],
                          threadgroup float* memory [[threadgroup(0)]],
                          uint3 group [[threadgroup_position_in_grid]],
                          uint index [[thread_index_in_threadgroup]]) {
  uint keyDim = N < 8 ? 32 * N : params.keyDim;
  uint panels = keyDim / 8;
  uint valueHead = group.y;
  uint sequence = group.z;
  uint keyHead = key_head_of(valueHead, params.keyHeads, params.valueHeads);
  uint firstRow = group.x * GDM_CHUNK_ROWS;
  uint rows = min(uint(GDM_CHUNK_ROWS), params.valueDim - firstRow);
  uint slotRows = params.valueHeads * params.valueDim;
  uint slotRow = valueHead * params.valueDim + firstRow;
  threadgroup float* tile = memory;
  threadgroup float* values = tile + GDM_CHUNK * keyDim;
  threadgroup float* matrices = values + GDM_CHUNK * GDM_CHUNK_ROWS;
  threadgroup float* decays = matrices + GDM_CHUNK_SCRATCH;

  uint lane = index % GDM_ROW_LANES;
  uint own = index / GDM_ROW_LANES;  // the token that this row group stages
  uint column = 8 * (index / GDM_SIMD_LANES);  // this simdgroup's first row, a column of values

  Panels<4 * N> s;
  chunk_state_read<S, N>(s, tile, state, staged, readSlots[sequence], slotRows, slotRow, rows, index, keyDim);
  uint cursor = HAS_STORES ? storeOffsets[sequence] : 0;
  uint storesEnd = HAS_STORES ? storeOffsets[sequence + 1] : 0;
  int done = 0;
  if (HAS_STORES) {
    chunk_stores<S, N>(cursor, storesEnd, stores, done, s, tile, state, snapshots, slotRows, slotRow, rows, index,
                       keyDim);
  }

  for (uint chunk = chunkOffsets[sequence]; chunk < chunkOffsets[sequence + 1]; ++chunk) {
    uint count = uint(chunks[chunk].count);
    ulong base = ulong(chunks[chunk].firstToken);
    ulong token = base + min(own, count - 1);
    bool present = own < count;
    ulong gateBase = base * params.gateTokenStride + ulong(valueHead) * params.gateHeadStride;
    ulong gateStride = params.gateTokenStride;

    // Per head: the products of decays up to and after the token this group stages, and of the chunk.
    float upTo = 1.0f;
    float after = 1.0f;
    float total = 1.0f;
    if (!GATE_PER_KEY) {
      for (uint i = 0; i < count; ++i) {
        float a = gate[gateBase + i * gateStride];
        if (i <= own) upTo *= a;
        else after *= a;
        total *= a;
      }
    }

    // 1. Queries, values and the chunk's matrices.
    threadgroup_barrier(mem_flags::mem_threadgroup);
    Row<N> row;
    row_load<T>(row, query + (token * params.queryTokenStride + ulong(keyHead) * params.queryHeadStride), lane, keyDim);
    row_normalise(row, keyDim, params.epsilon, params.scale);
    chunk_put(tile, row, present, upTo, own, lane, keyDim);
    for (uint i = index; i < GDM_CHUNK * GDM_CHUNK_ROWS; i += GDM_CHUNK_THREADS) {
      uint t = i / GDM_CHUNK_ROWS;
      uint r = i % GDM_CHUNK_ROWS;
      ulong at = (base + t) * params.valueTokenStride + ulong(valueHead) * params.valueHeadStride + firstRow + r;
      values[i] = t < count && r < rows ? float(value[at]) : 0.0f;
    }
    ulong scratchAt = (ulong(chunk) * params.valueHeads + valueHead) * GDM_CHUNK_SCRATCH;
    for (uint i = index; i < GDM_CHUNK_SCRATCH; i += GDM_CHUNK_THREADS) matrices[i] = scratch[scratchAt + i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (GATE_PER_KEY) {
      chunk_scale_up_to(tile, gate + gateBase, gateStride, count, index, keyDim);
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    simdgroup_float8x8 o0 = simdgroup_float8x8(0.0f);
    simdgroup_float8x8 o1 = simdgroup_float8x8(0.0f);
    chunk_times_state(o0, tile, s, panels, keyDim);
    chunk_times_state(o1, tile + 8 * keyDim, s, panels, keyDim);

    // 2. Keys, negated, so that the product adds onto V.
    threadgroup_barrier(mem_flags::mem_threadgroup);
    row_load<T>(row, key + (token * params.keyTokenStride + ulong(keyHead) * params.keyHeadStride), lane, keyDim);
    row_normalise(row, keyDim, params.epsilon, 1.0f);
    chunk_put(tile, row, present, -upTo, own, lane, keyDim);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (GATE_PER_KEY) {
      chunk_scale_up_to(tile, gate + gateBase, gateStride, count, index, keyDim);
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    simdgroup_float8x8 r0;
    simdgroup_float8x8 r1;
    simdgroup_load(r0, values + column, GDM_CHUNK_ROWS, 0, false);
    simdgroup_load(r1, values + 8 * GDM_CHUNK_ROWS + column, GDM_CHUNK_ROWS, 0, false);
    chunk_times_state(r0, tile, s, panels, keyDim);
    chunk_times_state(r1, tile + 8 * keyDim, s, panels, keyDim);

    // 3. Both matrices are lower triangular: three 8 x 8 blocks each.
    simdgroup_float8x8 v0;
    simdgroup_float8x8 v1;
    chunk_lower(v0, v1, matrices, r0, r1, simdgroup_float8x8(0.0f), simdgroup_float8x8(0.0f));
    chunk_lower(o0, o1, matrices + GDM_CHUNK * GDM_CHUNK, v0, v1, o0, o1);

    // 4. Keys as the state takes them; outputs go where the values were.
    threadgroup_barrier(mem_flags::mem_threadgroup);
    simdgroup_store(o0, values + column, GDM_CHUNK_ROWS, 0, false);
    simdgroup_store(o1, values + 8 * GDM_CHUNK_ROWS + column, GDM_CHUNK_ROWS, 0, false);
    chunk_put(tile, row, present, after, own, lane, keyDim);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (GATE_PER_KEY) {
      chunk_scale_after(tile, decays, gate + gateBase, gateStride, count, index, keyDim);
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    for (uint i = index; i < count * GDM_CHUNK_ROWS; i += GDM_CHUNK_THREADS) {
      uint t = i / GDM_CHUNK_ROWS;
      uint r = i % GDM_CHUNK_ROWS;
      ulong at = (base + t) * params.outTokenStride + ulong(valueHead) * params.outHeadStride + firstRow + r;
      if (r < rows) write_wide(out, at, values[i], OUT_F32);
    }
    chunk_update(s, tile, decays, total, v0, v1, panels, keyDim);

    done += int(count);
    if (HAS_STORES) {
      chunk_stores<S, N>(cursor, storesEnd, stores, done, s, tile, state, snapshots, slotRows, slotRow, rows, index,
                         keyDim);
    }
  }

  int slot = writeSlots[sequence];
  if (slot >= 0) {
    chunk_state_write<S, N>(s, tile, state, uint(slot), slotRows, slotRow, rows, index, keyDim);
  }
}

// Names: gd_chunk_scan_<T>_<S>_<key dim>; kany serves any multiple of 8 up to 256.
template [[host_name("gd_chunk_scan_f32_f32_k64")]] kernel decltype(gd_chunk_scan<float, float, 2>) gd_chunk_scan<float, float, 2>;
template [[host_name("gd_chunk_scan_f32_f16_k64")]] kernel decltype(gd_chunk_scan<float, half, 2>) gd_chunk_scan<float, half, 2>;
template [[host_name("gd_chunk_scan_f32_bf16_k64")]] kernel decltype(gd_chunk_scan<float, bfloat, 2>) gd_chunk_scan<float, bfloat, 2>;
template [[host_name("gd_chunk_scan_f16_f32_k64")]] kernel decltype(gd_chunk_scan<half, float, 2>) gd_chunk_scan<half, float, 2>;
template [[host_name("gd_chunk_scan_f16_f16_k64")]] kernel decltype(gd_chunk_scan<half, half, 2>) gd_chunk_scan<half, half, 2>;
template [[host_name("gd_chunk_scan_f16_bf16_k64")]] kernel decltype(gd_chunk_scan<half, bfloat, 2>) gd_chunk_scan<half, bfloat, 2>;
template [[host_name("gd_chunk_scan_bf16_f32_k64")]] kernel decltype(gd_chunk_scan<bfloat, float, 2>) gd_chunk_scan<bfloat, float, 2>;
template [[host_name("gd_chunk_scan_bf16_f16_k64")]] kernel decltype(gd_chunk_scan<bfloat, half, 2>) gd_chunk_scan<bfloat, half, 2>;
template [[host_name("gd_chunk_scan_bf16_bf16_k64")]] kernel decltype(gd_chunk_scan<bfloat, bfloat, 2>) gd_chunk_scan<bfloat, bfloat, 2>;
template [[host_name("gd_chunk_scan_f32_f32_k128")]] kernel decltype(gd_chunk_scan<float, float, 4>) gd_chunk_scan<float, float, 4>;
template [[host_name("gd_chunk_scan_f32_f16_k128")]] kernel decltype(gd_chunk_scan<float, half, 4>) gd_chunk_scan<float, half, 4>;
template [[host_name("gd_chunk_scan_f32_bf16_k128")]] kernel decltype(gd_chunk_scan<float, bfloat, 4>) gd_chunk_scan<float, bfloat, 4>;
template [[host_name("gd_chunk_scan_f16_f32_k128")]] kernel decltype(gd_chunk_scan<half, float, 4>) gd_chunk_scan<half, float, 4>;
template [[host_name("gd_chunk_scan_f16_f16_k128")]] kernel decltype(gd_chunk_scan<half, half, 4>) gd_chunk_scan<half, half, 4>;
template [[host_name("gd_chunk_scan_f16_bf16_k128")]] kernel decltype(gd_chunk_scan<half, bfloat, 4>) gd_chunk_scan<half, bfloat, 4>;
template [[host_name("gd_chunk_scan_bf16_f32_k128")]] kernel decltype(gd_chunk_scan<bfloat, float, 4>) gd_chunk_scan<bfloat, float, 4>;
template [[host_name("gd_chunk_scan_bf16_f16_k128")]] kernel decltype(gd_chunk_scan<bfloat, half, 4>) gd_chunk_scan<bfloat, half, 4>;
template [[host_name("gd_chunk_scan_bf16_bf16_k128")]] kernel decltype(gd_chunk_scan<bfloat, bfloat, 4>) gd_chunk_scan<bfloat, bfloat, 4>;
template [[host_name("gd_chunk_scan_f32_f32_kany")]] kernel decltype(gd_chunk_scan<float, float, 8>) gd_chunk_scan<float, float, 8>;
template [[host_name("gd_chunk_scan_f32_f16_kany")]] kernel decltype(gd_chunk_scan<float, half, 8>) gd_chunk_scan<float, half, 8>;
template [[host_name("gd_chunk_scan_f32_bf16_kany")]] kernel decltype(gd_chunk_scan<float, bfloat, 8>) gd_chunk_scan<float, bfloat, 8>;
template [[host_name("gd_chunk_scan_f16_f32_kany")]] kernel decltype(gd_chunk_scan<half, float, 8>) gd_chunk_scan<half, float, 8>;
template [[host_name("gd_chunk_scan_f16_f16_kany")]] kernel decltype(gd_chunk_scan<half, half, 8>) gd_chunk_scan<half, half, 8>;
template [[host_name("gd_chunk_scan_f16_bf16_kany")]] kernel decltype(gd_chunk_scan<half, bfloat, 8>) gd_chunk_scan<half, bfloat, 8>;
template [[host_name("gd_chunk_scan_bf16_f32_kany")]] kernel decltype(gd_chunk_scan<bfloat, float, 8>) gd_chunk_scan<bfloat, float, 8>;
template [[host_name("gd_chunk_scan_bf16_f16_kany")]] kernel decltype(gd_chunk_scan<bfloat, half, 8>) gd_chunk_scan<bfloat, half, 8>;
template [[host_name("gd_chunk_scan_bf16_bf16_kany")]] kernel decltype(gd_chunk_scan<bfloat, bfloat, 8>) gd_chunk_scan<bfloat, bfloat, 8>;

#line 1 "shaders/conv.metal"
// Causal depthwise convolution with its state, for prefill and decode alike: one thread a channel and token tile.
//
// x, out [tokens, C] T (out f32 with OUT_F32), token strides in elements, channels contiguous, C any number.
// weight [C, K], bias [C]: any float dtype (CONV_WEIGHT_DTYPE, CONV_BIAS_DTYPE), read as f32.
// state [slots, C, K - 1] T or f32 (CONV_STATE_F32), oldest first, in place; staged likewise: copies of slots that one
// sequence reads and another writes. cuSeqlens [n + 1]; readSlots, writeSlots [n] (GDM_SLOT_*).
// HAS_STORES: extra stores of the state, as in recurrence_decode.metal; snapshots [entries, C, K - 1].
//
// gd_conv. Grid: (ceil(C / GDM_CONV_THREADS), tiles, n) threadgroups of GDM_CONV_THREADS, tiles the number of
// GDM_CONV_TILE-token tiles of the longest sequence, at least 1.
// 1. Take the K - 1 columns before the tile: from the state in tile 0, else from x.
// 2. For each token of the tile: one output, rounded once at its store.
// 3. Tile 0 alone writes states: it alone has read the old one, and whatever else a new state holds is in x.
//
// gd_conv_shift. Grid: (ceil(C / GDM_CONV_THREADS), n). Moves each sequence's state on by counts[s] of its tokens and
// computes no output: the commit of a verified draft whose inputs x were kept.
//
// Function constants: CONV_WIDTH, CONV_BIAS, CONV_SILU, CONV_STATE_F32, CONV_WEIGHT_DTYPE, CONV_BIAS_DTYPE, OUT_F32,
// HAS_STORES; gd_conv_shift: CONV_WIDTH, CONV_STATE_F32.
#line 1 "shaders/conv.h"
// Causal depthwise convolution, the parts that conv.metal and step.metal share: the state's layout and one output.
//
// state [slots, C, K - 1], oldest first, T or f32 (CONV_STATE_F32); weight [C, K]; bias [C]; any float dtype.
// y[t] = act(bias + sum over j of w[j] x[t - (K - 1) + j]), taps in ascending order by fma, columns before the
// sequence's first token coming from the state. (The short convolution of Mamba, Gu and Dao 2023, as Gated DeltaNet
// applies it to the joint query, key and value channels.)
#ifndef GATED_DELTA_SHADERS_CONV_H
#define GATED_DELTA_SHADERS_CONV_H



// The K - 1 newest columns of one channel, oldest first; entries from K - 1 on are unused.
struct ConvTaps {
  float column[GDM_CONV_MAX_TAPS];
};

struct ConvWeights {
  float tap[GDM_CONV_MAX_TAPS + 1];
  float bias;
};

inline void conv_weights(thread ConvWeights& w, device const ushort* weight, device const ushort* bias, uint channel) {
  for (uint j = 0; j < CONV_WIDTH; ++j) w.tap[j] = read_any(weight, ulong(channel) * CONV_WIDTH + j, CONV_WEIGHT_DTYPE);
  w.bias = CONV_BIAS ? read_any(bias, channel, CONV_BIAS_DTYPE) : 0.0f;
}

// The state as the op found it: slot of the pool, of the staged copies, or zeros by store.
template <typename T>
inline void conv_read(thread ConvTaps& taps, device const T* pool, device const T* staged, int slot, uint channels,
                      uint channel) {
  uint width = CONV_WIDTH - 1;
  for (uint j = 0; j < width; ++j) {
    if (slot >= 0) {
      taps.column[j] = read_wide(pool, (ulong(slot) * channels + channel) * width + j, CONV_STATE_F32);
    } else if (slot == GDM_SLOT_NONE) {
      taps.column[j] = 0.0f;
    } else {
      ulong from = (ulong(GDM_SLOT_STAGED - slot) * channels + channel) * width + j;
      taps.column[j] = read_wide(staged, from, CONV_STATE_F32);
    }
  }
}

template <typename T>
inline void conv_write(device T* pool, thread const ConvTaps& taps, uint slot, uint channels, uint channel) {
  uint width = CONV_WIDTH - 1;
  for (uint j = 0; j < width; ++j) {
    write_wide(pool, (ulong(slot) * channels + channel) * width + j, taps.column[j], CONV_STATE_F32);
  }
}

// One output, activated but not yet rounded, and the taps moved on by `x`.
inline float conv_token(thread ConvTaps& taps, thread const ConvWeights& w, float x) {
  float sum = w.bias;
  for (uint j = 0; j + 1 < CONV_WIDTH; ++j) sum = fma(w.tap[j], taps.column[j], sum);
  sum = fma(w.tap[CONV_WIDTH - 1], x, sum);
  for (uint j = 0; j + 2 < CONV_WIDTH; ++j) taps.column[j] = taps.column[j + 1];
  taps.column[CONV_WIDTH - 2] = x;
  return CONV_SILU ? gd_silu(sum) : sum;
}

// The columns after `tokens` tokens: the last K - 1 of (old state, x[0 .. tokens)). `x` points at the channel's first
// token of the sequence.
template <typename T>
inline void conv_columns(thread ConvTaps& taps, thread const ConvTaps& old, device const T* x, uint stride,
                         int tokens) {
  int width = int(CONV_WIDTH) - 1;
  for (int j = 0; j < width; ++j) {
    int at = tokens - width + j;
    float column = 0.0f;
    if (at >= 0) {
      column = float(x[ulong(at) * stride]);
    } else {
      // A loop over fixed entries, not old.column[at + width]: the taps stay in registers.
      for (int m = 0; m < width; ++m) column = m == at + width ? old.column[m] : column;
    }
    taps.column[j] = column;
  }
}

#endif

#line 21 "shaders/conv.metal"

template <typename T>
[[max_total_threads_per_threadgroup(GDM_CONV_THREADS)]]
kernel void gd_conv(device const T* x [[buffer(0)]],
                    device const ushort* weight [[buffer(1)]],
                    device const ushort* bias [[buffer(2)]],
                    device T* state [[buffer(3)]],
                    device const T* staged [[buffer(4)]],
                    device T* out [[buffer(5)]],
                    device const int* cuSeqlens [[buffer(6)]],
                    device const int* readSlots [[buffer(7)]],
                    device const int* writeSlots [[buffer(8)]],
                    device const uint* storeOffsets [[buffer(9)]],
                    device const GDMStore* stores [[buffer(10)]],
                    device T* snapshots [[buffer(11)]],
                    constant GDMConv& params [[buffer(12)]],
                    uint3 group [[threadgroup_position_in_grid]],
                    uint index [[thread_index_in_threadgroup]]) {
  uint channel = group.x * GDM_CONV_THREADS + index;
  uint sequence = group.z;
  int begin = cuSeqlens[sequence];
  int count = cuSeqlens[sequence + 1] - begin;
  int first = int(group.y) * GDM_CONV_TILE;
  if (channel >= params.channels || (group.y > 0 && first >= count)) return;

  device const T* input = x + (ulong(begin) * params.xTokenStride + channel);
  ConvTaps old;
  ConvTaps taps;
  if (group.y == 0) {
    conv_read(old, state, staged, readSlots[sequence], params.channels, channel);
    taps = old;
  } else {
    // GDM_CONV_TILE >= K - 1, so that the state is not needed beyond tile 0 and `old` is only a placeholder.
    for (uint j = 0; j < GDM_CONV_MAX_TAPS; ++j) old.column[j] = 0.0f;
    conv_columns(taps, old, input, params.xTokenStride, first);
  }

  ConvWeights w;
  conv_weights(w, weight, bias, channel);
  int end = count - first < GDM_CONV_TILE ? count : first + GDM_CONV_TILE;
  for (int t = first; t < end; ++t) {
    float y = conv_token(taps, w, float(input[ulong(t) * params.xTokenStride]));
    write_wide(out, ulong(begin + t) * params.outTokenStride + channel, y, OUT_F32);
  }

  if (group.y > 0) return;
  if (HAS_STORES) {
    for (uint i = storeOffsets[sequence]; i < storeOffsets[sequence + 1]; ++i) {
      conv_columns(taps, old, input, params.xTokenStride, stores[i].tokens);
      int slot = stores[i].slot;
      if (slot >= 0) conv_write(state, taps, uint(slot), params.channels, channel);
      else conv_write(snapshots, taps, uint(-1 - slot), params.channels, channel);
    }
  }
  int slot = writeSlots[sequence];
  if (slot >= 0) {
    conv_columns(taps, old, input, params.xTokenStride, count);
    conv_write(state, taps, uint(slot), params.channels, channel);
  }
}

template <typename T>
[[max_total_threads_per_threadgroup(GDM_CONV_THREADS)]]
kernel void gd_conv_shift(device const T* x [[buffer(0)]],
                          device T* state [[buffer(1)]],
                          device const T* staged [[buffer(2)]],
                          device const int* cuSeqlens [[buffer(3)]],
                          device const int* counts [[buffer(4)]],
                          device const int* readSlots [[buffer(5)]],
                          device const int* writeSlots [[buffer(6)]],
                          constant GDMConv& params [[buffer(7)]],
                          uint2 group [[threadgroup_position_in_grid]],
                          uint index [[thread_index_in_threadgroup]]) {
  uint channel = group.x * GDM_CONV_THREADS + index;
  uint sequence = group.y;
  int slot = writeSlots[sequence];
  if (channel >= params.channels || slot < 0) return;
  device const T* input = x + (ulong(cuSeqlens[sequence]) * params.xTokenStride + channel);
  ConvTaps old;
  ConvTaps taps;
  conv_read(old, state, staged, readSlots[sequence], params.channels, channel);
  conv_columns(taps, old, input, params.xTokenStride, counts[sequence]);
  conv_write(state, taps, uint(slot), params.channels, channel);
}

// Names: gd_conv_<T>, gd_conv_shift_<T>.
template [[host_name("gd_conv_f32")]] kernel decltype(gd_conv<float>) gd_conv<float>;
template [[host_name("gd_conv_f16")]] kernel decltype(gd_conv<half>) gd_conv<half>;
template [[host_name("gd_conv_bf16")]] kernel decltype(gd_conv<bfloat>) gd_conv<bfloat>;
template [[host_name("gd_conv_shift_f32")]] kernel decltype(gd_conv_shift<float>) gd_conv_shift<float>;
template [[host_name("gd_conv_shift_f16")]] kernel decltype(gd_conv_shift<half>) gd_conv_shift<half>;
template [[host_name("gd_conv_shift_bf16")]] kernel decltype(gd_conv_shift<bfloat>) gd_conv_shift<bfloat>;

#line 1 "shaders/gates.metal"
// Gates and betas of a batch, resolved to the float32 that the recurrence takes.
//
// gate [tokens, Hv] or, per key dimension, [tokens, Hv, Dk]: GATE_DTYPE, token and head strides in elements.
// beta [tokens, Hv]: BETA_DTYPE, token and head strides. aLog [Hv], dtBias [Hv] or [Hv, Dk]: read where the form is raw.
// decay [tokens, Hv, dims] f32, contiguous; betaOut [tokens, Hv] f32, contiguous. dims is 1 or Dk.
//
// Grid: (ceil(tokens Hv dims / GDM_GATE_THREADS)) threadgroups of GDM_GATE_THREADS; a thread writes one decay, and the
// thread of a head's first dimension its beta. Formulas: gates.h.
// Function constants: GATE_FORM, BETA_FORM, GATE_DTYPE, BETA_DTYPE, A_LOG_DTYPE, DT_BIAS_DTYPE.
#line 1 "shaders/gates.h"
// The decay and beta of one token and value head (and key dimension), in float32.
//
//   decay    a                                   the decay itself
//   log      exp(g)
//   neg-log  exp(-g)
//   raw      exp(-exp(A_log) softplus(a + dt_bias))            Yang et al. 2024, as in the reference checkpoints
//   raw-ssm  exp(ssm_a softplus(a + dt_bias))                  aLog holding ssm_a = -exp(A_log)
//   raw-bounded  exp(L sigmoid(exp(A_log) (a + dt_bias)))      Kimi Linear's lower bound L < 0
//   beta     given, sigmoid(b) or 2 sigmoid(b)
#ifndef GATED_DELTA_SHADERS_GATES_H
#define GATED_DELTA_SHADERS_GATES_H



inline float gate_decay(float gate, float aLog, float dtBias, float bound) {
  if (GATE_FORM == GDM_GATE_DECAY) return gate;
  if (GATE_FORM == GDM_GATE_LOG) return gd_exp(gate);
  if (GATE_FORM == GDM_GATE_NEG_LOG) return gd_exp(-gate);
  float x = gate + dtBias;
  if (GATE_FORM == GDM_GATE_RAW) return gd_exp(-(gd_exp(aLog) * gd_softplus(x)));
  if (GATE_FORM == GDM_GATE_RAW_SSM) return gd_exp(aLog * gd_softplus(x));
  return gd_exp(bound * gd_sigmoid(gd_exp(aLog) * x));
}

// Reads what the form needs: gate at gateAt, A_log of the head, dt_bias at biasAt.
inline float gate_read(device const ushort* gate, ulong gateAt, device const ushort* aLog, uint head,
                       device const ushort* dtBias, uint biasAt, float bound) {
  bool raw = GATE_FORM == GDM_GATE_RAW || GATE_FORM == GDM_GATE_RAW_SSM || GATE_FORM == GDM_GATE_RAW_BOUNDED;
  float g = read_any(gate, gateAt, GATE_DTYPE);
  float a = raw ? read_any(aLog, head, A_LOG_DTYPE) : 0.0f;
  float b = raw ? read_any(dtBias, biasAt, DT_BIAS_DTYPE) : 0.0f;
  return gate_decay(g, a, b, bound);
}

inline float beta_read(device const ushort* beta, ulong at) {
  float b = read_any(beta, at, BETA_DTYPE);
  if (BETA_FORM == GDM_BETA_GIVEN) return b;
  float s = gd_sigmoid(b);
  return BETA_FORM == GDM_BETA_TWICE_SIGMOID ? 2.0f * s : s;
}

#endif

#line 11 "shaders/gates.metal"

[[max_total_threads_per_threadgroup(GDM_GATE_THREADS)]]
kernel void gd_gates(device const ushort* gate [[buffer(0)]],
                     device const ushort* beta [[buffer(1)]],
                     device const ushort* aLog [[buffer(2)]],
                     device const ushort* dtBias [[buffer(3)]],
                     device float* decay [[buffer(4)]],
                     device float* betaOut [[buffer(5)]],
                     constant GDMGates& params [[buffer(6)]],
                     uint group [[threadgroup_position_in_grid]],
                     uint index [[thread_index_in_threadgroup]]) {
  // The number of gates fits 32 bits: they are elements of one tensor.
  uint at = group * GDM_GATE_THREADS + index;
  if (at >= params.tokens * params.valueHeads * params.dims) return;
  uint pair = at / params.dims;
  uint dim = at - pair * params.dims;
  uint token = pair / params.valueHeads;
  uint head = pair - token * params.valueHeads;
  ulong from = ulong(token) * params.gateTokenStride + ulong(head) * params.gateHeadStride + dim;
  decay[at] = gate_read(gate, from, aLog, head, dtBias, head * params.dims + dim, params.bound);
  if (dim == 0) {
    betaOut[pair] = beta_read(beta, ulong(token) * params.betaTokenStride + ulong(head) * params.betaHeadStride);
  }
}

#line 1 "shaders/norm.metal"
// Gated RMS norm over the last dimension.
//
// x [tokens, heads, length] T, or f32 (NORM_X_F32); z likewise, T; out likewise, T or f32 (OUT_F32); token and head
// strides in elements, any length. weight [length]: NORM_WEIGHT_DTYPE.
//
// Grid: (ceil(rows / GDM_NORM_ROWS)) threadgroups of GDM_NORM_THREADS: one simdgroup a row, row = token heads + head.
// 1. Each lane sums the squares of its elements.   2. The lanes combine them.   3. Each lane writes its elements.
// Formula and order of the sum: norm.h. Function constants: NORM_SIGMOID, NORM_GATE_FIRST, NORM_X_F32,
// NORM_WEIGHT_DTYPE, OUT_F32.
#line 1 "shaders/norm.h"
// The gated RMS norm of one row, shared by norm.metal and step.metal.
//
//   norm then gate  weight x rsqrt(mean x^2 + eps) act(z)
//   gate then norm  weight u rsqrt(mean u^2 + eps), u = x act(z)          act: silu or sigmoid
// (RMS norm: Zhang and Sennrich 2019. The first order is Gated DeltaNet's output norm, the second Mamba-2's.)
//
// The sum of squares of a row is one simdgroup's: lane l adds elements l, l + 32, ... in order by fma, then lanes add
// by xor 1, 2, 4, 8, 16. The order depends on the row's length alone.
#ifndef GATED_DELTA_SHADERS_NORM_H
#define GATED_DELTA_SHADERS_NORM_H



inline float norm_gate(float z) { return NORM_SIGMOID ? gd_sigmoid(z) : gd_silu(z); }

// What the norm is taken of.
inline float norm_operand(float x, float z) { return NORM_GATE_FIRST ? x * norm_gate(z) : x; }

// From a lane's sum of squares to 1 / rms of the row, in every lane. Every lane of the simdgroup must call it.
inline float norm_inverse(float sum, uint length, float epsilon) {
  sum += simd_shuffle_xor(sum, ushort(1));
  sum += simd_shuffle_xor(sum, ushort(2));
  sum += simd_shuffle_xor(sum, ushort(4));
  sum += simd_shuffle_xor(sum, ushort(8));
  sum += simd_shuffle_xor(sum, ushort(16));
  return gd_rsqrt(precise::divide(sum, float(length)) + epsilon);
}

inline float norm_result(float x, float z, float inverse, float weight) {
  float y = (norm_operand(x, z) * inverse) * weight;
  return NORM_GATE_FIRST ? y : y * norm_gate(z);
}

#endif

#line 11 "shaders/norm.metal"

template <typename T>
[[max_total_threads_per_threadgroup(GDM_NORM_THREADS)]]
kernel void gd_norm(device const T* x [[buffer(0)]],
                    device const T* z [[buffer(1)]],
                    device const ushort* weight [[buffer(2)]],
                    device T* out [[buffer(3)]],
                    constant GDMNorm& params [[buffer(4)]],
                    uint group [[threadgroup_position_in_grid]],
                    uint index [[thread_index_in_threadgroup]]) {
  uint lane = index % GDM_SIMD_LANES;
  uint row = group * GDM_NORM_ROWS + index / GDM_SIMD_LANES;
  if (row >= params.rows) return;  // whole simdgroups
  uint token = row / params.heads;
  uint head = row - token * params.heads;
  ulong xAt = ulong(token) * params.xTokenStride + ulong(head) * params.xHeadStride;
  ulong zAt = ulong(token) * params.zTokenStride + ulong(head) * params.zHeadStride;
  ulong outAt = ulong(token) * params.outTokenStride + ulong(head) * params.outHeadStride;

  float sum = 0.0f;
  for (uint i = lane; i < params.length; i += GDM_SIMD_LANES) {
    float u = norm_operand(read_wide(x, xAt + i, NORM_X_F32), float(z[zAt + i]));
    sum = fma(u, u, sum);
  }
  float inverse = norm_inverse(sum, params.length, params.epsilon);
  for (uint i = lane; i < params.length; i += GDM_SIMD_LANES) {
    float w = read_any(weight, i, NORM_WEIGHT_DTYPE);
    float y = norm_result(read_wide(x, xAt + i, NORM_X_F32), float(z[zAt + i]), inverse, w);
    write_wide(out, outAt + i, y, OUT_F32);
  }
}

// Names: gd_norm_<T>.
template [[host_name("gd_norm_f32")]] kernel decltype(gd_norm<float>) gd_norm<float>;
template [[host_name("gd_norm_f16")]] kernel decltype(gd_norm<half>) gd_norm<half>;
template [[host_name("gd_norm_bf16")]] kernel decltype(gd_norm<bfloat>) gd_norm<bfloat>;

#line 1 "shaders/projection.metal"
// Plain linear projection: out[r, o] = sum over i of x[r, i] weight[o, i], accumulated in float32.
//
// x [rows, inputs] T, out [rows, outputs] T or f32 (OUT_F32), row strides in elements; weight [outputs, inputs] W.
//
// Grid: (ceil(outputs / 16), ceil(rows / 4)) threadgroups of GDM_PROJECT_THREADS. A simdgroup makes a tile of 4 outputs
// by 4 rows, so that a weight read once serves four rows; past the edge it repeats the last row or output, unstored.
//
// 1. Lane l sums elements l, l + 32, ... of each of the 16 products, in order, by fma.
// 2. Lanes add by xor 1, 2, 4, 8, 16. The order depends on `inputs` alone, not on the tile or the number of rows.
// Function constants: OUT_F32.


template <typename T, typename W>
[[max_total_threads_per_threadgroup(GDM_PROJECT_THREADS)]]
kernel void gd_project(device const T* x [[buffer(0)]],
                       device const W* weight [[buffer(1)]],
                       device T* out [[buffer(2)]],
                       constant GDMProject& params [[buffer(3)]],
                       uint2 group [[threadgroup_position_in_grid]],
                       uint index [[thread_index_in_threadgroup]]) {
  constexpr uint tile = GDM_PROJECT_TILE;
  constexpr uint simdgroups = GDM_PROJECT_THREADS / GDM_SIMD_LANES;
  uint lane = index % GDM_SIMD_LANES;
  uint firstOutput = (group.x * simdgroups + index / GDM_SIMD_LANES) * tile;
  uint firstRow = group.y * tile;

  device const T* xRow[tile];
  device const W* weightRow[tile];
  float sum[tile][tile];
  for (uint a = 0; a < tile; ++a) {
    xRow[a] = x + ulong(min(firstRow + a, params.rows - 1)) * params.xRowStride;
    weightRow[a] = weight + ulong(min(firstOutput + a, params.outputs - 1)) * params.inputs;
    for (uint b = 0; b < tile; ++b) sum[a][b] = 0.0f;
  }
  for (uint i = lane; i < params.inputs; i += GDM_SIMD_LANES) {
    float w[tile];
    for (uint b = 0; b < tile; ++b) w[b] = float(weightRow[b][i]);
    for (uint a = 0; a < tile; ++a) {
      float v = float(xRow[a][i]);
      for (uint b = 0; b < tile; ++b) sum[a][b] = fma(v, w[b], sum[a][b]);
    }
  }
  for (uint a = 0; a < tile; ++a) {
    for (uint b = 0; b < tile; ++b) {
      float total = sum[a][b];
      total += simd_shuffle_xor(total, ushort(1));
      total += simd_shuffle_xor(total, ushort(2));
      total += simd_shuffle_xor(total, ushort(4));
      total += simd_shuffle_xor(total, ushort(8));
      total += simd_shuffle_xor(total, ushort(16));
      // Every lane has the total; lane (a, b) of the tile writes it.
      if (lane == a * tile + b && firstRow + a < params.rows && firstOutput + b < params.outputs) {
        write_wide(out, ulong(firstRow + a) * params.outRowStride + (firstOutput + b), total, OUT_F32);
      }
    }
  }
}

// Names: gd_project_<T>_<W>.
template [[host_name("gd_project_f32_f32")]] kernel decltype(gd_project<float, float>) gd_project<float, float>;
template [[host_name("gd_project_f32_f16")]] kernel decltype(gd_project<float, half>) gd_project<float, half>;
template [[host_name("gd_project_f32_bf16")]] kernel decltype(gd_project<float, bfloat>) gd_project<float, bfloat>;
template [[host_name("gd_project_f16_f32")]] kernel decltype(gd_project<half, float>) gd_project<half, float>;
template [[host_name("gd_project_f16_f16")]] kernel decltype(gd_project<half, half>) gd_project<half, half>;
template [[host_name("gd_project_f16_bf16")]] kernel decltype(gd_project<half, bfloat>) gd_project<half, bfloat>;
template [[host_name("gd_project_bf16_f32")]] kernel decltype(gd_project<bfloat, float>) gd_project<bfloat, float>;
template [[host_name("gd_project_bf16_f16")]] kernel decltype(gd_project<bfloat, half>) gd_project<bfloat, half>;
template [[host_name("gd_project_bf16_bf16")]] kernel decltype(gd_project<bfloat, bfloat>) gd_project<bfloat, bfloat>;

#line 1 "shaders/recurrence_commit.metal"
// Commit of a verified draft: applies the first counts[s] records of each sequence to its state.
//
// recordKey [tokens, Hk, Dk], recordDelta [tokens, Hv, Dv], f32: what decode or prefill kept with RECORD; decay
// [tokens, Hv] or [tokens, Hv, Dk] (GATE_PER_KEY), f32: the buffer that gates.metal wrote for them. All contiguous.
// state, staged, readSlots, writeSlots: as in recurrence_decode.metal. cuSeqlens [n + 1]: the verify's.
//
// Grid: (Dv / 8, Hv, n) threadgroups of GDM_DECODE_THREADS.
// For each record: S <- a S, S <- S + delta k^T, the operations of a step in a step's order: equal bits (rows.h).
// Function constants: TILED_HEADS, GATE_PER_KEY.


template <typename S, uint N>
[[max_total_threads_per_threadgroup(GDM_DECODE_THREADS)]]
kernel void gd_commit(device const float* recordKey [[buffer(0)]],
                      device const float* recordDelta [[buffer(1)]],
                      device const float* gate [[buffer(2)]],
                      device S* state [[buffer(3)]],
                      device const S* staged [[buffer(4)]],
                      device const int* cuSeqlens [[buffer(5)]],
                      device const int* counts [[buffer(6)]],
                      device const int* readSlots [[buffer(7)]],
                      device const int* writeSlots [[buffer(8)]],
                      constant GDMCommit& params [[buffer(9)]],
                      uint3 group [[threadgroup_position_in_grid]],
                      uint index [[thread_index_in_threadgroup]]) {
  uint keyHeads = params.keyHeads;
  uint valueHeads = params.valueHeads;
  uint keyDim = N < 8 ? 32 * N : params.keyDim;
  uint valueDim = params.valueDim;
  uint lane = index % GDM_ROW_LANES;
  uint row = group.x * GDM_DECODE_ROWS + index / GDM_ROW_LANES;
  uint valueHead = group.y;
  uint sequence = group.z;
  uint keyHead = key_head_of(valueHead, keyHeads, valueHeads);
  uint slotRows = valueHeads * valueDim;
  uint slotRow = valueHead * valueDim + row;

  Row<N> s;
  state_read(s, state, staged, readSlots[sequence], slotRows, slotRow, lane, keyDim);
  int count = counts[sequence];
  for (int t = 0; t < count; ++t) {
    ulong token = ulong(cuSeqlens[sequence] + t);
    Row<N> k;
    row_load<float>(k, recordKey + (token * keyHeads + keyHead) * keyDim, lane, keyDim);
    ulong pair = token * valueHeads + valueHead;
    if (GATE_PER_KEY) {
      Row<N> decay;
      row_load<float>(decay, gate + pair * keyDim, lane, keyDim);
      row_scale(s, decay);
    } else {
      row_scale(s, gate[pair]);
    }
    row_add(s, recordDelta[pair * valueDim + row], k, lane, keyDim);
  }
  int slot = writeSlots[sequence];
  if (slot >= 0) state_write<S>(state, s, uint(slot), slotRows, slotRow, lane, keyDim);
}

// Names: gd_commit_<S>_<key dim>; kany serves any multiple of 8 up to 256.
template [[host_name("gd_commit_f32_k64")]] kernel decltype(gd_commit<float, 2>) gd_commit<float, 2>;
template [[host_name("gd_commit_f16_k64")]] kernel decltype(gd_commit<half, 2>) gd_commit<half, 2>;
template [[host_name("gd_commit_bf16_k64")]] kernel decltype(gd_commit<bfloat, 2>) gd_commit<bfloat, 2>;
template [[host_name("gd_commit_f32_k128")]] kernel decltype(gd_commit<float, 4>) gd_commit<float, 4>;
template [[host_name("gd_commit_f16_k128")]] kernel decltype(gd_commit<half, 4>) gd_commit<half, 4>;
template [[host_name("gd_commit_bf16_k128")]] kernel decltype(gd_commit<bfloat, 4>) gd_commit<bfloat, 4>;
template [[host_name("gd_commit_f32_kany")]] kernel decltype(gd_commit<float, 8>) gd_commit<float, 8>;
template [[host_name("gd_commit_f16_kany")]] kernel decltype(gd_commit<half, 8>) gd_commit<half, 8>;
template [[host_name("gd_commit_bf16_kany")]] kernel decltype(gd_commit<bfloat, 8>) gd_commit<bfloat, 8>;

#line 1 "shaders/recurrence_decode.metal"
// Gated delta rule, decode and short sequences: every row group walks its sequence's tokens on its own.
//
// query, key [tokens, Hk, Dk] T; value [tokens, Hv, Dv] T; strides of tokens and heads in elements, multiples of 8.
// gate [tokens, Hv] f32 decay in [0, 1], or [tokens, Hv, Dk] (GATE_PER_KEY); beta [tokens, Hv] f32.
// state [slots, Hv, Dv, Dk] S, read and written in place: one argument, since kernel arguments must not overlap.
// staged [copies, Hv, Dv, Dk] S: copies of slots that one sequence reads and another writes.
// out [tokens, Hv, Dv] T, or f32 (OUT_F32).
// cuSeqlens [n + 1]; readSlots, writeSlots [n] (GDM_SLOT_*; a write slot of -1 drops the final state).
// HAS_STORES: sequence s stores its state as stores[storeOffsets[s] .. storeOffsets[s + 1] - 1] say, into the pool or
// into snapshots [entries, Hv, Dv, Dk] S. RECORD: recordKey [tokens, Hk, Dk] and recordDelta [tokens, Hv, Dv], f32.
//
// Grid: (Dv / 8, Hv, n) threadgroups of GDM_DECODE_THREADS. A threadgroup holds 8 rows, a row 8 lanes (rows.h).
//
// 1. Read the row of the state into registers (zeros where the slot says so).
// 2. For each token: load and normalise its key and query (each row group for itself: no barrier, the same bits as
//    when prefill normalises them once), decay the row, update it, write its output.
// 3. Write the row to the write slot. A sequence of no tokens thereby copies its state.
//
// Formula: rows.h. A row is read and written by the same lanes, so read slot = write slot needs no copy.
// Function constants: TILED_HEADS, GATE_PER_KEY, QK_NORM, OUT_F32, HAS_STORES, RECORD.


template <typename T, typename S, uint N>
[[max_total_threads_per_threadgroup(GDM_DECODE_THREADS)]]
kernel void gd_decode(device const T* query [[buffer(0)]],
                      device const T* key [[buffer(1)]],
                      device const T* value [[buffer(2)]],
                      device const float* gate [[buffer(3)]],
                      device const float* beta [[buffer(4)]],
                      device S* state [[buffer(5)]],
                      device const S* staged [[buffer(6)]],
                      device T* out [[buffer(7)]],
                      device const int* cuSeqlens [[buffer(8)]],
                      device const int* readSlots [[buffer(9)]],
                      device const int* writeSlots [[buffer(10)]],
                      device const uint* storeOffsets [[buffer(11)]],
                      device const GDMStore* stores [[buffer(12)]],
                      device S* snapshots [[buffer(13)]],
                      device float* recordKey [[buffer(14)]],
                      device float* recordDelta [[buffer(15)]],
                      constant GDMRecurrence& params [[buffer(16)]],
                      uint3 group [[threadgroup_position_in_grid]],
                      uint index [[thread_index_in_threadgroup]]) {
  uint keyHeads = params.keyHeads;
  uint valueHeads = params.valueHeads;
  uint keyDim = N < 8 ? 32 * N : params.keyDim;
  uint valueDim = params.valueDim;
  uint lane = index % GDM_ROW_LANES;
  uint row = group.x * GDM_DECODE_ROWS + index / GDM_ROW_LANES;
  uint valueHead = group.y;
  uint sequence = group.z;
  uint keyHead = key_head_of(valueHead, keyHeads, valueHeads);
  uint slotRows = valueHeads * valueDim;
  uint slotRow = valueHead * valueDim + row;
  bool recordsKey = row == 0 && is_first_of_key_head(valueHead, keyHeads, valueHeads);

  Row<N> s;
  state_read(s, state, staged, readSlots[sequence], slotRows, slotRow, lane, keyDim);
  uint cursor = HAS_STORES ? storeOffsets[sequence] : 0;
  uint storesEnd = HAS_STORES ? storeOffsets[sequence + 1] : 0;

  int begin = cuSeqlens[sequence];
  int count = cuSeqlens[sequence + 1] - begin;
  for (int t = 0; t < count; ++t) {
    if (HAS_STORES) {
      state_stores(cursor, storesEnd, stores, t, state, snapshots, s, slotRows, slotRow, true, lane, keyDim);
    }
    ulong token = ulong(begin + t);
    Row<N> k;
    Row<N> q;
    row_load<T>(k, key + (token * params.keyTokenStride + ulong(keyHead) * params.keyHeadStride), lane, keyDim);
    row_load<T>(q, query + (token * params.queryTokenStride + ulong(keyHead) * params.queryHeadStride), lane, keyDim);
    row_normalise(k, keyDim, params.epsilon, 1.0f);
    row_normalise(q, keyDim, params.epsilon, params.scale);
    float v = float(value[token * params.valueTokenStride + ulong(valueHead) * params.valueHeadStride + row]);
    float b = beta[token * params.betaTokenStride + valueHead];
    ulong gateAt = token * params.gateTokenStride + ulong(valueHead) * params.gateHeadStride;
    if (GATE_PER_KEY) {
      Row<N> decay;
      row_load<float>(decay, gate + gateAt, lane, keyDim);
      row_scale(s, decay);
    } else {
      row_scale(s, gate[gateAt]);
    }
    float delta = 0.0f;
    float o = row_step(s, k, q, v, b, delta, lane, keyDim);
    if (lane == 0) {
      write_wide(out, token * params.outTokenStride + ulong(valueHead) * params.outHeadStride + row, o, OUT_F32);
      if (RECORD) recordDelta[(token * valueHeads + valueHead) * valueDim + row] = delta;
    }
    if (RECORD && recordsKey) {
      row_store<float>(recordKey + (token * keyHeads + keyHead) * keyDim, k, lane, keyDim);
    }
  }

  if (HAS_STORES) {
    state_stores(cursor, storesEnd, stores, count, state, snapshots, s, slotRows, slotRow, true, lane, keyDim);
  }
  int slot = writeSlots[sequence];
  if (slot >= 0) state_write<S>(state, s, uint(slot), slotRows, slotRow, lane, keyDim);
}

// Names: gd_decode_<T>_<S>_<key dim>; kany serves any multiple of 8 up to 256.
template [[host_name("gd_decode_f32_f32_k64")]] kernel decltype(gd_decode<float, float, 2>) gd_decode<float, float, 2>;
template [[host_name("gd_decode_f32_f16_k64")]] kernel decltype(gd_decode<float, half, 2>) gd_decode<float, half, 2>;
template [[host_name("gd_decode_f32_bf16_k64")]] kernel decltype(gd_decode<float, bfloat, 2>) gd_decode<float, bfloat, 2>;
template [[host_name("gd_decode_f16_f32_k64")]] kernel decltype(gd_decode<half, float, 2>) gd_decode<half, float, 2>;
template [[host_name("gd_decode_f16_f16_k64")]] kernel decltype(gd_decode<half, half, 2>) gd_decode<half, half, 2>;
template [[host_name("gd_decode_f16_bf16_k64")]] kernel decltype(gd_decode<half, bfloat, 2>) gd_decode<half, bfloat, 2>;
template [[host_name("gd_decode_bf16_f32_k64")]] kernel decltype(gd_decode<bfloat, float, 2>) gd_decode<bfloat, float, 2>;
template [[host_name("gd_decode_bf16_f16_k64")]] kernel decltype(gd_decode<bfloat, half, 2>) gd_decode<bfloat, half, 2>;
template [[host_name("gd_decode_bf16_bf16_k64")]] kernel decltype(gd_decode<bfloat, bfloat, 2>) gd_decode<bfloat, bfloat, 2>;
template [[host_name("gd_decode_f32_f32_k128")]] kernel decltype(gd_decode<float, float, 4>) gd_decode<float, float, 4>;
template [[host_name("gd_decode_f32_f16_k128")]] kernel decltype(gd_decode<float, half, 4>) gd_decode<float, half, 4>;
template [[host_name("gd_decode_f32_bf16_k128")]] kernel decltype(gd_decode<float, bfloat, 4>) gd_decode<float, bfloat, 4>;
template [[host_name("gd_decode_f16_f32_k128")]] kernel decltype(gd_decode<half, float, 4>) gd_decode<half, float, 4>;
template [[host_name("gd_decode_f16_f16_k128")]] kernel decltype(gd_decode<half, half, 4>) gd_decode<half, half, 4>;
template [[host_name("gd_decode_f16_bf16_k128")]] kernel decltype(gd_decode<half, bfloat, 4>) gd_decode<half, bfloat, 4>;
template [[host_name("gd_decode_bf16_f32_k128")]] kernel decltype(gd_decode<bfloat, float, 4>) gd_decode<bfloat, float, 4>;
template [[host_name("gd_decode_bf16_f16_k128")]] kernel decltype(gd_decode<bfloat, half, 4>) gd_decode<bfloat, half, 4>;
template [[host_name("gd_decode_bf16_bf16_k128")]] kernel decltype(gd_decode<bfloat, bfloat, 4>) gd_decode<bfloat, bfloat, 4>;
template [[host_name("gd_decode_f32_f32_kany")]] kernel decltype(gd_decode<float, float, 8>) gd_decode<float, float, 8>;
template [[host_name("gd_decode_f32_f16_kany")]] kernel decltype(gd_decode<float, half, 8>) gd_decode<float, half, 8>;
template [[host_name("gd_decode_f32_bf16_kany")]] kernel decltype(gd_decode<float, bfloat, 8>) gd_decode<float, bfloat, 8>;
template [[host_name("gd_decode_f16_f32_kany")]] kernel decltype(gd_decode<half, float, 8>) gd_decode<half, float, 8>;
template [[host_name("gd_decode_f16_f16_kany")]] kernel decltype(gd_decode<half, half, 8>) gd_decode<half, half, 8>;
template [[host_name("gd_decode_f16_bf16_kany")]] kernel decltype(gd_decode<half, bfloat, 8>) gd_decode<half, bfloat, 8>;
template [[host_name("gd_decode_bf16_f32_kany")]] kernel decltype(gd_decode<bfloat, float, 8>) gd_decode<bfloat, float, 8>;
template [[host_name("gd_decode_bf16_f16_kany")]] kernel decltype(gd_decode<bfloat, half, 8>) gd_decode<bfloat, half, 8>;
template [[host_name("gd_decode_bf16_bf16_kany")]] kernel decltype(gd_decode<bfloat, bfloat, 8>) gd_decode<bfloat, bfloat, 8>;

#line 1 "shaders/recurrence_prefill.metal"
// Gated delta rule, long sequences: blocks of tokens staged in threadgroup memory, then walked in order.
//
// Tensors, slots, stores and records as in recurrence_decode.metal, and the same bits: each row is held by the same
// eight lanes and goes through the same sums (rows.h). What differs is where keys and queries come from: a threadgroup
// of 32 rows loads and normalises each key and query once, instead of once a row.
//
// Grid: (ceil(Dv / 32), Hv, n) threadgroups of GDM_PREFILL_THREADS. The last threadgroup of a head may have groups
// beyond Dv: they start from zeros and write nothing, so that every lane takes part in every step.
//
// A block is B tokens: GDM_PREFILL_BLOCK, or GDM_PREFILL_BLOCK_ANY for kany. Threadgroup memory, in floats:
//   keys [B, Dk] | queries [B, Dk] | decays [B, Dk or 1] | betas [B] | values [B, 32] | outputs [B, 32]
// that is B (2 Dk + (GATE_PER_KEY ? Dk : 1) + 1 + 64); the host passes it, rounded up to 16 bytes;
// at most 28736 bytes (Dk = 128, GATE_PER_KEY).
//
// 1. Read the rows of the state into registers.
// 2. For each block: (a) stage keys and queries, normalised, one row group each; decays, betas and values.
//    (b) barrier; walk the tokens, leaving outputs in threadgroup memory. (c) barrier; write the outputs, coalesced.
// 3. Write the rows to the write slot.
//
// Function constants: TILED_HEADS, GATE_PER_KEY, QK_NORM, OUT_F32, HAS_STORES, RECORD.


template <typename T, typename S, uint N>
[[max_total_threads_per_threadgroup(GDM_PREFILL_THREADS)]]
kernel void gd_prefill(device const T* query [[buffer(0)]],
                       device const T* key [[buffer(1)]],
                       device const T* value [[buffer(2)]],
                       device const float* gate [[buffer(3)]],
                       device const float* beta [[buffer(4)]],
                       device S* state [[buffer(5)]],
                       device const S* staged [[buffer(6)]],
                       device T* out [[buffer(7)]],
                       device const int* cuSeqlens [[buffer(8)]],
                       device const int* readSlots [[buffer(9)]],
                       device const int* writeSlots [[buffer(10)]],
                       device const uint* storeOffsets [[buffer(11)]],
                       device const GDMStore* stores [[buffer(12)]],
                       device S* snapshots [[buffer(13)]],
                       device float* recordKey [[buffer(14)]],
                       device float* recordDelta [[buffer(15)]],
                       constant GDMRecurrence& params [[buffer(16)]],
                       threadgroup float* memory [[threadgroup(0)]],
                       uint3 group [[threadgroup_position_in_grid]],
                       uint index [[thread_index_in_threadgroup]]) {
  constexpr uint block = N < 8 ? GDM_PREFILL_BLOCK : GDM_PREFILL_BLOCK_ANY;
  constexpr uint groups = GDM_PREFILL_THREADS / GDM_ROW_LANES;
  uint keyHeads = params.keyHeads;
  uint valueHeads = params.valueHeads;
  uint keyDim = N < 8 ? 32 * N : params.keyDim;
  uint valueDim = params.valueDim;
  uint decayDim = GATE_PER_KEY ? keyDim : 1;
  threadgroup float* keys = memory;
  threadgroup float* queries = keys + block * keyDim;
  threadgroup float* decays = queries + block * keyDim;
  threadgroup float* betas = decays + block * decayDim;
  threadgroup float* values = betas + block;
  threadgroup float* outputs = values + block * GDM_PREFILL_ROWS;

  uint lane = index % GDM_ROW_LANES;
  uint rowGroup = index / GDM_ROW_LANES;
  uint firstRow = group.x * GDM_PREFILL_ROWS;
  uint rows = min(uint(GDM_PREFILL_ROWS), valueDim - firstRow);
  bool valid = rowGroup < rows;
  uint row = firstRow + min(rowGroup, rows - 1);
  uint valueHead = group.y;
  uint sequence = group.z;
  uint keyHead = key_head_of(valueHead, keyHeads, valueHeads);
  uint slotRows = valueHeads * valueDim;
  uint slotRow = valueHead * valueDim + row;
  bool recordsKey = firstRow == 0 && is_first_of_key_head(valueHead, keyHeads, valueHeads);

  Row<N> s;
  state_read(s, state, staged, valid ? readSlots[sequence] : GDM_SLOT_NONE, slotRows, slotRow, lane, keyDim);
  uint cursor = HAS_STORES ? storeOffsets[sequence] : 0;
  uint storesEnd = HAS_STORES ? storeOffsets[sequence + 1] : 0;

  int begin = cuSeqlens[sequence];
  int count = cuSeqlens[sequence + 1] - begin;
  for (int first = 0; first < count; first += int(block)) {
    uint tokens = min(block, uint(count - first));
    ulong base = ulong(begin + first);

    // (a) Item i is key i for i < block, else query i - block. Groups without one repeat a token's and store nothing.
    for (uint firstItem = 0; firstItem < 2 * block; firstItem += groups) {
      uint item = firstItem + rowGroup;
      bool isKey = item < block;
      uint slotOf = isKey ? item : item - block;
      ulong token = base + min(slotOf, tokens - 1);
      device const T* source =
          isKey ? key + (token * params.keyTokenStride + ulong(keyHead) * params.keyHeadStride)
                : query + (token * params.queryTokenStride + ulong(keyHead) * params.queryHeadStride);
      Row<N> x;
      row_load<T>(x, source, lane, keyDim);
      row_normalise(x, keyDim, params.epsilon, isKey ? 1.0f : params.scale);
      if (slotOf < tokens && item < 2 * block) {
        row_store((isKey ? keys : queries) + slotOf * keyDim, x, lane, keyDim);
        if (RECORD && recordsKey && isKey) {
          row_store<float>(recordKey + (token * keyHeads + keyHead) * keyDim, x, lane, keyDim);
        }
      }
    }
    for (uint i = index; i < tokens * decayDim; i += GDM_PREFILL_THREADS) {
      uint t = i / decayDim;
      ulong at = (base + t) * params.gateTokenStride + ulong(valueHead) * params.gateHeadStride;
      decays[i] = gate[at + (i - t * decayDim)];
    }
    for (uint i = index; i < tokens; i += GDM_PREFILL_THREADS) {
      betas[i] = beta[(base + i) * params.betaTokenStride + valueHead];
    }
    for (uint i = index; i < tokens * GDM_PREFILL_ROWS; i += GDM_PREFILL_THREADS) {
      uint t = i / GDM_PREFILL_ROWS;
      uint r = min(i % GDM_PREFILL_ROWS, rows - 1);
      ulong at = (base + t) * params.valueTokenStride + ulong(valueHead) * params.valueHeadStride + firstRow + r;
      values[i] = float(value[at]);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    // (b)
    for (uint t = 0; t < tokens; ++t) {
      if (HAS_STORES) {
        state_stores(cursor, storesEnd, stores, first + int(t), state, snapshots, s, slotRows, slotRow, valid, lane,
                     keyDim);
      }
      Row<N> k;
      Row<N> q;
      row_load(k, keys + t * keyDim, lane, keyDim);
      row_load(q, queries + t * keyDim, lane, keyDim);
      if (GATE_PER_KEY) {
        Row<N> decay;
        row_load(decay, decays + t * keyDim, lane, keyDim);
        row_scale(s, decay);
      } else {
        row_scale(s, decays[t]);
      }
      float delta = 0.0f;
      float o = row_step(s, k, q, values[t * GDM_PREFILL_ROWS + rowGroup], betas[t], delta, lane, keyDim);
      if (lane == 0) {
        outputs[t * GDM_PREFILL_ROWS + rowGroup] = o;
        if (RECORD && valid) recordDelta[((base + t) * valueHeads + valueHead) * valueDim + row] = delta;
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    // (c) The next block's staging touches nothing that is read here.
    for (uint i = index; i < tokens * GDM_PREFILL_ROWS; i += GDM_PREFILL_THREADS) {
      uint t = i / GDM_PREFILL_ROWS;
      uint r = i % GDM_PREFILL_ROWS;
      ulong at = (base + t) * params.outTokenStride + ulong(valueHead) * params.outHeadStride + firstRow + r;
      if (r < rows) write_wide(out, at, outputs[i], OUT_F32);
    }
  }

  if (HAS_STORES) {
    state_stores(cursor, storesEnd, stores, count, state, snapshots, s, slotRows, slotRow, valid, lane, keyDim);
  }
  int slot = writeSlots[sequence];
  if (slot >= 0 && valid) state_write<S>(state, s, uint(slot), slotRows, slotRow, lane, keyDim);
}

// Names: gd_prefill_<T>_<S>_<key dim>; kany serves any multiple of 8 up to 256.
template [[host_name("gd_prefill_f32_f32_k64")]] kernel decltype(gd_prefill<float, float, 2>) gd_prefill<float, float, 2>;
template [[host_name("gd_prefill_f32_f16_k64")]] kernel decltype(gd_prefill<float, half, 2>) gd_prefill<float, half, 2>;
template [[host_name("gd_prefill_f32_bf16_k64")]] kernel decltype(gd_prefill<float, bfloat, 2>) gd_prefill<float, bfloat, 2>;
template [[host_name("gd_prefill_f16_f32_k64")]] kernel decltype(gd_prefill<half, float, 2>) gd_prefill<half, float, 2>;
template [[host_name("gd_prefill_f16_f16_k64")]] kernel decltype(gd_prefill<half, half, 2>) gd_prefill<half, half, 2>;
template [[host_name("gd_prefill_f16_bf16_k64")]] kernel decltype(gd_prefill<half, bfloat, 2>) gd_prefill<half, bfloat, 2>;
template [[host_name("gd_prefill_bf16_f32_k64")]] kernel decltype(gd_prefill<bfloat, float, 2>) gd_prefill<bfloat, float, 2>;
template [[host_name("gd_prefill_bf16_f16_k64")]] kernel decltype(gd_prefill<bfloat, half, 2>) gd_prefill<bfloat, half, 2>;
template [[host_name("gd_prefill_bf16_bf16_k64")]] kernel decltype(gd_prefill<bfloat, bfloat, 2>) gd_prefill<bfloat, bfloat, 2>;
template [[host_name("gd_prefill_f32_f32_k128")]] kernel decltype(gd_prefill<float, float, 4>) gd_prefill<float, float, 4>;
template [[host_name("gd_prefill_f32_f16_k128")]] kernel decltype(gd_prefill<float, half, 4>) gd_prefill<float, half, 4>;
template [[host_name("gd_prefill_f32_bf16_k128")]] kernel decltype(gd_prefill<float, bfloat, 4>) gd_prefill<float, bfloat, 4>;
template [[host_name("gd_prefill_f16_f32_k128")]] kernel decltype(gd_prefill<half, float, 4>) gd_prefill<half, float, 4>;
template [[host_name("gd_prefill_f16_f16_k128")]] kernel decltype(gd_prefill<half, half, 4>) gd_prefill<half, half, 4>;
template [[host_name("gd_prefill_f16_bf16_k128")]] kernel decltype(gd_prefill<half, bfloat, 4>) gd_prefill<half, bfloat, 4>;
template [[host_name("gd_prefill_bf16_f32_k128")]] kernel decltype(gd_prefill<bfloat, float, 4>) gd_prefill<bfloat, float, 4>;
template [[host_name("gd_prefill_bf16_f16_k128")]] kernel decltype(gd_prefill<bfloat, half, 4>) gd_prefill<bfloat, half, 4>;
template [[host_name("gd_prefill_bf16_bf16_k128")]] kernel decltype(gd_prefill<bfloat, bfloat, 4>) gd_prefill<bfloat, bfloat, 4>;
template [[host_name("gd_prefill_f32_f32_kany")]] kernel decltype(gd_prefill<float, float, 8>) gd_prefill<float, float, 8>;
template [[host_name("gd_prefill_f32_f16_kany")]] kernel decltype(gd_prefill<float, half, 8>) gd_prefill<float, half, 8>;
template [[host_name("gd_prefill_f32_bf16_kany")]] kernel decltype(gd_prefill<float, bfloat, 8>) gd_prefill<float, bfloat, 8>;
template [[host_name("gd_prefill_f16_f32_kany")]] kernel decltype(gd_prefill<half, float, 8>) gd_prefill<half, float, 8>;
template [[host_name("gd_prefill_f16_f16_kany")]] kernel decltype(gd_prefill<half, half, 8>) gd_prefill<half, half, 8>;
template [[host_name("gd_prefill_f16_bf16_kany")]] kernel decltype(gd_prefill<half, bfloat, 8>) gd_prefill<half, bfloat, 8>;
template [[host_name("gd_prefill_bf16_f32_kany")]] kernel decltype(gd_prefill<bfloat, float, 8>) gd_prefill<bfloat, float, 8>;
template [[host_name("gd_prefill_bf16_f16_kany")]] kernel decltype(gd_prefill<bfloat, half, 8>) gd_prefill<bfloat, half, 8>;
template [[host_name("gd_prefill_bf16_bf16_kany")]] kernel decltype(gd_prefill<bfloat, bfloat, 8>) gd_prefill<bfloat, bfloat, 8>;

#line 1 "shaders/slots.metal"
// Slots of a state pool, copied and zeroed whole.
//
// pool [slots, slotUnits] U, staged [copies, slotUnits] U; U is 2, 4 or 16 bytes: the widest unit that divides a slot's
// bytes and the tensors' offsets. The kernels move bits and know no dtype.
//
// gd_slots_gather. staged[i] = pool[slots[i]], slots[i] >= 0: copies of slots that one sequence reads and another
// writes, taken before an op writes any.
// gd_slots_copy. pool[writeSlots[i]] = pool or staged slot readSlots[i] (GDM_SLOT_*; zeros are stored, so a NaN cannot
// survive); a write slot of -1 is skipped. Written slots are distinct; one that another entry reads is staged first.
//
// Grid of both: (ceil(slotUnits / GDM_COPY_THREADS), entries) threadgroups of GDM_COPY_THREADS. No function constants.


template <typename U>
[[max_total_threads_per_threadgroup(GDM_COPY_THREADS)]]
kernel void gd_slots_gather(device const U* pool [[buffer(0)]],
                            device U* staged [[buffer(1)]],
                            device const int* slots [[buffer(2)]],
                            constant GDMSlots& params [[buffer(3)]],
                            uint2 group [[threadgroup_position_in_grid]],
                            uint index [[thread_index_in_threadgroup]]) {
  uint unit = group.x * GDM_COPY_THREADS + index;
  if (unit >= params.slotUnits) return;
  staged[ulong(group.y) * params.slotUnits + unit] = pool[ulong(slots[group.y]) * params.slotUnits + unit];
}

template <typename U>
[[max_total_threads_per_threadgroup(GDM_COPY_THREADS)]]
kernel void gd_slots_copy(device U* pool [[buffer(0)]],
                          device const U* staged [[buffer(1)]],
                          device const int* readSlots [[buffer(2)]],
                          device const int* writeSlots [[buffer(3)]],
                          constant GDMSlots& params [[buffer(4)]],
                          uint2 group [[threadgroup_position_in_grid]],
                          uint index [[thread_index_in_threadgroup]]) {
  uint unit = group.x * GDM_COPY_THREADS + index;
  int from = readSlots[group.y];
  int to = writeSlots[group.y];
  if (unit >= params.slotUnits || to < 0) return;
  U content = U(0);
  if (from >= 0) content = pool[ulong(from) * params.slotUnits + unit];
  if (from < GDM_SLOT_NONE) content = staged[ulong(GDM_SLOT_STAGED - from) * params.slotUnits + unit];
  pool[ulong(to) * params.slotUnits + unit] = content;
}

// Names: gd_slots_gather_<unit>, gd_slots_copy_<unit>.
template [[host_name("gd_slots_gather_u16")]] kernel decltype(gd_slots_gather<ushort>) gd_slots_gather<ushort>;
template [[host_name("gd_slots_gather_u32")]] kernel decltype(gd_slots_gather<uint>) gd_slots_gather<uint>;
template [[host_name("gd_slots_gather_u128")]] kernel decltype(gd_slots_gather<uint4>) gd_slots_gather<uint4>;
template [[host_name("gd_slots_copy_u16")]] kernel decltype(gd_slots_copy<ushort>) gd_slots_copy<ushort>;
template [[host_name("gd_slots_copy_u32")]] kernel decltype(gd_slots_copy<uint>) gd_slots_copy<uint>;
template [[host_name("gd_slots_copy_u128")]] kernel decltype(gd_slots_copy<uint4>) gd_slots_copy<uint4>;

#line 1 "shaders/step.metal"
// One decode token of each sequence through the mixer's core: convolution, gates, query/key norm, recurrence and gated
// norm, as one dispatch. The bits of gd_conv, gd_gates, gd_decode (out f32) and gd_norm in a chain.
//
// x [n, C] T, C = 2 Hk Dk + Hv Dv: query | key | value channels, head-major; convWeight [C, K], convBias [C].
// convState [slots, C, K - 1] T or f32 (CONV_STATE_F32), convStaged likewise; state [slots, Hv, Dv, Dk] S, staged
// likewise; both in place. gate [n, Hv] or [n, Hv, Dk], beta [n, Hv], aLog, dtBias: as in gates.metal.
// z [n, Hv, Dv] T; normWeight [Dv]; out [n, Hv, Dv] T or f32 (OUT_F32). readSlots, writeSlots [n], of both pools.
//
// Grid: (Hk, n) threadgroups of any multiple of 32 threads, at most 1024; the bits do not depend on it.
// A threadgroup owns a key head and every value head that it serves: it alone reads and writes their conv taps, so that
// the shifted taps need no second dispatch and no counter between threadgroups.
//
// 1. Convolve the key head's query and key channels, one thread a channel; round to T, as the unfused chain stores.
// 2. For each value head: (a) convolve its value channels and resolve its decays; barrier. (b) Each group of eight
//    lanes takes rows in turn: read the row, decay, update, write it, leave the output in threadgroup memory (f32).
//    (c) barrier; every simdgroup sums the squares of the head's outputs; each thread writes its share.
// Formulas: conv.h, gates.h, rows.h, norm.h. Function constants: all but NORM_X_F32, HAS_STORES and RECORD.





// One channel's token: output rounded to T, taps moved on in the write slot. A channel belongs to one thread.
template <typename T>
inline float step_conv(device const T* x, device const ushort* weight, device const ushort* bias, device T* state,
                       device const T* staged, int readSlot, int writeSlot, uint channels, uint channel) {
  ConvTaps taps;
  ConvWeights w;
  conv_read(taps, state, staged, readSlot, channels, channel);
  conv_weights(w, weight, bias, channel);
  float y = conv_token(taps, w, float(x[channel]));
  if (writeSlot >= 0) conv_write(state, taps, uint(writeSlot), channels, channel);
  return float(T(y));
}

template <typename T, typename S, uint N>
kernel void gd_step(device const T* x [[buffer(0)]],
                    device const ushort* convWeight [[buffer(1)]],
                    device const ushort* convBias [[buffer(2)]],
                    device T* convState [[buffer(3)]],
                    device const T* convStaged [[buffer(4)]],
                    device const ushort* gate [[buffer(5)]],
                    device const ushort* beta [[buffer(6)]],
                    device const ushort* aLog [[buffer(7)]],
                    device const ushort* dtBias [[buffer(8)]],
                    device S* state [[buffer(9)]],
                    device const S* staged [[buffer(10)]],
                    device const T* z [[buffer(11)]],
                    device const ushort* normWeight [[buffer(12)]],
                    device T* out [[buffer(13)]],
                    device const int* readSlots [[buffer(14)]],
                    device const int* writeSlots [[buffer(15)]],
                    constant GDMStep& params [[buffer(16)]],
                    uint2 group [[threadgroup_position_in_grid]],
                    uint2 threadCounts [[threads_per_threadgroup]],
                    uint index [[thread_index_in_threadgroup]]) {
  // Rows read four elements at a time are declared so, for their alignment.
  threadgroup float4 queryMemory[GDM_MAX_DIM / 4];
  threadgroup float4 keyMemory[GDM_MAX_DIM / 4];
  threadgroup float4 decayMemory[GDM_MAX_DIM / 4];
  threadgroup float valueRow[GDM_MAX_DIM];
  threadgroup float outRow[GDM_MAX_DIM];
  threadgroup float* queryRow = (threadgroup float*)queryMemory;
  threadgroup float* keyRow = (threadgroup float*)keyMemory;
  threadgroup float* decayRow = (threadgroup float*)decayMemory;

  uint threads = threadCounts.x;
  uint keyHeads = params.keyHeads;
  uint valueHeads = params.valueHeads;
  uint keyDim = N < 8 ? 32 * N : params.keyDim;
  uint valueDim = params.valueDim;
  uint keyHead = group.x;
  uint token = group.y;
  uint keyChannels = keyHeads * keyDim;
  uint channels = 2 * keyChannels + valueHeads * valueDim;
  uint decayDim = GATE_PER_KEY ? keyDim : 1;
  int readSlot = readSlots[token];
  int writeSlot = writeSlots[token];
  device const T* input = x + ulong(token) * params.xTokenStride;

  for (uint i = index; i < 2 * keyDim; i += threads) {
    bool isQuery = i < keyDim;
    uint d = isQuery ? i : i - keyDim;
    uint channel = (isQuery ? 0 : keyChannels) + keyHead * keyDim + d;
    float y = step_conv(input, convWeight, convBias, convState, convStaged, readSlot, writeSlot, channels, channel);
    if (isQuery) queryRow[d] = y;
    else keyRow[d] = y;
  }

  uint lane = index % GDM_ROW_LANES;
  uint rowsAtOnce = threads / GDM_ROW_LANES;
  uint ratio = valueHeads / keyHeads;
  for (uint r = 0; r < ratio; ++r) {
    uint valueHead = TILED_HEADS ? keyHead + r * keyHeads : keyHead * ratio + r;

    // (a) The previous head's readers of valueRow and decayRow are behind the barrier before (c).
    for (uint i = index; i < valueDim; i += threads) {
      uint channel = 2 * keyChannels + valueHead * valueDim + i;
      valueRow[i] =
          step_conv(input, convWeight, convBias, convState, convStaged, readSlot, writeSlot, channels, channel);
    }
    for (uint i = index; i < decayDim; i += threads) {
      ulong at = ulong(token) * params.gateTokenStride + ulong(valueHead) * params.gateHeadStride + i;
      decayRow[i] = gate_read(gate, at, aLog, valueHead, dtBias, valueHead * decayDim + i, params.bound);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    // (b) Groups without a row in the last turn work on zeros, so that every lane takes part, and write nothing.
    Row<N> k;
    Row<N> q;
    row_load(k, keyRow, lane, keyDim);
    row_load(q, queryRow, lane, keyDim);
    row_normalise(k, keyDim, params.epsilon, 1.0f);
    row_normalise(q, keyDim, params.epsilon, params.scale);
    float b = beta_read(beta, ulong(token) * params.betaTokenStride + ulong(valueHead) * params.betaHeadStride);
    for (uint first = 0; first < valueDim; first += rowsAtOnce) {
      uint wanted = first + index / GDM_ROW_LANES;
      bool valid = wanted < valueDim;
      uint row = min(wanted, valueDim - 1);
      uint slotRow = valueHead * valueDim + row;
      Row<N> s;
      state_read(s, state, staged, valid ? readSlot : GDM_SLOT_NONE, valueHeads * valueDim, slotRow, lane, keyDim);
      if (GATE_PER_KEY) {
        Row<N> decay;
        row_load(decay, decayRow, lane, keyDim);
        row_scale(s, decay);
      } else {
        row_scale(s, decayRow[0]);
      }
      float delta = 0.0f;
      float o = row_step(s, k, q, valueRow[row], b, delta, lane, keyDim);
      if (valid && lane == 0) outRow[row] = o;
      if (valid && writeSlot >= 0) {
        state_write<S>(state, s, uint(writeSlot), valueHeads * valueDim, slotRow, lane, keyDim);
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    // (c)
    ulong zAt = ulong(token) * params.zTokenStride + ulong(valueHead) * params.zHeadStride;
    ulong outAt = ulong(token) * params.outTokenStride + ulong(valueHead) * params.outHeadStride;
    float sum = 0.0f;
    for (uint i = index % GDM_SIMD_LANES; i < valueDim; i += GDM_SIMD_LANES) {
      float u = norm_operand(outRow[i], float(z[zAt + i]));
      sum = fma(u, u, sum);
    }
    float inverse = norm_inverse(sum, valueDim, params.normEpsilon);
    for (uint i = index; i < valueDim; i += threads) {
      float w = read_any(normWeight, i, NORM_WEIGHT_DTYPE);
      write_wide(out, outAt + i, norm_result(outRow[i], float(z[zAt + i]), inverse, w), OUT_F32);
    }
  }
}

// Names: gd_step_<T>_<S>_<key dim>; kany serves any multiple of 8 up to 256.
template [[host_name("gd_step_f32_f32_k64")]] kernel decltype(gd_step<float, float, 2>) gd_step<float, float, 2>;
template [[host_name("gd_step_f32_f16_k64")]] kernel decltype(gd_step<float, half, 2>) gd_step<float, half, 2>;
template [[host_name("gd_step_f32_bf16_k64")]] kernel decltype(gd_step<float, bfloat, 2>) gd_step<float, bfloat, 2>;
template [[host_name("gd_step_f16_f32_k64")]] kernel decltype(gd_step<half, float, 2>) gd_step<half, float, 2>;
template [[host_name("gd_step_f16_f16_k64")]] kernel decltype(gd_step<half, half, 2>) gd_step<half, half, 2>;
template [[host_name("gd_step_f16_bf16_k64")]] kernel decltype(gd_step<half, bfloat, 2>) gd_step<half, bfloat, 2>;
template [[host_name("gd_step_bf16_f32_k64")]] kernel decltype(gd_step<bfloat, float, 2>) gd_step<bfloat, float, 2>;
template [[host_name("gd_step_bf16_f16_k64")]] kernel decltype(gd_step<bfloat, half, 2>) gd_step<bfloat, half, 2>;
template [[host_name("gd_step_bf16_bf16_k64")]] kernel decltype(gd_step<bfloat, bfloat, 2>) gd_step<bfloat, bfloat, 2>;
template [[host_name("gd_step_f32_f32_k128")]] kernel decltype(gd_step<float, float, 4>) gd_step<float, float, 4>;
template [[host_name("gd_step_f32_f16_k128")]] kernel decltype(gd_step<float, half, 4>) gd_step<float, half, 4>;
template [[host_name("gd_step_f32_bf16_k128")]] kernel decltype(gd_step<float, bfloat, 4>) gd_step<float, bfloat, 4>;
template [[host_name("gd_step_f16_f32_k128")]] kernel decltype(gd_step<half, float, 4>) gd_step<half, float, 4>;
template [[host_name("gd_step_f16_f16_k128")]] kernel decltype(gd_step<half, half, 4>) gd_step<half, half, 4>;
template [[host_name("gd_step_f16_bf16_k128")]] kernel decltype(gd_step<half, bfloat, 4>) gd_step<half, bfloat, 4>;
template [[host_name("gd_step_bf16_f32_k128")]] kernel decltype(gd_step<bfloat, float, 4>) gd_step<bfloat, float, 4>;
template [[host_name("gd_step_bf16_f16_k128")]] kernel decltype(gd_step<bfloat, half, 4>) gd_step<bfloat, half, 4>;
template [[host_name("gd_step_bf16_bf16_k128")]] kernel decltype(gd_step<bfloat, bfloat, 4>) gd_step<bfloat, bfloat, 4>;
template [[host_name("gd_step_f32_f32_kany")]] kernel decltype(gd_step<float, float, 8>) gd_step<float, float, 8>;
template [[host_name("gd_step_f32_f16_kany")]] kernel decltype(gd_step<float, half, 8>) gd_step<float, half, 8>;
template [[host_name("gd_step_f32_bf16_kany")]] kernel decltype(gd_step<float, bfloat, 8>) gd_step<float, bfloat, 8>;
template [[host_name("gd_step_f16_f32_kany")]] kernel decltype(gd_step<half, float, 8>) gd_step<half, float, 8>;
template [[host_name("gd_step_f16_f16_kany")]] kernel decltype(gd_step<half, half, 8>) gd_step<half, half, 8>;
template [[host_name("gd_step_f16_bf16_kany")]] kernel decltype(gd_step<half, bfloat, 8>) gd_step<half, bfloat, 8>;
template [[host_name("gd_step_bf16_f32_kany")]] kernel decltype(gd_step<bfloat, float, 8>) gd_step<bfloat, float, 8>;
template [[host_name("gd_step_bf16_f16_kany")]] kernel decltype(gd_step<bfloat, half, 8>) gd_step<bfloat, half, 8>;
template [[host_name("gd_step_bf16_bf16_kany")]] kernel decltype(gd_step<bfloat, bfloat, 8>) gd_step<bfloat, bfloat, 8>;
"""##
