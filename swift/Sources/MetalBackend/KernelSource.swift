// Generated from shaders/ by swift/scripts/shader-source.mjs. Do not edit.

/// Every kernel, as Metal's runtime compiler takes it.
let kernelSource = ##"""
#line 1 "shaders/add.metal"
// The sum of two tensors, in float32 and rounded once: out = a + b.
//
// b [tokens, heads, length] T; a and out likewise, T or f32; token and head strides in elements, any length. Where out
// is a or b itself, that argument is not bound and its elements are read from out: arguments may not overlap.
//
// Grid: (rows, ceil(length / (4 GDM_ADD_PARTS GDM_COPY_THREADS))) threadgroups of GDM_COPY_THREADS; each thread takes
// GDM_ADD_PARTS times four neighbouring elements, and reads them all before it writes the first. ALIGNED_ROWS: lengths
// are multiples of 4 and every row of all three begins at a multiple of four elements' bytes. Function constants: OUT_F32,
// ALIGNED_ROWS.
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
  GDM_I32 = 4,
  GDM_U32 = 5
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
  GDM_WEIGHT_PLAIN = 1,
  GDM_WEIGHT_PLUS_ONE = 2
};
enum {
  GDM_FORMAT_F32 = 1,
  GDM_FORMAT_F16 = 2,
  GDM_FORMAT_BF16 = 3,
  GDM_FORMAT_AFFINE2_G32 = 4,
  GDM_FORMAT_AFFINE2_G64 = 5,
  GDM_FORMAT_AFFINE2_G128 = 6,
  GDM_FORMAT_AFFINE3_G32 = 7,
  GDM_FORMAT_AFFINE3_G64 = 8,
  GDM_FORMAT_AFFINE3_G128 = 9,
  GDM_FORMAT_AFFINE4_G32 = 10,
  GDM_FORMAT_AFFINE4_G64 = 11,
  GDM_FORMAT_AFFINE4_G128 = 12,
  GDM_FORMAT_AFFINE5_G32 = 13,
  GDM_FORMAT_AFFINE5_G64 = 14,
  GDM_FORMAT_AFFINE5_G128 = 15,
  GDM_FORMAT_AFFINE6_G32 = 16,
  GDM_FORMAT_AFFINE6_G64 = 17,
  GDM_FORMAT_AFFINE6_G128 = 18,
  GDM_FORMAT_AFFINE8_G32 = 19,
  GDM_FORMAT_AFFINE8_G64 = 20,
  GDM_FORMAT_AFFINE8_G128 = 21
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

// Shapes of the work. Each kernel chooses the lanes that hold a state row (rows.h); the bits do not depend on them.
enum {
  GDM_SIMD_LANES = 32,
  GDM_DECODE_THREADS = 64,        // threads of a decode or commit threadgroup, at most
  GDM_DECODE_LANES_F32 = 16,      // float32 states: lanes of a row, rows of a lane group, threads
  GDM_DECODE_ROWS_F32 = 2,
  GDM_DECODE_THREADS_F32 = 64,
  GDM_DECODE_LANES_16 = 16,       // 16-bit states
  GDM_DECODE_ROWS_16 = 4,
  GDM_DECODE_THREADS_16 = 32,
  GDM_DECODE_MOST_ROWS_16 = 8,    // of a lane group, where the value dim is whole threadgroups of so many
  GDM_SMALL_BATCH = 8,            // sequences whose tables fit a constant of the dispatch
  GDM_PREFILL_THREADS = 256,
  GDM_PREFILL_LANES = 8,
  GDM_PREFILL_ROWS = 32,
  GDM_PREFILL_BLOCK = 8,          // tokens that prefill stages at a time
  GDM_PREFILL_STAGE_LANES = 16,   // lanes that stage a key or query
  GDM_STEP_THREADS = 512,         // threads of a step threadgroup, at most
  GDM_STEP_LANES = 16,
  GDM_STEP_ROWS = 2,              // rows of a lane group at a time
  GDM_CHUNK_LANES = 8,
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
  GDM_PROJECT_THREADS = 128,  // four simdgroups
  GDM_PROJECT_TILE = 4,       // outputs of a simdgroup, at most
  GDM_PROJECT_ROWS = 8,       // rows of a tile, at most
  GDM_PROJECT_OUTPUTS_1 = 2,  // outputs of a simdgroup for one row and weights of 16 bits
  GDM_PROJECT_TURNS = 4,      // turns of many rows whose packed weights are read together
  GDM_PACKED_LANES = 8,       // one row of packed weights: lanes of an output, outputs of a lane, turns read together
  GDM_PACKED_OUTPUTS = 1,
  GDM_PACKED_TURNS = 2,
  GDM_EMBEDDING_THREADS = 128,
  GDM_COPY_THREADS = 256,
  GDM_ATTENTION_SPAN = 512,        // keys of a span: the order of a row's sums depends on it
  GDM_ATTENTION_BLOCK = 32,        // keys of a step of the online softmax: a lane each
  GDM_ATTENTION_ROWS = 8,          // query rows of a threadgroup
  GDM_ATTENTION_STRIP = 128,       // keys whose scores are taken together
  GDM_ATTENTION_THREADS = 256,     // a simdgroup a row; an element of some rows a thread
  GDM_ATTENTION_AHEAD = 4,         // spans that are read together when they are combined
  GDM_ATTENTION_LANES = 8,         // lanes of a key in a score
  GDM_ATTENTION_PREPARE_ROWS = 4,  // rows of a threadgroup, one a simdgroup
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
  uint32_t betaTokenStride, betaHeadStride;
  float scale;    // of the query
  float epsilon;  // of the query and key norm
  float bound;    // L of the raw-bounded gate, where decode resolves gates itself
} GDMRecurrence;
GDM_ASSERT_SIZE(GDMRecurrence, 76);

// Slots and starts of a batch of at most GDM_SMALL_BATCH sequences, in place of the tables in memory.
typedef struct GDMBatch {
  int32_t starts[GDM_SMALL_BATCH + 1];
  int32_t readSlots[GDM_SMALL_BATCH];
  int32_t writeSlots[GDM_SMALL_BATCH];
} GDMBatch;
GDM_ASSERT_SIZE(GDMBatch, 100);

// A part of every sequence's tokens, in a prefill that is several dispatches.
typedef struct GDMPart {
  uint32_t first, tokens;
} GDMPart;
GDM_ASSERT_SIZE(GDMPart, 8);

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

// rms_norm.metal. Rows as in GDMNorm.
typedef struct GDMRMSNorm {
  uint32_t rows, heads, length;
  uint32_t xTokenStride, xHeadStride;
  uint32_t outTokenStride, outHeadStride;
  uint32_t plusOne;  // whether rows are multiplied by 1 + weight
  float epsilon;
} GDMRMSNorm;
GDM_ASSERT_SIZE(GDMRMSNorm, 36);

// 2^23 as a float's bits: matrix.h makes floats of packed numbers with it.
enum { GDM_PROJECT_UNIT = 150 << 23 };

// projection.metal. What is added to a sum: nothing, a tensor of the activation dtype or of
// float32, or what out holds.
enum { GDM_RESIDUAL_NONE = 0, GDM_RESIDUAL_T = 1, GDM_RESIDUAL_F32 = 2, GDM_RESIDUAL_OUT = 3 };
typedef struct GDMProject {
  uint32_t rows, inputs, outputs;
  uint32_t xRowStride, outRowStride, residualRowStride;
  uint32_t residual;  // GDM_RESIDUAL_*
  uint32_t unit;      // GDM_PROJECT_UNIT
} GDMProject;
GDM_ASSERT_SIZE(GDMProject, 32);

// embedding.metal
typedef struct GDMEmbedding {
  uint32_t columns, outRowStride;
} GDMEmbedding;
GDM_ASSERT_SIZE(GDMEmbedding, 8);

// add.metal and silu_mul.metal (a is the gate, b the other). A row is a (token, head) pair.
enum { GDM_ADD_PARTS = 2 };  // of a thread: four neighbouring elements each
typedef struct GDMAdd {
  uint32_t heads, length;
  uint32_t aTokenStride, aHeadStride;
  uint32_t bTokenStride, bHeadStride;
  uint32_t outTokenStride, outHeadStride;
  uint32_t aF32;                  // a is f32, not the activation dtype
  uint32_t replacesA, replacesB;  // out is that very tensor, which is not bound then
} GDMAdd;
GDM_ASSERT_SIZE(GDMAdd, 44);

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

// attention_prepare.metal. A dtype of 0 says that there is no norm.
typedef struct GDMAttentionPrepare {
  uint32_t tokens, heads, keyHeads, dim, rotary, pageTokens;
  uint32_t queryTokenStride, queryHeadStride;
  uint32_t keyTokenStride, keyHeadStride;
  uint32_t valueTokenStride, valueHeadStride;
  uint32_t queryNormDType, keyNormDType;
  uint32_t plusOne;  // whether rows are multiplied by 1 + weight
  float epsilon;
  float scale;  // of the query
} GDMAttentionPrepare;
GDM_ASSERT_SIZE(GDMAttentionPrepare, 68);

// Query rows of one sequence: row i is head i mod g of its token i / g, of those g = heads / keyHeads that share a key
// head. Rows firstRow .. firstRow + rows - 1, after `past` tokens; the sequence's rows of the op begin at firstToken, its
// row of the page table at `pages`.
typedef struct GDMAttentionTask {
  int32_t firstToken, past, pages, firstRow, rows;
} GDMAttentionTask;
GDM_ASSERT_SIZE(GDMAttentionTask, 20);

// attention.metal. spans: of the longest sequence.
typedef struct GDMAttention {
  uint32_t heads, keyHeads, dim, pageTokens, spans;
} GDMAttention;
GDM_ASSERT_SIZE(GDMAttention, 20);

// attention_combine.metal
typedef struct GDMAttentionCombine {
  uint32_t heads, keyHeads, dim, spans;
  uint32_t hasGate;
  uint32_t gateTokenStride, gateHeadStride;
  uint32_t outTokenStride, outHeadStride;
} GDMAttentionCombine;
GDM_ASSERT_SIZE(GDMAttentionCombine, 36);

// slots.metal: units of a slot, in the kernel's copy unit of 2, 4 or 16 bytes.
typedef struct GDMSlots {
  uint32_t slotUnits;
} GDMSlots;
GDM_ASSERT_SIZE(GDMSlots, 4);

#endif

#line 7 "shaders/options.h"
#line 1 "shaders/weight_formats.h"
/* Generated from gated_delta.h by swift/scripts/layout.mjs: change that header and run it again. */
#ifndef GATED_DELTA_SHADERS_WEIGHT_FORMATS_H
#define GATED_DELTA_SHADERS_WEIGHT_FORMATS_H

/* INSTANTIATE(function, name, type) for everything that unpacks blocks. */
#define GDM_EACH_UNPACKING(INSTANTIATE, function) \
  INSTANTIATE(function, "affine2", Affine<2>) \
  INSTANTIATE(function, "affine3", Affine<3>) \
  INSTANTIATE(function, "affine4", Affine<4>) \
  INSTANTIATE(function, "affine5", Affine<5>) \
  INSTANTIATE(function, "affine6", Affine<6>) \
  INSTANTIATE(function, "affine8", Affine<8>)

#endif

#line 8 "shaders/options.h"

#include <metal_stdlib>
// Here and not only in numerics.h: the unsigned types' short names are of this namespace.
using namespace metal;

// Loops over arrays that live in registers: unrolled, since an array with a running index is kept in memory instead.
#define GDM_UNROLL _Pragma("unroll")

// An instantiation by the name that the host asks for; and those of every activation dtype T, state or weight dtype S,
// way to store a matrix W and key class. Groups of a key class: rows.h.
#define GDM_KERNEL(name, function, ...) \
  template [[host_name(name)]] kernel decltype(function<__VA_ARGS__>) function<__VA_ARGS__>;
#define GDM_INSTANTIATE_T(function)             \
  GDM_KERNEL(#function "_f32", function, float) \
  GDM_KERNEL(#function "_f16", function, half)  \
  GDM_KERNEL(#function "_bf16", function, bfloat)
#define GDM_INSTANTIATE_K(name, function, ...)             \
  GDM_KERNEL(name "_k64", function, __VA_ARGS__, 16)       \
  GDM_KERNEL(name "_k128", function, __VA_ARGS__, 32)      \
  GDM_KERNEL(name "_kany", function, __VA_ARGS__, 64)
#define GDM_INSTANTIATE_TK(function)                   \
  GDM_INSTANTIATE_K(#function "_f32", function, float) \
  GDM_INSTANTIATE_K(#function "_f16", function, half)  \
  GDM_INSTANTIATE_K(#function "_bf16", function, bfloat)
#define GDM_INSTANTIATE_TS(function)                           \
  GDM_KERNEL(#function "_f32_f32", function, float, float)     \
  GDM_KERNEL(#function "_f32_f16", function, float, half)      \
  GDM_KERNEL(#function "_f32_bf16", function, float, bfloat)   \
  GDM_KERNEL(#function "_f16_f32", function, half, float)      \
  GDM_KERNEL(#function "_f16_f16", function, half, half)       \
  GDM_KERNEL(#function "_f16_bf16", function, half, bfloat)    \
  GDM_KERNEL(#function "_bf16_f32", function, bfloat, float)   \
  GDM_KERNEL(#function "_bf16_f16", function, bfloat, half)    \
  GDM_KERNEL(#function "_bf16_bf16", function, bfloat, bfloat)
#define GDM_INSTANTIATE_PACKED(function, name, ...)              \
  GDM_KERNEL(#function "_f32_" name, function, float, __VA_ARGS__) \
  GDM_KERNEL(#function "_f16_" name, function, half, __VA_ARGS__)  \
  GDM_KERNEL(#function "_bf16_" name, function, bfloat, __VA_ARGS__)
#define GDM_INSTANTIATE_TW(function) \
  GDM_INSTANTIATE_TS(function)       \
  GDM_EACH_UNPACKING(GDM_INSTANTIATE_PACKED, function)
#define GDM_INSTANTIATE_TSK(function)                                 \
  GDM_INSTANTIATE_K(#function "_f32_f32", function, float, float)     \
  GDM_INSTANTIATE_K(#function "_f32_f16", function, float, half)      \
  GDM_INSTANTIATE_K(#function "_f32_bf16", function, float, bfloat)   \
  GDM_INSTANTIATE_K(#function "_f16_f32", function, half, float)      \
  GDM_INSTANTIATE_K(#function "_f16_f16", function, half, half)       \
  GDM_INSTANTIATE_K(#function "_f16_bf16", function, half, bfloat)    \
  GDM_INSTANTIATE_K(#function "_bf16_f32", function, bfloat, float)   \
  GDM_INSTANTIATE_K(#function "_bf16_f16", function, bfloat, half)    \
  GDM_INSTANTIATE_K(#function "_bf16_bf16", function, bfloat, bfloat)

// Recurrence.
constant bool TILED_HEADS [[function_constant(0)]];     // key head of value head h: h % Hk; otherwise h / (Hv / Hk)
constant bool GATE_PER_KEY [[function_constant(1)]];    // a decay for every key dimension, not one a head
constant uint QK_NORM [[function_constant(2)]];         // GDM_NORM_*
constant bool OUT_F32 [[function_constant(3)]];         // out is f32, not the activation dtype
constant bool HAS_STORES [[function_constant(4)]];      // extra stores of the state inside a sequence
constant bool RECORD [[function_constant(5)]];          // keep delta and normalised key of every token
constant bool SMALL_BATCH [[function_constant(6)]];     // slots and starts are constants of the dispatch
constant bool RESOLVE_GATES [[function_constant(7)]];   // decays and betas are resolved by the kernel itself

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
constant bool CONV_UPDATE [[function_constant(22)]];    // one token of each sequence, four channels a thread

// Gated norm.
constant bool NORM_SIGMOID [[function_constant(24)]];   // gate by sigmoid(z), not silu(z)
constant bool NORM_GATE_FIRST [[function_constant(25)]]; // norm(x act(z)), not norm(x) act(z)
constant bool NORM_X_F32 [[function_constant(26)]];     // x is f32, not the activation dtype
constant uint NORM_WEIGHT_DTYPE [[function_constant(27)]];

constant uint NORM_PARTS [[function_constant(30)]];     // groups of four elements that a lane keeps: 1 or 2

// Rows begin where vectors may, and are read as such: each kernel says of how many elements.
constant bool ALIGNED_ROWS [[function_constant(28)]];
// Rows of a projection's tile: 1, 2, 4 or 8. Rows of a lane group in decode: DecodeShape's. Rows that a lane group of the
// step asks for: GDM_STEP_ROWS or twice as many.
constant uint TILE_ROWS [[function_constant(29)]];

// Packed weights.
constant uint MATRIX_GROUP [[function_constant(23)]];   // log2 of a block's elements
constant uint MATRIX_DTYPE [[function_constant(31)]];   // of scales and biases

constant bool OUT_AT_ONCE [[function_constant(33)]];    // prefill: outputs do not go through threadgroup memory
constant bool PACKED_ROW [[function_constant(32)]];     // one row of packed weights: packed_row.h's spread

constant bool PARTS [[function_constant(14)]];          // prefill: a part of the tokens, between carried states

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

// e^x 2^offset factor, of which the last two undo each other: 2^n e^r has its exponent added as an integer, which is a
// number above the smallest normal one and below infinity where n + offset is from -125 to 126, and is rounded once, by
// the last operation. Cody-Waite reduction x = n ln 2 + r, |r| <= ln 2 / 2, and a minimax polynomial for
// (e^r - 1 - r) / r^2 of relative weight, error 3e-9 of e^r. n is rounded by adding 1.5 2^23, whose lowest bits it is
// then. No branches: a GPU works on several of these at once.
METAL_FUNC float gd_exp_scaled(float x, float offset, float factor) {
  float rounding = 12582912.0f + offset;
  float shifted = fma(x, 1.44269504f, rounding);
  float n = shifted - rounding;
  float r = fma(n, -0.693145751953125f, x);  // ln 2 in two parts: the upper has 15 significant bits, so n times it is exact
  r = fma(n, -1.42860677e-6f, r);
  float p = 0.00138146023f;
  p = fma(p, r, 0.00836871564f);
  p = fma(p, r, 0.041668389f);
  p = fma(p, r, 0.166665211f);
  p = fma(p, r, 0.49999994f);
  float y = 1.0f + fma(p, r * r, r);
  float scaled = as_type<float>(as_type<uint>(y) + (as_type<uint>(shifted) << 23));
  return fma(scaled, factor, x - x);  // NaN may have lost its bits
}

// e^x for x <= 0, within 1 ulp; 0 below -104, NaN for NaN.
METAL_FUNC float gd_exp_down(float x) {
  return gd_exp_scaled(x < -104.0f ? -104.0f : x, 64.0f, 0x1p-64f);
}

// e^x within 1 ulp; 0 below -104, infinity above 88.8, NaN for NaN.
METAL_FUNC float gd_exp(float x) {
  float bounded = x > 88.8f ? 88.8f : x;
  bounded = bounded < -104.0f ? -104.0f : bounded;
  bool up = x > 0.0f;
  return gd_exp_scaled(bounded, up ? -64.0f : 64.0f, up ? 0x1p64f : 0x1p-64f);
}

// 1 / d for d in [1, 2], within 1 ulp, and exactly for 1 and 2: a quadratic of relative error 1 / 99 (1 - d p(d) is the
// Chebyshev polynomial T3(3 - 2 d) / T3(3)), whose error two steps of Newton's method square twice.
METAL_FUNC float gd_reciprocal_unit(float d) {
  float r = fma(fma(0.323232323f, d, -1.45454545f), d, 2.12121212f);
  r = fma(r, fma(-d, r, 1.0f), r);
  return fma(r, fma(-d, r, 1.0f), r);
}

// log(1 + u) for u in [0, 1], relative error below 3 ulp for the smallest u too: 2 atanh(u / (2 + u)).
METAL_FUNC float gd_log1p_unit(float u) {
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
METAL_FUNC float gd_softplus(float x) {
  float tail = gd_log1p_unit(gd_exp_down(-fabs(x)));
  return x > 0.0f ? x + tail : tail;
}

// 1 / (1 + e^-x), from e^-|x| so that neither end loses relative precision.
METAL_FUNC float gd_sigmoid(float x) {
  float e = gd_exp_down(-fabs(x));
  float r = gd_reciprocal_unit(1.0f + e);
  return x < 0.0f ? e * r : r;
}

METAL_FUNC float gd_silu(float x) { return x * gd_sigmoid(x); }

// 1 / sqrt(x) from two correctly rounded operations: within 1 ulp, and the same bits everywhere.
METAL_FUNC float gd_rsqrt(float x) { return precise::divide(1.0f, precise::sqrt(x)); }

#endif

#line 9 "shaders/storage.h"

// Four neighbouring elements as stored, and their conversion from and to float32.
template <typename T> struct Vec4;
template <> struct Vec4<float> {
  typedef float4 type;
  static METAL_FUNC float4 widen(float4 v) { return v; }
  static METAL_FUNC float4 round(float4 v) { return v; }
};
template <> struct Vec4<half> {
  typedef half4 type;
  static METAL_FUNC float4 widen(half4 v) { return float4(v); }
  static METAL_FUNC half4 round(float4 v) { return half4(v); }
};
template <> struct Vec4<bfloat> {
  typedef bfloat4 type;
  // By their bits, two at a time: a conversion of its own would take an operation more for every second one.
  static METAL_FUNC float4 widen(bfloat4 v) {
    uint2 pairs = as_type<uint2>(v);
    return float4(as_type<float>(pairs.x << 16), as_type<float>(pairs.x & 0xffff0000u), as_type<float>(pairs.y << 16),
                  as_type<float>(pairs.y & 0xffff0000u));
  }
  static METAL_FUNC bfloat4 round(float4 v) { return bfloat4(v); }
};

// Elements as the bits that they are, for values that are moved and not computed with. `value` widens without an
// operation on floats where it can: bfloat is the upper half of a float.
template <typename T> struct Bits;
template <> struct Bits<float> {
  typedef uint type;
  typedef uint4 type4;
  static METAL_FUNC float value(uint bits) { return as_type<float>(bits); }
};
template <> struct Bits<half> {
  typedef ushort type;
  typedef ushort4 type4;
  static METAL_FUNC float value(uint bits) { return float(as_type<half>(ushort(bits))); }
};
template <> struct Bits<bfloat> {
  typedef ushort type;
  typedef ushort4 type4;
  static METAL_FUNC float value(uint bits) { return as_type<float>(bits << 16); }
};

// Element i of a parameter vector (weights, biases, gates) of any float dtype. The pointer is in 16-bit units because
// that is the alignment all three have; float32 data is 4-byte aligned by the host.
METAL_FUNC float read_any(device const ushort* p, ulong i, uint dtype) {
  if (dtype == GDM_F32) return ((device const float*)p)[i];
  if (dtype == GDM_F16) return float(as_type<half>(p[i]));
  return as_type<float>(uint(p[i]) << 16);
}

// Element i of a tensor that holds T or, where `wide`, float32.
template <typename T> METAL_FUNC float read_wide(device const T* p, ulong i, bool wide) {
  if (wide) return ((device const float*)p)[i];
  return float(p[i]);
}

template <typename T> METAL_FUNC void write_wide(device T* p, ulong i, float value, bool wide) {
  if (wide) ((device float*)p)[i] = value;
  else p[i] = T(value);
}

// Where a row begins in a tensor that holds T or, where `wide`, float32.
template <typename T> METAL_FUNC device const T* wide_row(device const T* p, ulong at, bool wide) {
  return wide ? (device const T*)((device const float*)p + at) : p + at;
}
template <typename T> METAL_FUNC device T* wide_row(device T* p, ulong at, bool wide) {
  return wide ? (device T*)((device float*)p + at) : p + at;
}

// Elements at .. at + 3 of a row; those from `length` on are zeros, and not written. ALIGNED_ROWS: rows begin at
// multiples of four elements' bytes, and lengths are multiples of four.
template <typename T> METAL_FUNC float4 read_four(device const T* row, uint at, uint length, bool wide) {
  if (ALIGNED_ROWS) {
    if (at >= length) return float4(0.0f);
    if (wide) return *(device const float4*)((device const float*)row + at);
    return Vec4<T>::widen(*(device const typename Vec4<T>::type*)(row + at));
  }
  float4 v = float4(0.0f);
  GDM_UNROLL for (uint j = 0; j < 4; ++j) {
    if (at + j < length) v[j] = read_wide(row, at + j, wide);
  }
  return v;
}
template <typename T> METAL_FUNC void write_four(device T* row, uint at, uint length, float4 v, bool wide) {
  if (ALIGNED_ROWS) {
    if (at >= length) return;
    if (wide) *(device float4*)((device float*)row + at) = v;
    else *(device typename Vec4<T>::type*)(row + at) = Vec4<T>::round(v);
    return;
  }
  GDM_UNROLL for (uint j = 0; j < 4; ++j) {
    if (at + j < length) write_wide(row, at + j, v[j], wide);
  }
}

#endif

#line 11 "shaders/add.metal"

template <typename T>
[[max_total_threads_per_threadgroup(GDM_COPY_THREADS)]]
kernel void gd_add(device const T* a [[buffer(0)]],
                   device const T* b [[buffer(1)]],
                   device T* out [[buffer(2)]],
                   constant GDMAdd& params [[buffer(3)]],
                   uint3 group [[threadgroup_position_in_grid]],
                   uint index [[thread_index_in_threadgroup]]) {
  uint token = group.x / params.heads;
  uint head = group.x - token * params.heads;
  ulong aAt = ulong(token) * params.aTokenStride + ulong(head) * params.aHeadStride;
  ulong bAt = ulong(token) * params.bTokenStride + ulong(head) * params.bHeadStride;
  ulong outAt = ulong(token) * params.outTokenStride + ulong(head) * params.outHeadStride;
  device const T* aRow = params.replacesA != 0 ? wide_row((device const T*)out, outAt, OUT_F32)
                                               : wide_row(a, aAt, params.aF32 != 0);
  device const T* bRow = params.replacesB != 0 ? wide_row((device const T*)out, outAt, OUT_F32) : b + bAt;
  bool aWide = params.replacesA != 0 ? OUT_F32 : params.aF32 != 0;
  bool bWide = params.replacesB != 0 && OUT_F32;
  device T* outRow = wide_row(out, outAt, OUT_F32);
  uint first = 4 * (group.y * GDM_ADD_PARTS * GDM_COPY_THREADS + index);
  float4 x[GDM_ADD_PARTS];
  float4 y[GDM_ADD_PARTS];
  GDM_UNROLL for (uint i = 0; i < GDM_ADD_PARTS; ++i) {
    x[i] = read_four(aRow, first + 4 * i * GDM_COPY_THREADS, params.length, aWide);
    y[i] = read_four(bRow, first + 4 * i * GDM_COPY_THREADS, params.length, bWide);
  }
  GDM_UNROLL for (uint i = 0; i < GDM_ADD_PARTS; ++i) {
    write_four(outRow, first + 4 * i * GDM_COPY_THREADS, params.length, x[i] + y[i], OUT_F32);
  }
}

// Names: gd_add_<T>.
GDM_INSTANTIATE_T(gd_add)

#line 1 "shaders/attention.metal"
// Attention, second of three kernels: one span of keys of some query rows that share a key head.
//
// query [tokens, heads, dim] f32, made ready by attention_prepare.metal. keyPages, valuePages [pages, keyHeads,
// pageTokens, dim] S. pageTable: rows of page numbers. tasks: GDM_ATTENTION_ROWS query rows each, or fewer.
// partial [tasks, keyHeads, spans, GDM_ATTENTION_ROWS, dim] f32 and sums [.. as partial without dim] (maximum, sum): what
// attention_combine.metal takes. Entries of rows that see nothing of a span stay as they are.
//
// A row takes the keys of a span, GDM_ATTENTION_SPAN from a multiple of it on, in blocks of GDM_ATTENTION_BLOCK; with s a
// block's scores and m, l, v what was found so far (Milakov and Gimelshein 2018):
//   m' = max(m, max s); c = exp(m - m'); p = exp(s - m'); l <- l c + sum p; v <- v c + sum p value; m <- m'
// Where all is -inf, exponents are taken from 0. A score's order is that of rows.h; a sum of p goes by xor 1, 2, 4, 8, 16
// of the key's number in its block; values are one fma chain in ascending order. None depends on the rows of a group.
//
// Grid: (spans, tasks, keyHeads) threadgroups of GDM_ATTENTION_THREADS. A span is walked GDM_ATTENTION_STRIP keys, several
// blocks, at a time, so that many keys and values are asked for at once and barriers are few.
// 1. Queries, and where the span's keys lie, to threadgroup memory. Of each strip: 2. scores: eight lanes a key, two keys
// at a time where registers allow it, with every row; 3. softmax, block by block: a simdgroup a row, a lane a key;
// 4. values: a thread an element of some rows, those of a block asked for before the first is used.
// A row takes nothing of a key behind its own token. No function constants.
#line 1 "shaders/rows.h"
// State rows of the recurrence, held by neighbouring lanes in registers.
//
// A row of up to 256 key columns is G groups of four: G = 16 for a key dim of 64, 32 for 128, and 64 for any other
// multiple of 8, columns at or beyond the key dim being zero. L lanes hold it (8, 16 or 32): lane l has the groups
// l + L i, i = 0 .. G / L - 1, so that neighbouring lanes read neighbouring memory.
//
// The order of every sum over a row is a function of the key dim alone, whatever L is: each kernel chooses its lanes by
// the shape of its work, and decode, prefill, chunk_prepare, commit and step have equal bits.
//   1. a group: its four columns in ascending order, a product and three fma
//   2. G = 64: position p is group p plus group p + 32, p = 0 .. 31; otherwise a position is a group
//   3. positions by xor 16, 8, 1, 2, 4 of their number; a key dim of 64 has 16 positions and begins with 8
// Steps of 3 inside a lane come first and steps between lanes last, so that a dot costs at most five shuffles.
//
// The rule (Yang, Kautz, Hatamizadeh, "Gated Delta Networks", 2024, equation 10, in its state-row form):
//   S <- a S;  delta = beta (v - S k);  S <- S + delta k^T;  o = S q
#ifndef GATED_DELTA_SHADERS_ROWS_H
#define GATED_DELTA_SHADERS_ROWS_H



template <uint L, uint G> struct Row {
  float4 part[G / L];
};

// R rows of one lane group.
template <uint L, uint G, uint R> struct Rows {
  Row<L, G> row[R];
};

// The first column of part i of this lane.
template <uint L> METAL_FUNC uint row_column(uint lane, uint i) { return 4 * (lane + L * i); }

// Only G = 64 has columns beyond the key dim.
template <uint G> METAL_FUNC bool row_holds(uint column, uint keyDim) { return G < 64 || column < keyDim; }

template <uint L, uint G> METAL_FUNC void row_zero(thread Row<L, G>& row) {
  GDM_UNROLL for (uint i = 0; i < G / L; ++i) row.part[i] = float4(0.0f);
}

// A row as memory holds it. Widening is an operation that waits for what has been read: rows that are asked for long before
// they are used stay as they are until then.
template <typename T, uint L, uint G> struct RowBits {
  typename Vec4<T>::type part[G / L];
};

template <typename T, uint L, uint G>
METAL_FUNC void row_ask(thread RowBits<T, L, G>& bits, device const T* p, uint lane, uint keyDim) {
  typedef typename Vec4<T>::type T4;
  GDM_UNROLL for (uint i = 0; i < G / L; ++i) {
    uint column = row_column<L>(lane, i);
    bits.part[i] = row_holds<G>(column, keyDim) ? *(device const T4*)(p + column) : T4(T(0.0f));
  }
}

template <typename T, uint L, uint G> METAL_FUNC void row_none(thread RowBits<T, L, G>& bits) {
  typedef typename Vec4<T>::type T4;
  GDM_UNROLL for (uint i = 0; i < G / L; ++i) bits.part[i] = T4(T(0.0f));
}

template <typename T, uint L, uint G> METAL_FUNC void row_widen(thread Row<L, G>& row, thread const RowBits<T, L, G>& bits) {
  GDM_UNROLL for (uint i = 0; i < G / L; ++i) row.part[i] = Vec4<T>::widen(bits.part[i]);
}

template <typename T, uint L, uint G>
METAL_FUNC void row_load(thread Row<L, G>& row, device const T* p, uint lane, uint keyDim) {
  RowBits<T, L, G> bits;
  row_ask(bits, p, lane, keyDim);
  row_widen(row, bits);
}

template <uint L, uint G>
METAL_FUNC void row_load(thread Row<L, G>& row, threadgroup const float* p, uint lane, uint keyDim) {
  GDM_UNROLL for (uint i = 0; i < G / L; ++i) {
    uint column = row_column<L>(lane, i);
    row.part[i] = row_holds<G>(column, keyDim) ? *(threadgroup const float4*)(p + column) : float4(0.0f);
  }
}

template <typename T, uint L, uint G>
METAL_FUNC void row_store(device T* p, thread const Row<L, G>& row, uint lane, uint keyDim) {
  typedef typename Vec4<T>::type T4;
  GDM_UNROLL for (uint i = 0; i < G / L; ++i) {
    uint column = row_column<L>(lane, i);
    if (row_holds<G>(column, keyDim)) *(device T4*)(p + column) = Vec4<T>::round(row.part[i]);
  }
}

template <uint L, uint G>
METAL_FUNC void row_store(threadgroup float* p, thread const Row<L, G>& row, uint lane, uint keyDim) {
  GDM_UNROLL for (uint i = 0; i < G / L; ++i) {
    uint column = row_column<L>(lane, i);
    if (row_holds<G>(column, keyDim)) *(threadgroup float4*)(p + column) = row.part[i];
  }
}

METAL_FUNC float group_dot(float4 a, float4 b) {
  float sum = a.x * b.x;
  sum = fma(a.y, b.y, sum);
  sum = fma(a.z, b.z, sum);
  return fma(a.w, b.w, sum);
}

// The sum over the columns of a b, the same bits in all lanes of the row. Every lane of the simdgroup must call it.
template <uint L, uint G> METAL_FUNC float row_dot(thread const Row<L, G>& a, thread const Row<L, G>& b) {
  constexpr uint positions = (G < 64 ? G : 32) / L;
  float sum[positions];
  GDM_UNROLL for (uint i = 0; i < positions; ++i) {
    sum[i] = group_dot(a.part[i], b.part[i]);
    if (G == 64) sum[i] += group_dot(a.part[i + G / L - positions], b.part[i + G / L - positions]);
  }
  if (positions > 2) {
    GDM_UNROLL for (uint i = 0; i < positions / 2; ++i) sum[i] += sum[i + positions / 2];
  }
  if (positions > 1) sum[0] += sum[positions > 1 ? 1 : 0];
  float total = sum[0];
  if (L > 16) total += simd_shuffle_xor(total, ushort(16));
  if (L > 8) total += simd_shuffle_xor(total, ushort(8));
  total += simd_shuffle_xor(total, ushort(1));
  total += simd_shuffle_xor(total, ushort(2));
  total += simd_shuffle_xor(total, ushort(4));
  return total;
}

template <uint L, uint G> METAL_FUNC void row_scale(thread Row<L, G>& row, float factor) {
  GDM_UNROLL for (uint i = 0; i < G / L; ++i) row.part[i] *= factor;
}

template <uint L, uint G> METAL_FUNC void row_scale(thread Row<L, G>& row, thread const Row<L, G>& factors) {
  GDM_UNROLL for (uint i = 0; i < G / L; ++i) row.part[i] *= factors.part[i];
}

// S <- S + delta k^T for this row. Columns beyond the key dim stay zero: an infinite delta times their zeros is NaN.
template <uint L, uint G>
METAL_FUNC void row_add(thread Row<L, G>& state, float delta, thread const Row<L, G>& key, uint lane, uint keyDim) {
  GDM_UNROLL for (uint i = 0; i < G / L; ++i) {
    float4 sum = fma(float4(delta), key.part[i], state.part[i]);
    state.part[i] = row_holds<G>(row_column<L>(lane, i), keyDim) ? sum : float4(0.0f);
  }
}

// What a query or key row is multiplied by, from the sum of its squares:
//   l2  rsqrt(sum x^2 + eps);  l2-max  1 / max(sqrt(sum x^2), eps);  rms  rsqrt(sum x^2 + keyDim eps)
METAL_FUNC float row_norm(float sum, uint keyDim, float epsilon) {
  if (QK_NORM == GDM_NORM_L2_MAX) {
    float norm = precise::sqrt(sum);
    return precise::divide(1.0f, norm > epsilon ? norm : epsilon);
  }
  return gd_rsqrt(QK_NORM == GDM_NORM_RMS ? fma(float(keyDim), epsilon, sum) : sum + epsilon);
}

// Normalises a row and applies `scale` (1 for keys).
template <uint L, uint G>
METAL_FUNC void row_normalise(thread Row<L, G>& row, uint keyDim, float epsilon, float scale) {
  row_scale(row, QK_NORM == GDM_NORM_NONE ? scale : row_norm(row_dot(row, row), keyDim, epsilon) * scale);
}

// A key and a query at once: root and quotient of the key in the even lanes, of the query in the odd ones.
template <uint L, uint G>
METAL_FUNC void rows_normalise(thread Row<L, G>& key, thread Row<L, G>& query, uint lane, uint keyDim, float epsilon,
                               float scale) {
  if (QK_NORM == GDM_NORM_NONE) {
    row_scale(key, 1.0f);  // as row_normalise has it, where numbers below the normal ones are taken for zero
    row_scale(query, scale);
    return;
  }
  float ofKey = row_dot(key, key);
  float ofQuery = row_dot(query, query);
  bool odd = lane % 2 != 0;
  float own = row_norm(odd ? ofQuery : ofKey, keyDim, epsilon);
  float other = simd_shuffle_xor(own, ushort(1));
  row_scale(key, odd ? other : own);
  row_scale(query, (odd ? own : other) * scale);
}

// The update of one token on already decayed rows: all dots with the key, then all updates, so that their shuffles
// overlap. values[r] is each row's value; outputs and deltas come back.
template <uint L, uint G, uint R> struct Step {
  float value[R];
  float out[R];
  float delta[R];
};
template <uint L, uint G, uint R>
METAL_FUNC void rows_step(thread Rows<L, G, R>& state, thread const Row<L, G>& key, thread const Row<L, G>& query,
                          thread Step<L, G, R>& step, float beta, uint lane, uint keyDim) {
  GDM_UNROLL for (uint r = 0; r < R; ++r) step.delta[r] = beta * (step.value[r] - row_dot(state.row[r], key));
  GDM_UNROLL for (uint r = 0; r < R; ++r) row_add(state.row[r], step.delta[r], key, lane, keyDim);
  GDM_UNROLL for (uint r = 0; r < R; ++r) step.out[r] = row_dot(state.row[r], query);
}

template <uint L, uint G, uint R> METAL_FUNC void rows_scale(thread Rows<L, G, R>& state, float factor) {
  GDM_UNROLL for (uint r = 0; r < R; ++r) row_scale(state.row[r], factor);
}
template <uint L, uint G, uint R>
METAL_FUNC void rows_scale(thread Rows<L, G, R>& state, thread const Row<L, G>& factors) {
  GDM_UNROLL for (uint r = 0; r < R; ++r) row_scale(state.row[r], factors);
}

// The key head that serves a value head, and whether that value head is the first of its key head's.
METAL_FUNC uint key_head_of(uint valueHead, uint keyHeads, uint valueHeads) {
  return TILED_HEADS ? valueHead % keyHeads : valueHead / (valueHeads / keyHeads);
}
METAL_FUNC bool is_first_of_key_head(uint valueHead, uint keyHeads, uint valueHeads) {
  return TILED_HEADS ? valueHead < keyHeads : valueHead % (valueHeads / keyHeads) == 0;
}

#endif

#line 21 "shaders/attention.metal"

METAL_FUNC float largest(float a, float b) { return b > a ? b : a; }

// How many of a block's keys a row sees.
METAL_FUNC uint seen_of(GDMAttentionTask task, uint row, uint group, uint first) {
  uint seen = uint(task.past) + (uint(task.firstRow) + row) / group + 1;
  return seen > first ? min(seen - first, uint(GDM_ATTENTION_BLOCK)) : 0;
}

// Moves one row's maximum and sum on by a block. Every lane of the simdgroup must call it; the lane's weight comes back.
METAL_FUNC float softmax_step(float score, thread float& most, thread float& sum, thread float& correction) {
  float now = score;
  now = largest(now, simd_shuffle_xor(now, ushort(1)));
  now = largest(now, simd_shuffle_xor(now, ushort(2)));
  now = largest(now, simd_shuffle_xor(now, ushort(4)));
  now = largest(now, simd_shuffle_xor(now, ushort(8)));
  now = largest(now, simd_shuffle_xor(now, ushort(16)));
  now = largest(most, now);
  float reference = now == -INFINITY ? 0.0f : now;
  float weight = gd_exp_down(score - reference);
  float total = weight;
  total += simd_shuffle_xor(total, ushort(1));
  total += simd_shuffle_xor(total, ushort(2));
  total += simd_shuffle_xor(total, ushort(4));
  total += simd_shuffle_xor(total, ushort(8));
  total += simd_shuffle_xor(total, ushort(16));
  correction = gd_exp_down(most - reference);
  sum = fma(sum, correction, total);
  most = now;
  return weight;
}

// The value rows of a thread: all, or those of its set where a dim leaves threads for several.
template <uint G> struct ValueRows {
  enum : uint { each = G == 16 ? 2 : G == 32 ? 4 : 8 };
};

// values <- values + weight value for the keys of a block, in ascending order; WHOLE: every row sees all of them.
template <bool WHOLE, typename S, uint R>
METAL_FUNC void attend(thread float* values, thread const S* asked, threadgroup const float* weights,
                       thread const uint* sees) {
  GDM_UNROLL for (uint j = 0; j < GDM_ATTENTION_BLOCK; ++j) {
    float v = float(asked[j]);
    threadgroup const float* of = weights + j * GDM_ATTENTION_ROWS;
    GDM_UNROLL for (uint i = 0; i < R; ++i) {
      float weight = R % 4 == 0 ? ((threadgroup const float4*)of)[i / 4][i % 4] : of[i];
      if (WHOLE || j < sees[i]) values[i] = fma(weight, v, values[i]);
    }
  }
}

// A key's row: row_load in one step, which takes fewer instructions for dims beside 64 and 128.
template <typename S, uint L, uint G>
METAL_FUNC void key_load(thread Row<L, G>& row, device const S* p, uint lane, uint dim) {
  typedef typename Vec4<S>::type S4;
  GDM_UNROLL for (uint i = 0; i < G / L; ++i) {
    uint column = row_column<L>(lane, i);
    row.part[i] = row_holds<G>(column, dim) ? Vec4<S>::widen(*(device const S4*)(p + column)) : float4(0.0f);
  }
}

template <typename S, uint G>
[[max_total_threads_per_threadgroup(GDM_ATTENTION_THREADS)]]
kernel void gd_attention(device const float* query [[buffer(0)]],
                         device const S* keyPages [[buffer(1)]],
                         device const S* valuePages [[buffer(2)]],
                         device const int* pageTable [[buffer(3)]],
                         device const GDMAttentionTask* tasks [[buffer(4)]],
                         device float* partial [[buffer(5)]],
                         device float* sums [[buffer(6)]],
                         constant GDMAttention& params [[buffer(7)]],
                         uint3 place [[threadgroup_position_in_grid]],
                         uint index [[thread_index_in_threadgroup]]) {
  constexpr uint L = GDM_ATTENTION_LANES;
  constexpr uint R = GDM_ATTENTION_ROWS;
  constexpr uint B = GDM_ATTENTION_BLOCK;
  constexpr uint strip = GDM_ATTENTION_STRIP;
  constexpr uint threads = GDM_ATTENTION_THREADS;
  constexpr uint each = ValueRows<G>::each;
  static_assert(threads == R * GDM_SIMD_LANES, "a simdgroup has a row of the softmax");
  static_assert(R * GDM_MAX_DIM <= each * threads || G < 64, "a thread has an element of each row");
  threadgroup float4 queryMemory[R * GDM_MAX_DIM / 4];
  threadgroup float4 weightMemory[strip * R / 4];  // of a key all rows
  threadgroup float corrections[strip / B * R];
  threadgroup uint keyRows[GDM_ATTENTION_SPAN];
  threadgroup float* queries = (threadgroup float*)queryMemory;
  threadgroup float* weights = (threadgroup float*)weightMemory;

  uint span = place.x;
  uint keyHead = place.z;
  uint dim = G < 64 ? 4 * G : params.dim;
  uint group = params.heads / params.keyHeads;
  GDMAttentionTask task = tasks[place.y];
  uint rows = uint(task.rows);
  uint begin = span * GDM_ATTENTION_SPAN;
  uint all = uint(task.past) + (uint(task.firstRow) + rows - 1) / group + 1;
  if (begin >= all) return;  // the whole threadgroup
  uint end = min(all, begin + GDM_ATTENTION_SPAN);

  for (uint i = index; i < rows * dim; i += threads) {
    uint row = i / dim;
    uint number = uint(task.firstRow) + row;
    ulong at = ulong(uint(task.firstToken) + number / group) * params.heads + (keyHead * group + number % group);
    queries[row * GDM_MAX_DIM + (i - row * dim)] = query[at * dim + (i - row * dim)];
  }
  for (uint i = index; i < end - begin; i += threads) {
    uint page = (begin + i) / params.pageTokens;
    uint number = uint(pageTable[uint(task.pages) + page]);
    keyRows[i] = (number * params.keyHeads + keyHead) * params.pageTokens + (begin + i - page * params.pageTokens);
  }

  // Rows that are not there have weights of zero: all of a key's are read together.
  for (uint i = index; i < strip * R / 4; i += threads) weightMemory[i] = float4(0.0f);

  uint lane = index % GDM_SIMD_LANES;
  uint own = index / GDM_SIMD_LANES;  // this simdgroup's row of the softmax
  float most = -INFINITY;
  float sum = 0.0f;
  uint element = index % dim;
  uint firstRow = index / dim * each;  // of this thread's values; beyond the last where the dim leaves threads over
  float values[each];
  GDM_UNROLL for (uint i = 0; i < each; ++i) values[i] = 0.0f;
  threadgroup_barrier(mem_flags::mem_threadgroup);

  for (uint first = begin; first < end; first += strip) {
    uint count = min(end - first, strip);
    threadgroup const uint* stripRows = keyRows + (first - begin);

    // Whole simdgroups have none of the keys; lanes without one go with the last again, unstored.
    constexpr uint turn = threads / L;
    constexpr uint keys = G < 64 ? 2 : 1;
    for (uint from = 0; from < strip; from += keys * turn) {
      if (from + own * (GDM_SIMD_LANES / L) >= count) break;
      uint key = from + index / L;
      Rows<L, G, keys> k;
      GDM_UNROLL for (uint u = 0; u < keys; ++u) {
        key_load<S>(k.row[u], keyPages + ulong(stripRows[min(key + u * turn, count - 1)]) * dim, lane % L, dim);
      }
      for (uint row = 0; row < rows; ++row) {
        Row<L, G> q;
        row_load(q, queries + row * GDM_MAX_DIM, lane % L, dim);
        GDM_UNROLL for (uint u = 0; u < keys; ++u) {
          float score = row_dot(k.row[u], q);
          if (lane % L == 0 && key + u * turn < count) weights[(key + u * turn) * R + row] = score;
        }
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    for (uint block = 0; block < strip / B; ++block) {
      uint sees = own < rows ? seen_of(task, own, group, first + block * B) : 0;
      if (sees == 0) break;  // the same in every lane
      float correction = 1.0f;
      float score = -INFINITY;
      threadgroup float* place_ = weights + (block * B + lane) * R + own;
      if (lane < sees) score = *place_;
      *place_ = softmax_step(score, most, sum, correction);
      if (lane == 0) corrections[block * R + own] = correction;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    for (uint block = 0; block < strip / B; ++block) {
      uint sees[each];
      uint least = B;
      uint last = 0;
      GDM_UNROLL for (uint i = 0; i < each; ++i) {
        uint row = firstRow + i;
        sees[i] = row < rows ? seen_of(task, row, group, first + block * B) : 0;
        if (sees[i] > 0) values[i] *= corrections[block * R + row];
        last = max(last, sees[i]);
        least = min(least, row < rows ? sees[i] : B);
      }
      if (last == 0) break;
      threadgroup const float* of = weights + (block * B * R + firstRow);
      S asked[B];
      GDM_UNROLL for (uint j = 0; j < B; ++j) {
        asked[j] = valuePages[ulong(stripRows[block * B + min(j, last - 1)]) * dim + element];
      }
      if (least == B) attend<true, S, each>(values, asked, of, sees);
      else attend<false, S, each>(values, asked, of, sees);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }

  ulong base = ((ulong(place.y) * params.keyHeads + keyHead) * params.spans + span) * R;
  GDM_UNROLL for (uint i = 0; i < each; ++i) {
    uint row = firstRow + i;
    if (row < rows && seen_of(task, row, group, begin) > 0) partial[(base + row) * dim + element] = values[i];
  }
  if (lane == 0 && own < rows && seen_of(task, own, group, begin) > 0) {
    sums[2 * (base + own)] = most;
    sums[2 * (base + own) + 1] = sum;
  }
}

// Names: gd_attention_<S>_<head dim>; kany serves any multiple of 8 up to 256.
GDM_INSTANTIATE_TK(gd_attention)

#line 1 "shaders/attention_combine.metal"
// Attention, last of three kernels: a row's spans become its output.
//
//   M' = max(M, m); L <- L exp(M - M') + l exp(m - M'); V <- V exp(M - M') + v exp(m - M'); M <- M'
//   out = V / L (sigmoid(gate))
// with M, L, V those of the spans before, and a row's first span taken as it is. Where all is -inf, exponents are taken
// from 0.
//
// partial, sums and tasks as attention.metal leaves them. gate, out [tokens, heads, dim] T, strides in elements; out T or
// f32 (OUT_F32).
//
// Grid: (tasks, keyHeads) threadgroups of GDM_ATTENTION_THREADS: a simdgroup 128 elements of a row at a time, four a lane,
// and GDM_ATTENTION_AHEAD spans read before the first of them is used.
// Function constants: OUT_F32.


template <typename T>
[[max_total_threads_per_threadgroup(GDM_ATTENTION_THREADS)]]
kernel void gd_attention_combine(device const float* partial [[buffer(0)]],
                                 device const float* sums [[buffer(1)]],
                                 device const GDMAttentionTask* tasks [[buffer(2)]],
                                 device const T* gate [[buffer(3)]],
                                 device T* out [[buffer(4)]],
                                 constant GDMAttentionCombine& params [[buffer(5)]],
                                 uint2 place [[threadgroup_position_in_grid]],
                                 uint index [[thread_index_in_threadgroup]]) {
  constexpr uint R = GDM_ATTENTION_ROWS;
  uint lane = index % GDM_SIMD_LANES;
  uint keyHead = place.y;
  uint group = params.heads / params.keyHeads;
  uint dim = params.dim;
  GDMAttentionTask task = tasks[place.x];
  ulong base = (ulong(place.x) * params.keyHeads + keyHead) * params.spans * R;
  constexpr uint ahead = GDM_ATTENTION_AHEAD;
  uint parts = (dim + 4 * GDM_SIMD_LANES - 1) / (4 * GDM_SIMD_LANES);
  for (uint unit = index / GDM_SIMD_LANES; unit < uint(task.rows) * parts;
       unit += GDM_ATTENTION_THREADS / GDM_SIMD_LANES) {
    uint row = unit / parts;
    uint i = 4 * (lane + GDM_SIMD_LANES * (unit - row * parts));
    if (i >= dim) continue;
    uint number = uint(task.firstRow) + row;
    uint spans = (uint(task.past) + number / group + GDM_ATTENTION_SPAN) / GDM_ATTENTION_SPAN;
    ulong token = ulong(uint(task.firstToken) + number / group);
    ulong head = ulong(keyHead * group + number % group);
    float4 total = *(device const float4*)(partial + ((base + row) * dim + i));
    float most = sums[2 * (base + row)];
    float sum = sums[2 * (base + row) + 1];
    for (uint first = 1; first < spans; first += ahead) {
      float4 v[ahead];
      float m[ahead];
      float l[ahead];
      GDM_UNROLL for (uint j = 0; j < ahead; ++j) {
        ulong at = base + min(first + j, spans - 1) * R + row;
        v[j] = *(device const float4*)(partial + (at * dim + i));
        m[j] = sums[2 * at];
        l[j] = sums[2 * at + 1];
      }
      GDM_UNROLL for (uint j = 0; j < ahead; ++j) {
        if (first + j < spans) {
          float now = m[j] > most ? m[j] : most;
          float reference = now == -INFINITY ? 0.0f : now;
          float before = gd_exp_down(most - reference);
          float here = gd_exp_down(m[j] - reference);
          total = fma(total, float4(before), v[j] * here);
          sum = fma(sum, before, l[j] * here);
          most = now;
        }
      }
    }
    GDM_UNROLL for (uint e = 0; e < 4; ++e) {
      float x = precise::divide(total[e], sum);
      if (params.hasGate != 0) {
        x *= gd_sigmoid(float(gate[token * params.gateTokenStride + head * params.gateHeadStride + i + e]));
      }
      write_wide(out, token * params.outTokenStride + head * params.outHeadStride + i + e, x, OUT_F32);
    }
  }
}

// Names: gd_attention_combine_<T>.
GDM_INSTANTIATE_T(gd_attention_combine)

#line 1 "shaders/attention_prepare.metal"
// Attention, first of three kernels: queries are made ready, keys and values go into their pages.
//
//   query <- rotate((x r) w) scale     key <- rotate((x r) w)     r = rsqrt(mean x^2 + eps), where there is a norm
//   rotate: element i < rotary / 2 and element i + rotary / 2, (a, b) to (a cos - b sin, b cos + a sin)
//   (RMS norm: Zhang and Sennrich 2019; rotation: Su et al., "RoFormer", 2021, in halves as Hugging Face has it)
//
// query [tokens, heads, dim] T; key, value [tokens, keyHeads, dim] T; strides in elements. queryNorm, keyNorm [dim], of
// the dtypes in params, 0 for none. angles [tokens, rotary] f32: cosines, then sines. places [tokens]: page keyHeads
// pageTokens + row. keyPages, valuePages [pages, keyHeads, pageTokens, dim] S. prepared [tokens, heads, dim] f32.
//
// Grid: (ceil(tokens (heads + keyHeads) / GDM_ATTENTION_PREPARE_ROWS)) threadgroups: a simdgroup a row, queries first.
// 1. Lanes load the row as rows.h has it and take its sum of squares.   2. The normalised row goes to threadgroup memory.
// 3. Each lane turns and writes elements lane, lane + 32, ....
// The order of a row's sum is that of rows.h for any key dim (G = 64). No function constants.


// Element i of a normalised row after its rotation.
METAL_FUNC float turned(threadgroup const float* row, device const float* angles, uint i, uint rotary) {
  if (i >= rotary) return row[i];
  uint half_ = rotary / 2;
  uint pair = i < half_ ? i : i - half_;
  float a = row[pair];
  float b = row[pair + half_];
  float c = angles[pair];
  float s = angles[pair + half_];
  return i < half_ ? fma(-b, s, a * c) : fma(a, s, b * c);
}

template <typename T, typename S>
[[max_total_threads_per_threadgroup(GDM_ATTENTION_PREPARE_ROWS * GDM_SIMD_LANES)]]
kernel void gd_attention_prepare(device const T* query [[buffer(0)]],
                                 device const T* key [[buffer(1)]],
                                 device const T* value [[buffer(2)]],
                                 device const ushort* queryNorm [[buffer(3)]],
                                 device const ushort* keyNorm [[buffer(4)]],
                                 device const float* angles [[buffer(5)]],
                                 device const uint* places [[buffer(6)]],
                                 device S* keyPages [[buffer(7)]],
                                 device S* valuePages [[buffer(8)]],
                                 device float* prepared [[buffer(9)]],
                                 constant GDMAttentionPrepare& params [[buffer(10)]],
                                 uint group [[threadgroup_position_in_grid]],
                                 uint index [[thread_index_in_threadgroup]]) {
  threadgroup float rows[GDM_ATTENTION_PREPARE_ROWS * GDM_MAX_DIM];
  uint lane = index % GDM_SIMD_LANES;
  uint simdgroup = index / GDM_SIMD_LANES;
  uint number = group * GDM_ATTENTION_PREPARE_ROWS + simdgroup;
  uint queries = params.tokens * params.heads;
  if (number >= queries + params.tokens * params.keyHeads) return;  // whole simdgroups
  bool isQuery = number < queries;
  uint heads = isQuery ? params.heads : params.keyHeads;
  uint own = isQuery ? number : number - queries;
  uint token = own / heads;
  uint head = own - token * heads;
  uint dim = params.dim;
  device const T* x = isQuery
      ? query + (ulong(token) * params.queryTokenStride + ulong(head) * params.queryHeadStride)
      : key + (ulong(token) * params.keyTokenStride + ulong(head) * params.keyHeadStride);

  Row<GDM_SIMD_LANES, 64> row;
  row_load<T>(row, x, lane, dim);
  uint weightDType = isQuery ? params.queryNormDType : params.keyNormDType;
  device const ushort* weight = isQuery ? queryNorm : keyNorm;
  float inverse = 1.0f;
  if (weightDType != 0) inverse = gd_rsqrt(precise::divide(row_dot(row, row), float(dim)) + params.epsilon);
  threadgroup float* mine = rows + simdgroup * GDM_MAX_DIM;
  GDM_UNROLL for (uint part = 0; part < 2; ++part) {
    GDM_UNROLL for (uint e = 0; e < 4; ++e) {
      uint i = row_column<GDM_SIMD_LANES>(lane, part) + e;
      if (i < dim) {
        float u = row.part[part][e];
        if (weightDType != 0) {
          float w = read_any(weight, i, weightDType);
          u = (u * inverse) * (params.plusOne != 0 ? 1.0f + w : w);
        }
        mine[i] = u;
      }
    }
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);

  device const float* turns = angles + ulong(token) * params.rotary;
  if (isQuery) {
    device float* to = prepared + ulong(own) * dim;
    for (uint i = lane; i < dim; i += GDM_SIMD_LANES) to[i] = turned(mine, turns, i, params.rotary) * params.scale;
    return;
  }
  ulong to = (ulong(places[token]) + ulong(head) * params.pageTokens) * dim;
  device const T* v = value + (ulong(token) * params.valueTokenStride + ulong(head) * params.valueHeadStride);
  for (uint i = lane; i < dim; i += GDM_SIMD_LANES) {
    keyPages[to + i] = S(turned(mine, turns, i, params.rotary));
    valuePages[to + i] = S(float(v[i]));
  }
}

// Names: gd_attention_prepare_<T>_<S>.
GDM_INSTANTIATE_TS(gd_attention_prepare)

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
#line 1 "shaders/states.h"
// Reading and writing state rows (rows.h) in a pool of slots.
//
// A state that is only moved, by an empty sequence or by a store of what a call began with, is moved as bits: GPUs may
// take numbers below the normal ones for zero in any operation on floats.
#ifndef GATED_DELTA_SHADERS_STATES_H
#define GATED_DELTA_SHADERS_STATES_H



// How decode and commit spread a state of dtype S whose rows are G groups (rows.h): lanes of a row, rows of a lane group
// and, for states of 16 bits, rows of the form of more. Rows of up to 256 columns are a quarter as many, for the registers.
template <typename S, uint G> struct DecodeShape {
  enum : uint {
    lanes = GDM_DECODE_LANES_16,
    rows = GDM_DECODE_ROWS_16 / (G == 64 ? 4 : 1),
    most = GDM_DECODE_MOST_ROWS_16 / (G == 64 ? 4 : 1),
    threads = GDM_DECODE_THREADS_16
  };
};
template <uint G> struct DecodeShape<float, G> {
  enum : uint {
    lanes = GDM_DECODE_LANES_F32,
    rows = GDM_DECODE_ROWS_F32,
    most = GDM_DECODE_ROWS_F32,
    threads = GDM_DECODE_THREADS_F32
  };
};
// Value dims are multiples of 8: threadgroups of eight rows, or two, have no rows beyond the last.
template <typename S, uint G> METAL_FUNC uint decode_limit(uint limit) {
  return 8 % (DecodeShape<S, G>::threads / DecodeShape<S, G>::lanes * DecodeShape<S, G>::rows) == 0 ? 0 : limit;
}

// Where an op's states are, the same for every row of a threadgroup. `next` .. `end` are its extra stores.
template <typename S> struct States {
  device S* pool;
  device const S* staged;
  device S* snapshots;
  device const GDMStore* stores;
  uint next;
  uint end;
  uint slotRows;
  uint keyDim;
};

// Which rows of a slot a lane group holds: first, first + apart, .... Those from `limit` on do not exist: they are zeros,
// neither read (another simdgroup may be writing the rows that do exist) nor written. A limit of 0 says that all exist.
struct RowSet {
  uint first;
  uint apart;
  uint limit;
  uint lane;
};
// The row, or the last that exists: for reads of inputs, which nobody writes.
METAL_FUNC uint row_of(RowSet rows, uint r) {
  uint row = rows.first + r * rows.apart;
  return rows.limit == 0 ? row : min(row, rows.limit - 1);
}
METAL_FUNC bool row_exists(RowSet rows, uint r) {
  return rows.limit == 0 || rows.first + r * rows.apart < rows.limit;
}
// Elements from row `first` to row r.
METAL_FUNC ulong row_offset(RowSet rows, uint r, uint keyDim) {
  if (rows.limit == 0) return ulong(r * rows.apart * keyDim);
  return ulong(row_of(rows, r)) * keyDim;
}
METAL_FUNC uint row_base(RowSet rows) { return rows.limit == 0 ? rows.first : 0; }

// The rows as the op found them, in slot `slot` of the pool or of the staged copies; -1 is zeros. Asked for and used in
// two steps, as in rows.h.
template <typename S, uint L, uint G, uint R> struct RowsBits {
  RowBits<S, L, G> row[R];
};
template <typename S, uint L, uint G, uint R>
METAL_FUNC void states_ask(thread RowsBits<S, L, G, R>& bits, thread const States<S>& at, int slot, RowSet set) {
  if (slot == GDM_SLOT_NONE) {
    GDM_UNROLL for (uint r = 0; r < R; ++r) row_none(bits.row[r]);
    return;
  }
  device const S* from = slot >= 0 ? (device const S*)at.pool : at.staged;
  from += (ulong(slot >= 0 ? slot : GDM_SLOT_STAGED - slot) * at.slotRows + row_base(set)) * at.keyDim;
  GDM_UNROLL for (uint r = 0; r < R; ++r) {
    if (row_exists(set, r)) row_ask(bits.row[r], from + row_offset(set, r, at.keyDim), set.lane, at.keyDim);
    else row_none(bits.row[r]);
  }
}
template <typename S, uint L, uint G, uint R>
METAL_FUNC void states_widen(thread Rows<L, G, R>& rows, thread const RowsBits<S, L, G, R>& bits) {
  GDM_UNROLL for (uint r = 0; r < R; ++r) row_widen(rows.row[r], bits.row[r]);
}
template <typename S, uint L, uint G, uint R>
METAL_FUNC void states_read(thread Rows<L, G, R>& rows, thread const States<S>& at, int slot, RowSet set) {
  RowsBits<S, L, G, R> bits;
  states_ask(bits, at, slot, set);
  states_widen(rows, bits);
}

template <typename S, uint L, uint G, uint R>
METAL_FUNC void states_write(thread const States<S>& at, device S* to, uint slot, thread const Rows<L, G, R>& rows,
                             RowSet set) {
  device S* base = to + (ulong(slot) * at.slotRows + row_base(set)) * at.keyDim;
  GDM_UNROLL for (uint r = 0; r < R; ++r) {
    if (row_exists(set, r)) row_store<S>(base + row_offset(set, r, at.keyDim), rows.row[r], set.lane, at.keyDim);
  }
}

// The rows of one slot to another, as bits; zeros are stored, so that nothing of a slot's old content survives.
template <typename S, uint L, uint G, uint R>
METAL_FUNC void states_move(thread const States<S>& at, int slot, device S* to, uint toSlot, RowSet set) {
  typedef typename Bits<S>::type4 U4;
  device const S* from = slot >= 0 ? (device const S*)at.pool : at.staged;
  ulong base = ulong(slot >= 0 ? slot : GDM_SLOT_STAGED - slot) * at.slotRows;
  for (uint r = 0; r < R; ++r) {
    if (!row_exists(set, r)) continue;
    ulong row = row_of(set, r);
    for (uint i = 0; i < G / L; ++i) {
      uint column = row_column<L>(set.lane, i);
      if (!row_holds<G>(column, at.keyDim)) continue;
      U4 bits = U4(0);
      if (slot != GDM_SLOT_NONE) bits = *(device const U4*)(from + (base + row) * at.keyDim + column);
      *(device U4*)(to + (ulong(toSlot) * at.slotRows + row) * at.keyDim + column) = bits;
    }
  }
}

// Extra stores due after `tokens` tokens: advances over them. Those due after none are states_begin's.
template <typename S, uint L, uint G, uint R>
METAL_FUNC void states_store(thread States<S>& at, int tokens, thread const Rows<L, G, R>& rows, RowSet set) {
  while (at.next < at.end && at.stores[at.next].tokens <= tokens) {
    int slot = at.stores[at.next].slot;
    if (slot >= 0) states_write(at, at.pool, uint(slot), rows, set);
    else states_write(at, at.snapshots, uint(-1 - slot), rows, set);
    ++at.next;
  }
}

// What needs no token: stores due after none and, for an empty sequence, the move to its write slot.
template <typename S, uint L, uint G, uint R>
METAL_FUNC void states_begin(thread States<S>& at, int slot, int writeSlot, bool empty, RowSet set) {
  while (HAS_STORES && at.next < at.end && at.stores[at.next].tokens <= 0) {
    int to = at.stores[at.next].slot;
    if (to >= 0) states_move<S, L, G, R>(at, slot, at.pool, uint(to), set);
    else states_move<S, L, G, R>(at, slot, at.snapshots, uint(-1 - to), set);
    ++at.next;
  }
  if (empty && writeSlot >= 0 && writeSlot != slot) states_move<S, L, G, R>(at, slot, at.pool, uint(writeSlot), set);
}

#endif

#line 26 "shaders/chunk_prepare.metal"

// (I - N)^-1 for a strictly lower triangular 8 x 8 block N of a matrix of 16 columns.
METAL_FUNC void chunk_leaf(thread simdgroup_float8x8& inverse, threadgroup const float* block) {
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
template <typename T, uint G>
METAL_FUNC void chunk_stage(thread Row<GDM_CHUNK_LANES, G>& row, threadgroup float* tile, device const T* source, bool present,
                        float epsilon, float scale, uint group, uint lane, uint keyDim) {
  row_load<T>(row, source, lane, keyDim);
  row_normalise(row, keyDim, epsilon, scale);
  if (!present) row_zero(row);
  row_store(tile + group * keyDim, row, lane, keyDim);
}

template <typename T, uint G>
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
  uint keyDim = G < 64 ? 4 * G : params.keyDim;
  uint valueHead = group.x;
  uint keyHead = key_head_of(valueHead, params.keyHeads, params.valueHeads);
  threadgroup float* tile = memory;
  threadgroup float* negA = tile + GDM_CHUNK * keyDim;
  threadgroup float* dots = negA + GDM_CHUNK * GDM_CHUNK;

  uint lane = index % GDM_CHUNK_LANES;
  uint own = index / GDM_CHUNK_LANES;
  uint count = uint(chunks[group.y].count);
  ulong base = ulong(chunks[group.y].firstToken);
  ulong token = base + min(own, count - 1);
  ulong gateBase = base * params.gateTokenStride + ulong(valueHead) * params.gateHeadStride;
  ulong betaBase = base * params.betaTokenStride + ulong(valueHead) * params.betaHeadStride;
  device const T* keyRow = key + (token * params.keyTokenStride + ulong(keyHead) * params.keyHeadStride);
  device const T* queryRow = query + (token * params.queryTokenStride + ulong(keyHead) * params.queryHeadStride);

  Row<GDM_CHUNK_LANES, G> ownKey;
  chunk_stage(ownKey, tile, keyRow, own < count, params.epsilon, 1.0f, own, lane, keyDim);
  threadgroup_barrier(mem_flags::mem_threadgroup);

  for (uint pass = 0; pass < 2; ++pass) {
    if (pass == 1) {
      threadgroup_barrier(mem_flags::mem_threadgroup);
      Row<GDM_CHUNK_LANES, G> ownQuery;
      chunk_stage(ownQuery, tile, queryRow, own < count, params.epsilon, params.scale, own, lane, keyDim);
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    Row<GDM_CHUNK_LANES, G> carried = ownKey;
    for (uint i = 0; i < GDM_CHUNK; ++i) {
      if (i > own && i < count) {
        ulong at = gateBase + ulong(i) * params.gateTokenStride;
        if (GATE_PER_KEY) {
          Row<GDM_CHUNK_LANES, G> decay;
          row_load<float>(decay, gate + at, lane, keyDim);
          row_scale(carried, decay);
        } else {
          row_scale(carried, gate[at]);
        }
      }
      Row<GDM_CHUNK_LANES, G> other;
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
GDM_INSTANTIATE_TK(gd_chunk_prepare)

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
// Rows are scaled as they are staged, so that every product but the decay of S is a plain one; S is decayed element by
// element. Products of decays are running ones: see chunk_prepare.metal.
//
// Function constants: TILED_HEADS, GATE_PER_KEY, QK_NORM, OUT_F32, HAS_STORES.
#line 1 "shaders/chunk.h"
// The pieces of chunk_scan.metal: the state as simdgroup matrices, and the tile of 16 staged rows.
//
// Matrices are loaded, stored and multiplied, and their elements multiplied in place by a number or by those of another
// matrix that was loaded alike (thread_elements, a lane's two): nothing here depends on which lane holds which element. Every function is called by all threads of the threadgroup, or by
// all lanes of a simdgroup, in uniform control flow.
#ifndef GATED_DELTA_SHADERS_CHUNK_H
#define GATED_DELTA_SHADERS_CHUNK_H

#line 1 "shaders/recurrence.h"
// What decode, prefill and the chunked scan are given alike, and where a token's rows are in it. recurrence_decode.metal
// says what each tensor and table is.
#ifndef GATED_DELTA_SHADERS_RECURRENCE_H
#define GATED_DELTA_SHADERS_RECURRENCE_H



template <typename T, typename S> struct Recurrence {
  device const T* query;
  device const T* key;
  device const T* value;
  device T* out;
  device S* state;
  device const S* staged;
  device S* snapshots;
  device const int* readSlots;
  device const int* writeSlots;
  device const uint* storeOffsets;
  device const GDMStore* stores;
};

// RECORD.
struct Records {
  device float* key;
  device float* delta;
};

// The states of a sequence, with its extra stores.
template <typename T, typename S>
METAL_FUNC States<S> states_of(thread const Recurrence<T, S>& given, uint sequence, uint slotRows, uint keyDim) {
  States<S> states = {given.state, given.staged, given.snapshots, given.stores, 0, 0, slotRows, keyDim};
  if (HAS_STORES) {
    states.next = given.storeOffsets[sequence];
    states.end = given.storeOffsets[sequence + 1];
  }
  return states;
}

template <typename T, typename S>
METAL_FUNC device const T* query_of(thread const Recurrence<T, S>& given, constant GDMRecurrence& params, ulong token,
                                    uint keyHead) {
  return given.query + (token * params.queryTokenStride + ulong(keyHead) * params.queryHeadStride);
}
template <typename T, typename S>
METAL_FUNC device const T* key_of(thread const Recurrence<T, S>& given, constant GDMRecurrence& params, ulong token,
                                  uint keyHead) {
  return given.key + (token * params.keyTokenStride + ulong(keyHead) * params.keyHeadStride);
}
template <typename T, typename S>
METAL_FUNC device const T* value_of(thread const Recurrence<T, S>& given, constant GDMRecurrence& params, ulong token,
                                    uint valueHead) {
  return given.value + (token * params.valueTokenStride + ulong(valueHead) * params.valueHeadStride);
}
// Elements from the beginning of `out`, gates and betas.
METAL_FUNC ulong out_at(constant GDMRecurrence& params, ulong token, uint valueHead) {
  return token * params.outTokenStride + ulong(valueHead) * params.outHeadStride;
}
METAL_FUNC ulong gate_at(constant GDMRecurrence& params, ulong token, uint valueHead) {
  return token * params.gateTokenStride + ulong(valueHead) * params.gateHeadStride;
}
METAL_FUNC ulong beta_at(constant GDMRecurrence& params, ulong token, uint valueHead) {
  return token * params.betaTokenStride + ulong(valueHead) * params.betaHeadStride;
}

#endif

#line 10 "shaders/chunk.h"

// The state rows of one simdgroup (never passed as const: the operations on matrices are documented to take references
// to ones that are not): part f is [key columns 8 f .. 8 f + 7, 8 rows].
template <uint P> struct Panels {
  simdgroup_float8x8 part[P];
};

template <uint P> inline bool panel_exists(uint panel, uint panels) { return P < 32 || panel < panels; }

// Puts row `own` into the tile, scaled; zeros past the chunk's end, whatever the norm made of the row.
template <uint G>
METAL_FUNC void chunk_put(threadgroup float* tile, thread const Row<GDM_CHUNK_LANES, G>& row, bool present, float scale, uint own,
                      uint lane, uint keyDim) {
  Row<GDM_CHUNK_LANES, G> scaled = row;
  row_scale(scaled, scale);
  if (!present) row_zero(scaled);
  row_store(tile + own * keyDim, scaled, lane, keyDim);
}

// Scales row i of the tile by the product of the decays up to token i, per key dimension.
METAL_FUNC void chunk_scale_up_to(threadgroup float* tile, device const float* gate, ulong gateStride, uint count,
                              uint index, uint keyDim) {
  for (uint d = index; d < keyDim; d += GDM_CHUNK_THREADS) {
    float product = 1.0f;
    for (uint i = 0; i < count; ++i) {
      product *= gate[i * gateStride + d];
      tile[i * keyDim + d] *= product;
    }
  }
}

// Scales row i by the product of the decays after token i, and lays out the chunk's whole product as 8 x 8 matrices
// [Dk / 8, 8, 8] of equal columns.
METAL_FUNC void chunk_scale_after(threadgroup float* tile, threadgroup float* decays, device const float* gate,
                              ulong gateStride, uint count, uint index, uint keyDim) {
  for (uint d = index; d < keyDim; d += GDM_CHUNK_THREADS) {
    float product = 1.0f;
    for (uint i = count; i > 0; --i) {
      tile[(i - 1) * keyDim + d] *= product;
      product *= gate[(i - 1) * gateStride + d];
    }
    for (uint c = 0; c < 8; ++c) decays[d * 8 + c] = product;
  }
}

// result += (8 rows of the tile) times the state.
template <uint P>
METAL_FUNC void chunk_times_state(thread simdgroup_float8x8& result, threadgroup const float* tile,
                              thread Panels<P>& s, uint panels, uint keyDim) {
  GDM_UNROLL for (uint f = 0; f < P; ++f) {
    if (panel_exists<P>(f, panels)) {
      simdgroup_float8x8 rows;
      simdgroup_load(rows, tile + 8 * f, keyDim, 0, false);
      simdgroup_multiply_accumulate(result, rows, s.part[f], result);
    }
  }
}

// (y0, y1) = (c0, c1) + M (x0, x1) for a lower triangular M [16, 16].
METAL_FUNC void chunk_lower(thread simdgroup_float8x8& y0, thread simdgroup_float8x8& y1, threadgroup const float* m,
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

// S <- decay S + (tile)^T Vn, the first product element by element. Per head the decay is `total`; per key dimension, which
// is a row of the state's matrices, the matrices in `decays`.
template <uint P>
METAL_FUNC void chunk_update(thread Panels<P>& s, threadgroup const float* tile, threadgroup const float* decays,
                         float total, simdgroup_float8x8 v0, simdgroup_float8x8 v1, uint panels, uint keyDim) {
  GDM_UNROLL for (uint f = 0; f < P; ++f) {
    if (panel_exists<P>(f, panels)) {
      simdgroup_float8x8 columns;
      if (GATE_PER_KEY) {
        simdgroup_load(columns, decays + 64 * f, 8, 0, false);
        s.part[f].thread_elements() *= columns.thread_elements();
      } else {
        s.part[f].thread_elements() *= total;
      }
      simdgroup_load(columns, tile + 8 * f, keyDim, 0, true);
      simdgroup_multiply_accumulate(s.part[f], columns, v0, s.part[f]);
      simdgroup_load(columns, tile + 8 * keyDim + 8 * f, keyDim, 0, true);
      simdgroup_multiply_accumulate(s.part[f], columns, v1, s.part[f]);
    }
  }
}

// The rows of the state that this threadgroup's lane groups move: 16 apart, two slices.
typedef RowSet ChunkRows;
METAL_FUNC ChunkRows chunk_rows(uint slotRow, uint rows, uint index) {
  ChunkRows set = {slotRow + index / GDM_CHUNK_LANES, GDM_CHUNK, slotRow + rows, index % GDM_CHUNK_LANES};
  return set;
}

// The state rows from their slot, 16 at a time through the tile: each lane group reads a row, then the two simdgroups
// that own the rows take them transposed. Rows beyond the last are zeros.
template <typename S, uint G>
METAL_FUNC void chunk_state_read(thread Panels<G / 2>& s, threadgroup float* tile, thread const States<S>& at, int slot,
                                 ChunkRows set, uint index) {
  uint own = index / GDM_CHUNK_LANES;
  uint owner = index / GDM_SIMD_LANES;
  for (uint slice = 0; slice < 2; ++slice) {
    RowSet one = set;
    one.first += slice * GDM_CHUNK;
    Rows<GDM_CHUNK_LANES, G, 1> x;
    states_read(x, at, slot, one);
    if (!row_exists(one, 0)) row_zero(x.row[0]);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    row_store(tile + own * at.keyDim, x.row[0], set.lane, at.keyDim);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (owner / 2 == slice) {
      GDM_UNROLL for (uint f = 0; f < G / 2; ++f) {
        if (panel_exists<G / 2>(f, at.keyDim / 8)) {
          simdgroup_load(s.part[f], tile + (owner % 2) * 8 * at.keyDim + 8 * f, at.keyDim, 0, true);
        }
      }
    }
  }
}

// The same way back. Begins with a barrier: the tile may still be in use.
template <typename S, uint G>
METAL_FUNC void chunk_state_write(thread Panels<G / 2>& s, threadgroup float* tile, thread const States<S>& at,
                                  device S* to, uint slot, ChunkRows set, uint index) {
  uint own = index / GDM_CHUNK_LANES;
  uint owner = index / GDM_SIMD_LANES;
  for (uint slice = 0; slice < 2; ++slice) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (owner / 2 == slice) {
      GDM_UNROLL for (uint f = 0; f < G / 2; ++f) {
        if (panel_exists<G / 2>(f, at.keyDim / 8)) {
          simdgroup_store(s.part[f], tile + (owner % 2) * 8 * at.keyDim + 8 * f, at.keyDim, 0, true);
        }
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    RowSet one = set;
    one.first += slice * GDM_CHUNK;
    Rows<GDM_CHUNK_LANES, G, 1> x;
    row_load(x.row[0], tile + own * at.keyDim, set.lane, at.keyDim);
    states_write(at, to, slot, x, one);
  }
}

// Extra stores due after `done` tokens.
template <typename S, uint G>
METAL_FUNC void chunk_stores(thread States<S>& at, int done, thread Panels<G / 2>& s, threadgroup float* tile,
                             ChunkRows set, uint index) {
  while (at.next < at.end && at.stores[at.next].tokens <= done) {
    int slot = at.stores[at.next].slot;
    if (slot >= 0) chunk_state_write<S, G>(s, tile, at, at.pool, uint(slot), set, index);
    else chunk_state_write<S, G>(s, tile, at, at.snapshots, uint(-1 - slot), set, index);
    ++at.next;
  }
}

#endif

#line 20 "shaders/chunk_scan.metal"

template <typename T, typename S, uint G>
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
  Recurrence<T, S> given = {query, key, value, out, state, staged, snapshots, readSlots, writeSlots, storeOffsets, stores};
  uint keyDim = G < 64 ? 4 * G : params.keyDim;
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

  uint lane = index % GDM_CHUNK_LANES;
  uint own = index / GDM_CHUNK_LANES;  // the token that this row group stages
  uint column = 8 * (index / GDM_SIMD_LANES);  // this simdgroup's first row, a column of values

  States<S> states = states_of(given, sequence, slotRows, keyDim);
  ChunkRows set = chunk_rows(slotRow, rows, index);
  int readSlot = readSlots[sequence];
  int writeSlot = writeSlots[sequence];
  bool empty = chunkOffsets[sequence] == chunkOffsets[sequence + 1];
  if (HAS_STORES || empty) states_begin<S, GDM_CHUNK_LANES, G, 2>(states, readSlot, writeSlot, empty, set);
  if (empty) return;

  Panels<G / 2> s;
  chunk_state_read<S, G>(s, tile, states, readSlot, set, index);
  int done = 0;

  for (uint chunk = chunkOffsets[sequence]; chunk < chunkOffsets[sequence + 1]; ++chunk) {
    uint count = uint(chunks[chunk].count);
    ulong base = ulong(chunks[chunk].firstToken);
    ulong token = base + min(own, count - 1);
    bool present = own < count;
    ulong gateBase = gate_at(params, base, valueHead);
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
    Row<GDM_CHUNK_LANES, G> row;
    row_load<T>(row, query_of(given, params, token, keyHead), lane, keyDim);
    row_normalise(row, keyDim, params.epsilon, params.scale);
    chunk_put(tile, row, present, upTo, own, lane, keyDim);
    for (uint i = index; i < GDM_CHUNK * GDM_CHUNK_ROWS; i += GDM_CHUNK_THREADS) {
      uint t = i / GDM_CHUNK_ROWS;
      uint r = i % GDM_CHUNK_ROWS;
      values[i] = t < count && r < rows ? float(value_of(given, params, base + t, valueHead)[firstRow + r]) : 0.0f;
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
    row_load<T>(row, key_of(given, params, token, keyHead), lane, keyDim);
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
      ulong at = out_at(params, base + t, valueHead) + firstRow + r;
      if (r < rows) write_wide(out, at, values[i], OUT_F32);
    }
    chunk_update(s, tile, decays, total, v0, v1, panels, keyDim);

    done += int(count);
    if (HAS_STORES) chunk_stores<S, G>(states, done, s, tile, set, index);
  }

  if (writeSlot >= 0) chunk_state_write<S, G>(s, tile, states, state, uint(writeSlot), set, index);
}

// Names: gd_chunk_scan_<T>_<S>_<key dim>; kany serves any multiple of 8 up to 256.
GDM_INSTANTIATE_TSK(gd_chunk_scan)

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
// 1. Ask for the tile's inputs, all of them before the first is used, and for the K - 1 columns before it: from the
//    state in tile 0, by way of threadgroup memory, where neighbouring threads read neighbouring memory; else from x.
// 2. For each token of the tile: one output, rounded once at its store.
// 3. Tile 0 alone writes states: it alone has read the old one, and whatever else a new state holds is in x.
//
// CONV_UPDATE, one token of each sequence and K = 4: a thread has four channels, whose columns, weights, inputs and
// outputs are whole vectors; channels are a multiple of 4 and every row of x and out begins at a multiple of four
// elements' bytes. Grid: (ceil(C / (4 GDM_CONV_THREADS)), 1, n). The same bits.
//
// gd_conv_shift. Grid: (ceil(C / GDM_CONV_THREADS), n). Moves each sequence's state on by counts[s] of its tokens and
// computes no output: the commit of a verified draft whose inputs x were kept.
//
// Function constants: CONV_WIDTH, CONV_BIAS, CONV_SILU, CONV_STATE_F32, CONV_WEIGHT_DTYPE, CONV_BIAS_DTYPE, OUT_F32,
// HAS_STORES, CONV_UPDATE; gd_conv_shift: CONV_WIDTH, CONV_STATE_F32.
#line 1 "shaders/conv.h"
// Causal depthwise convolution, the parts that conv.metal and step.metal share: the state's layout and one output.
//
// state [slots, C, K - 1], oldest first, T or f32 (CONV_STATE_F32); weight [C, K]; bias [C]; any float dtype.
// y[t] = act(bias + sum over j of w[j] x[t - (K - 1) + j]), taps in ascending order by fma, columns before the
// sequence's first token coming from the state. (The short convolution of Mamba, Gu and Dao 2023, as Gated DeltaNet
// applies it to the joint query, key and value channels.)
//
// Columns are held as bits, since a state only moves them. Loops over taps run to the largest width and leave out what
// is beyond this one's: a bound that is an option would keep the arrays in memory.
#ifndef GATED_DELTA_SHADERS_CONV_H
#define GATED_DELTA_SHADERS_CONV_H



// The K - 1 newest columns of one channel as the state stores them, oldest first; entries from K - 1 on are unused.
struct ConvTaps {
  uint column[GDM_CONV_MAX_TAPS];
};

struct ConvWeights {
  float tap[GDM_CONV_MAX_TAPS];  // of columns
  float last;                    // of the token itself
  float bias;
};

METAL_FUNC void conv_weights(thread ConvWeights& w, device const ushort* weight, device const ushort* bias,
                             uint channel) {
  ulong at = ulong(channel) * CONV_WIDTH;
  GDM_UNROLL for (uint j = 0; j < GDM_CONV_MAX_TAPS; ++j) {
    w.tap[j] = j + 1 < CONV_WIDTH ? read_any(weight, at + j, CONV_WEIGHT_DTYPE) : 0.0f;
  }
  w.last = read_any(weight, at + CONV_WIDTH - 1, CONV_WEIGHT_DTYPE);
  w.bias = CONV_BIAS ? read_any(bias, channel, CONV_BIAS_DTYPE) : 0.0f;
}

// One column: of the state's memory, as a number, and of an input.
template <typename T> METAL_FUNC uint conv_bits(device const T* p, ulong at) {
  if (CONV_STATE_F32) return ((device const uint*)p)[at];
  return uint(((device const typename Bits<T>::type*)p)[at]);
}
template <typename T> METAL_FUNC void conv_set_bits(device T* p, ulong at, uint bits) {
  typedef typename Bits<T>::type U;
  if (CONV_STATE_F32) ((device uint*)p)[at] = bits;
  else ((device U*)p)[at] = U(bits);
}
template <typename T> METAL_FUNC float conv_value(uint bits) {
  return CONV_STATE_F32 ? as_type<float>(bits) : Bits<T>::value(bits);
}
template <typename T> METAL_FUNC uint conv_column(T x) {
  uint bits = uint(as_type<typename Bits<T>::type>(x));
  return CONV_STATE_F32 ? as_type<uint>(Bits<T>::value(bits)) : bits;
}

// The state as the op found it: slot of the pool, of the staged copies, or zeros by store.
template <typename T>
METAL_FUNC void conv_read(thread ConvTaps& taps, device const T* pool, device const T* staged, int slot, uint channels,
                          uint channel) {
  device const T* from = slot >= 0 ? pool : staged;
  ulong at = (ulong(slot >= 0 ? slot : GDM_SLOT_STAGED - slot) * channels + channel) * (CONV_WIDTH - 1);
  GDM_UNROLL for (uint j = 0; j < GDM_CONV_MAX_TAPS; ++j) {
    taps.column[j] = slot != GDM_SLOT_NONE && j + 1 < CONV_WIDTH ? conv_bits(from, at + j) : 0u;
  }
}

template <typename T>
METAL_FUNC void conv_write(device T* pool, thread const ConvTaps& taps, uint slot, uint channels, uint channel) {
  ulong at = (ulong(slot) * channels + channel) * (CONV_WIDTH - 1);
  GDM_UNROLL for (uint j = 0; j < GDM_CONV_MAX_TAPS; ++j) {
    if (j + 1 < CONV_WIDTH) conv_set_bits(pool, at + j, taps.column[j]);
  }
}

METAL_FUNC void conv_move(thread ConvTaps& taps, uint column) {
  GDM_UNROLL for (uint j = 0; j < GDM_CONV_MAX_TAPS; ++j) {
    uint next = j + 1 < GDM_CONV_MAX_TAPS ? taps.column[j + 1 < GDM_CONV_MAX_TAPS ? j + 1 : j] : 0u;
    taps.column[j] = j + 2 == CONV_WIDTH ? column : next;
  }
}

// One output, activated but not yet rounded, and the taps moved on by `x`.
template <typename T> METAL_FUNC float conv_token(thread ConvTaps& taps, thread const ConvWeights& w, T x) {
  uint column = conv_column(x);
  float sum = w.bias;
  GDM_UNROLL for (uint j = 0; j < GDM_CONV_MAX_TAPS; ++j) {
    if (j + 1 < CONV_WIDTH) sum = fma(w.tap[j], conv_value<T>(taps.column[j]), sum);
  }
  sum = fma(w.last, conv_value<T>(column), sum);
  conv_move(taps, column);
  return CONV_SILU ? gd_silu(sum) : sum;
}

// The columns after `tokens` tokens: the last K - 1 of (old state, x[0 .. tokens)). `x` points at the channel's first
// token of the sequence.
template <typename T>
METAL_FUNC void conv_columns(thread ConvTaps& taps, thread const ConvTaps& old, device const T* x, uint stride,
                             int tokens) {
  int width = int(CONV_WIDTH) - 1;
  GDM_UNROLL for (int j = 0; j < GDM_CONV_MAX_TAPS; ++j) {
    int at = tokens - width + j;
    uint column = 0u;
    if (j < width && at >= 0) column = conv_column(x[ulong(at) * stride]);
    // A loop over fixed entries, not old.column[at + width]: the taps stay in registers.
    GDM_UNROLL for (int m = 0; m < GDM_CONV_MAX_TAPS; ++m) column = at < 0 && m == at + width ? old.column[m] : column;
    taps.column[j] = column;
  }
}

#endif

#line 26 "shaders/conv.metal"

// The states of a threadgroup's channels, [GDM_CONV_THREADS, K - 1] neighbouring elements, to threadgroup memory.
template <typename T>
METAL_FUNC void conv_stage(threadgroup uint* memory, device const T* pool, device const T* staged, int slot,
                           uint channels, uint firstChannel, uint index) {
  uint width = CONV_WIDTH - 1;
  uint count = min(uint(GDM_CONV_THREADS), channels - firstChannel) * width;
  device const T* from = slot >= 0 ? pool : staged;
  ulong at = (ulong(slot >= 0 ? slot : GDM_SLOT_STAGED - slot) * channels + firstChannel) * width;
  GDM_UNROLL for (uint j = 0; j < GDM_CONV_MAX_TAPS; ++j) {
    uint i = index + j * GDM_CONV_THREADS;
    if (i < count) memory[i] = slot == GDM_SLOT_NONE ? 0u : conv_bits(from, at + i);
  }
}

// The same way back.
template <typename T>
METAL_FUNC void conv_unstage(device T* pool, threadgroup const uint* memory, uint slot, uint channels,
                             uint firstChannel, uint index) {
  uint width = CONV_WIDTH - 1;
  uint count = min(uint(GDM_CONV_THREADS), channels - firstChannel) * width;
  ulong at = (ulong(slot) * channels + firstChannel) * width;
  GDM_UNROLL for (uint j = 0; j < GDM_CONV_MAX_TAPS; ++j) {
    uint i = index + j * GDM_CONV_THREADS;
    if (i < count) conv_set_bits(pool, at + i, memory[i]);
  }
}

METAL_FUNC void conv_take(thread ConvTaps& taps, threadgroup const uint* memory, uint index) {
  GDM_UNROLL for (uint j = 0; j < GDM_CONV_MAX_TAPS; ++j) {
    taps.column[j] = j + 1 < CONV_WIDTH ? memory[index * (CONV_WIDTH - 1) + j] : 0u;
  }
}
METAL_FUNC void conv_put(threadgroup uint* memory, thread const ConvTaps& taps, uint index) {
  GDM_UNROLL for (uint j = 0; j < GDM_CONV_MAX_TAPS; ++j) {
    if (j + 1 < CONV_WIDTH) memory[index * (CONV_WIDTH - 1) + j] = taps.column[j];
  }
}

// Four neighbouring columns of a state.
template <typename T> METAL_FUNC uint4 conv_bits4(device const T* p, ulong at) {
  if (CONV_STATE_F32) return *(device const uint4*)((device const uint*)p + at);
  return uint4(*(device const typename Bits<T>::type4*)(p + at));
}
template <typename T> METAL_FUNC void conv_set_bits4(device T* p, ulong at, uint4 bits) {
  typedef typename Bits<T>::type4 U4;
  if (CONV_STATE_F32) *(device uint4*)((device uint*)p + at) = bits;
  else *(device U4*)(p + at) = U4(bits);
}

// Elements at .. at + 3 of the weights.
METAL_FUNC float4 conv_weights4(device const ushort* weight, ulong at) {
  if (CONV_WEIGHT_DTYPE == GDM_F32) return *(device const float4*)((device const float*)weight + at);
  float4 v = float4(0.0f);
  GDM_UNROLL for (uint j = 0; j < 4; ++j) v[j] = read_any(weight, at + j, CONV_WEIGHT_DTYPE);
  return v;
}

// One token of channels first .. first + 3, W taps before it: their state is 4 W neighbouring elements, read and written
// as vectors. `x` and `out` point at the token's row.
template <typename T, uint W>
METAL_FUNC void conv_update(device const T* x, device const ushort* weight, device const ushort* bias, device T* state,
                            device const T* staged, device T* out, ulong outAt, int readSlot, int writeSlot,
                            uint channels, uint first) {
  typedef typename Vec4<T>::type T4;
  device const T* from = readSlot >= 0 ? (device const T*)state : staged;
  ulong at = (ulong(readSlot >= 0 ? readSlot : GDM_SLOT_STAGED - readSlot) * channels + first) * W;
  uint4 old[W];
  GDM_UNROLL for (uint i = 0; i < W; ++i) {
    old[i] = uint4(0u);
    if (readSlot != GDM_SLOT_NONE) old[i] = conv_bits4(from, at + 4 * i);
  }
  T4 in = *(device const T4*)(x + first);
  float4 w[W + 1];
  GDM_UNROLL for (uint i = 0; i < W + 1; ++i) w[i] = conv_weights4(weight, ulong(first) * (W + 1) + 4 * i);
  float4 y = float4(0.0f);
  uint4 next[W];
  GDM_UNROLL for (uint c = 0; c < 4; ++c) {
    uint column = conv_column(T(in[c]));
    float sum = CONV_BIAS ? read_any(bias, first + c, CONV_BIAS_DTYPE) : 0.0f;
    GDM_UNROLL for (uint j = 0; j < W; ++j) {
      uint n = c * W + j;
      uint m = c * (W + 1) + j;
      sum = fma(w[m / 4][m % 4], conv_value<T>(old[n / 4][n % 4]), sum);
      next[n / 4][n % 4] = j + 1 < W ? old[(n + (j + 1 < W ? 1 : 0)) / 4][(n + 1) % 4] : column;
    }
    uint last = c * (W + 1) + W;
    y[c] = fma(w[last / 4][last % 4], conv_value<T>(column), sum);
  }
  if (writeSlot >= 0) {
    ulong to = (ulong(writeSlot) * channels + first) * W;
    GDM_UNROLL for (uint i = 0; i < W; ++i) conv_set_bits4(state, to + 4 * i, next[i]);
  }
  GDM_UNROLL for (uint c = 0; c < 4; ++c) y[c] = CONV_SILU ? gd_silu(y[c]) : y[c];
  if (OUT_F32) *(device float4*)((device float*)out + outAt + first) = y;
  else *(device T4*)(out + outAt + first) = Vec4<T>::round(y);
}

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
  threadgroup uint memory[GDM_CONV_THREADS * GDM_CONV_MAX_TAPS];
  if (CONV_UPDATE) {
    uint four = 4 * (group.x * GDM_CONV_THREADS + index);
    int row = cuSeqlens[group.z];
    int readSlot = readSlots[group.z];
    int writeSlot = writeSlots[group.z];
    // No row or slot is that low: the comparison has them read now, and not where what has waited for the state needs them.
    if (four >= params.channels || min(row, min(readSlot, writeSlot)) == int(0x80000000u)) return;
    conv_update<T, 3>(x + ulong(row) * params.xTokenStride, weight, bias, state, staged, out,
                      ulong(row) * params.outTokenStride, readSlot, writeSlot, params.channels, four);
    return;
  }
  uint firstChannel = group.x * GDM_CONV_THREADS;
  uint channel = firstChannel + index;
  uint sequence = group.z;
  int begin = cuSeqlens[sequence];
  int count = cuSeqlens[sequence + 1] - begin;
  int first = int(group.y) * GDM_CONV_TILE;
  if (group.y > 0 && first >= count) return;  // whole threadgroups
  bool exists = channel < params.channels;
  uint safe = exists ? channel : params.channels - 1;
  device const T* input = x + (ulong(begin) * params.xTokenStride + safe);

  // A whole tile's inputs together; those of a last, shorter one as they come.
  bool whole = first + GDM_CONV_TILE <= count;
  T in[GDM_CONV_TILE];
  if (whole) {
    device const T* from = input + ulong(first) * params.xTokenStride;
    GDM_UNROLL for (int t = 0; t < GDM_CONV_TILE; ++t) {
      in[t] = *from;
      from += params.xTokenStride;
    }
  }
  ConvWeights w;
  conv_weights(w, weight, bias, safe);
  ConvTaps old;
  ConvTaps taps;
  GDM_UNROLL for (uint j = 0; j < GDM_CONV_MAX_TAPS; ++j) old.column[j] = 0u;
  if (group.y == 0) {
    conv_stage(memory, (device const T*)state, staged, readSlots[sequence], params.channels, firstChannel, index);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (exists) conv_take(old, memory, index);
    taps = old;
  } else {
    // GDM_CONV_TILE >= K - 1, so that the state is not needed beyond tile 0 and `old` is only a placeholder.
    conv_columns(taps, old, input, params.xTokenStride, first);
  }

  if (whole) {
    // All of them before the first store: a condition for each would keep one token's sums from going beside the next's.
    float y[GDM_CONV_TILE];
    GDM_UNROLL for (int t = 0; t < GDM_CONV_TILE; ++t) y[t] = conv_token(taps, w, in[t]);
    if (exists) {
      ulong at = ulong(begin + first) * params.outTokenStride + channel;
      GDM_UNROLL for (int t = 0; t < GDM_CONV_TILE; ++t) {
        write_wide(out, at, y[t], OUT_F32);
        at += params.outTokenStride;
      }
    }
  } else {
    for (int t = first; t < count; ++t) {
      float y = conv_token(taps, w, input[ulong(t) * params.xTokenStride]);
      if (exists) write_wide(out, ulong(begin + t) * params.outTokenStride + channel, y, OUT_F32);
    }
  }

  if (group.y > 0) return;
  if (HAS_STORES && exists) {
    for (uint i = storeOffsets[sequence]; i < storeOffsets[sequence + 1]; ++i) {
      ConvTaps kept;
      conv_columns(kept, old, input, params.xTokenStride, stores[i].tokens);
      int slot = stores[i].slot;
      if (slot >= 0) conv_write(state, kept, uint(slot), params.channels, channel);
      else conv_write(snapshots, kept, uint(-1 - slot), params.channels, channel);
    }
  }
  int slot = writeSlots[sequence];
  if (slot < 0) return;
  if (count > GDM_CONV_TILE) conv_columns(taps, old, input, params.xTokenStride, count);
  // Each thread has taken its own entries out of threadgroup memory, and puts the new ones in their place.
  if (exists) conv_put(memory, taps, index);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  conv_unstage(state, memory, uint(slot), params.channels, firstChannel, index);
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
  conv_read(old, (device const T*)state, staged, readSlots[sequence], params.channels, channel);
  conv_columns(taps, old, input, params.xTokenStride, counts[sequence]);
  conv_write(state, taps, uint(slot), params.channels, channel);
}

// Names: gd_conv_<T>, gd_conv_shift_<T>.
GDM_INSTANTIATE_T(gd_conv)
GDM_INSTANTIATE_T(gd_conv_shift)

#line 1 "shaders/embedding.metal"
// Rows of a matrix by number: out[r] = row ids[r] of a weight as matrix.h has it, converted to out's dtype.
//
// weight [vocabulary, columns]; out [rows, columns] T, row stride in elements; ids [rows], each below the vocabulary.
// Elements that need no conversion are moved as the bits that they are.
//
// Grid: (ceil(columns / (8 GDM_EMBEDDING_THREADS)), rows) threadgroups of GDM_EMBEDDING_THREADS: a thread takes eight
// elements. Function constants: ALIGNED_ROWS, MATRIX_GROUP, MATRIX_DTYPE.
#line 1 "shaders/matrix.h"
// A matrix [rows, columns] as projection and embedding read it: of floats, or packed in blocks.
//
// A template parameter W says how it is stored. Of floats W: contiguous, rows of `columns` elements. Packed: a type of its
// own for each family of formats and number of bits (affine.h), which gives
//   MatrixRow<W>   a place in a row; matrix_place and matrix_move
//   Raw<W>         what memory holds of eight neighbouring elements: matrix_fetch; matrix_widen makes elements of it
//   Words<W>       the same of 32: words_fetch and words_widen, for packed_row.h
// Reading is in two steps, so that many reads are asked for before the first is used. weight_formats.h lists the packed W.
//
// Function constants: ALIGNED_ROWS (of floats: columns are a multiple of 8 and rows begin at multiples of 16 bytes),
// MATRIX_GROUP, MATRIX_DTYPE (these two of packed ones only).
#ifndef GATED_DELTA_SHADERS_MATRIX_H
#define GATED_DELTA_SHADERS_MATRIX_H



// Whether W packs its elements.
template <typename W> struct IsPacked {
  enum : uint { value = 1 };
};
template <> struct IsPacked<float> {
  enum : uint { value = 0 };
};
template <> struct IsPacked<half> {
  enum : uint { value = 0 };
};
template <> struct IsPacked<bfloat> {
  enum : uint { value = 0 };
};

// Elements at .. at + 7; those from `columns` on are zeros.
struct Eight {
  float4 lower;
  float4 upper;
};

// Of floats.
template <typename W> struct Raw {
  typename Vec4<W>::type lower;
  typename Vec4<W>::type upper;
};

// A place in a row, a multiple of 8.
template <typename W> struct MatrixRow {
  device const W* row;
};

template <typename W>
METAL_FUNC void matrix_place(thread MatrixRow<W>& place, device const ushort* weight, device const ushort* scales,
                             device const ushort* biases, uint row, uint at, uint columns) {
  place.row = (device const W*)weight + (ulong(row) * columns + at);
}

// On by a multiple of 256.
template <typename W> METAL_FUNC void matrix_move(thread MatrixRow<W>& place, uint by) { place.row += by; }

// The eight elements `ahead` of a place, a multiple of 256; their column is `at`, below `columns`.
template <typename W>
METAL_FUNC void matrix_fetch(thread Raw<W>& raw, thread const MatrixRow<W>& from, uint ahead, uint at, uint columns) {
  typedef typename Vec4<W>::type W4;
  if (ALIGNED_ROWS) {
    raw.lower = *(device const W4*)(from.row + ahead);
    raw.upper = *(device const W4*)(from.row + ahead + 4);
    return;
  }
  raw.lower = W4(W(0.0f));
  raw.upper = W4(W(0.0f));
  GDM_UNROLL for (uint j = 0; j < 4; ++j) {
    if (at + j < columns) raw.lower[j] = from.row[ahead + j];
    if (at + 4 + j < columns) raw.upper[j] = from.row[ahead + 4 + j];
  }
}
template <typename W> METAL_FUNC void matrix_widen(thread Eight& v, thread const Raw<W>& raw, uint unit) {
  v.lower = Vec4<W>::widen(raw.lower);
  v.upper = Vec4<W>::widen(raw.upper);
}

// 32 neighbouring elements of a packed W.
template <typename W> struct Words;

#line 1 "shaders/affine.h"
// MLX's affine forms of B = 2, 3, 4, 5, 6 or 8 bits: a row is columns B / 8 bytes, a little-endian stream of B-bit numbers q;
// scales and biases [rows, columns >> MATRIX_GROUP] of MATRIX_DTYPE; element = fma(q, scale, bias) in float32. Eight
// neighbouring elements are B bytes, 32 are B words, and both are in one group.
#ifndef GATED_DELTA_SHADERS_AFFINE_H
#define GATED_DELTA_SHADERS_AFFINE_H

// Included by matrix.h, which has the primary templates.
template <uint B> struct Affine {};

// Scale or bias `group` after one, in the 16-bit units of read_any.
METAL_FUNC device const ushort* matrix_scale(device const ushort* p, ulong group) {
  return p + group * (MATRIX_DTYPE == GDM_F32 ? 2 : 1);
}

template <uint B> struct Raw<Affine<B>> {
  uint2 words;
  float scale;
  float bias;
};
template <uint B> struct MatrixRow<Affine<B>> {
  device const uchar* row;
  device const ushort* scales;
  device const ushort* biases;
};

template <uint B>
METAL_FUNC void matrix_place(thread MatrixRow<Affine<B>>& place, device const ushort* weight, device const ushort* scales,
                             device const ushort* biases, uint row, uint at, uint columns) {
  place.row = (device const uchar*)weight + (ulong(row) * (columns / 8) + at / 8) * B;
  ulong group = ulong(row) * (columns >> MATRIX_GROUP) + (at >> MATRIX_GROUP);
  place.scales = matrix_scale(scales, group);
  place.biases = matrix_scale(biases, group);
}

template <uint B> METAL_FUNC void matrix_move(thread MatrixRow<Affine<B>>& place, uint by) {
  place.row += by / 8 * B;
  place.scales = matrix_scale(place.scales, by >> MATRIX_GROUP);
  place.biases = matrix_scale(place.biases, by >> MATRIX_GROUP);
}

template <uint B>
METAL_FUNC void matrix_fetch(thread Raw<Affine<B>>& raw, thread const MatrixRow<Affine<B>>& from, uint ahead, uint at,
                             uint columns) {
  device const uchar* p = from.row + ahead / 8 * B;
  raw.words = uint2(0u);
  if (B == 4) {
    raw.words.x = *(device const uint*)p;
  } else if (B == 8) {
    raw.words.x = ((device const uint*)p)[0];
    raw.words.y = ((device const uint*)p)[1];
  } else if (B == 2) {
    raw.words.x = uint(*(device const ushort*)p);
  } else if (B == 6) {
    device const ushort* h = (device const ushort*)p;
    raw.words.x = uint(h[0]) | uint(h[1]) << 16;
    raw.words.y = uint(h[2]);
  } else {
    raw.words.x = uint(p[0]) | uint(p[1]) << 8 | uint(p[2]) << 16;
    if (B == 5) {
      raw.words.x |= uint(p[3]) << 24;
      raw.words.y = uint(p[4]);
    }
  }
  raw.scale = read_any(from.scales, ahead >> MATRIX_GROUP, MATRIX_DTYPE);
  raw.bias = read_any(from.biases, ahead >> MATRIX_GROUP, MATRIX_DTYPE);
}

// The number at a bit of a word and, where it ends in that, the next; the position is a constant where this is called.
// Bits that stand below position 23 become the mantissa of a float whose unit is their lowest position: an AND-OR and an
// exact subtraction, not a shift and a conversion. Those that end above it are moved down by 16 first. `unit` is
// GDM_PROJECT_UNIT: where it is an argument of the dispatch it stays in a register, and AND and OR are one operation.
template <uint B> METAL_FUNC float packed_number(uint word, uint next, uint position, uint unit) {
  uint mask = (1u << B) - 1;
  if (position + B > 32) {
    word = word >> position | next << (32 - position);
    position = 0;
  } else if (position + B > 23) {
    word >>= 16;
    position -= 16;
  }
  uint own = unit - (position << 23);
  return as_type<float>((word & (mask << position)) | own) - as_type<float>(own);
}

template <uint B> METAL_FUNC void matrix_widen(thread Eight& v, thread const Raw<Affine<B>>& raw, uint unit) {
  float4 q[2];
  GDM_UNROLL for (uint j = 0; j < 8; ++j) {
    uint bit = B * j;
    q[j / 4][j % 4] = packed_number<B>(bit < 32 ? raw.words.x : raw.words.y, raw.words.y, bit % 32, unit);
  }
  v.lower = fma(q[0], float4(raw.scale), float4(raw.bias));
  v.upper = fma(q[1], float4(raw.scale), float4(raw.bias));
}

template <uint B> struct Words<Affine<B>> {
  uint word[B];
  float scale;
  float bias;
};

template <uint B>
METAL_FUNC void words_fetch(thread Words<Affine<B>>& words, thread const MatrixRow<Affine<B>>& from, uint ahead) {
  device const uint* p = (device const uint*)(from.row + ahead / 8 * B);
  if (ALIGNED_ROWS && B % 4 == 0) {
    GDM_UNROLL for (uint i = 0; i < B / 4; ++i) {
      uint4 v = ((device const uint4*)p)[i];
      GDM_UNROLL for (uint j = 0; j < 4; ++j) words.word[4 * i + j] = v[j];
    }
  } else if (ALIGNED_ROWS && B % 2 == 0) {
    GDM_UNROLL for (uint i = 0; i < B / 2; ++i) {
      uint2 v = ((device const uint2*)p)[i];
      words.word[2 * i] = v.x;
      words.word[2 * i + 1] = v.y;
    }
  } else {
    GDM_UNROLL for (uint i = 0; i < B; ++i) words.word[i] = p[i];
  }
  words.scale = read_any(from.scales, ahead >> MATRIX_GROUP, MATRIX_DTYPE);
  words.bias = read_any(from.biases, ahead >> MATRIX_GROUP, MATRIX_DTYPE);
}

// Elements first .. first + 7 of the 32.
template <uint B>
METAL_FUNC void words_widen(thread Eight& v, thread const Words<Affine<B>>& words, uint first, uint unit) {
  float4 q[2];
  GDM_UNROLL for (uint j = 0; j < 8; ++j) {
    uint bit = B * (first + j);
    uint at = bit / 32;
    q[j / 4][j % 4] = packed_number<B>(words.word[at], words.word[at < B - 1 ? at + 1 : at], bit % 32, unit);
  }
  v.lower = fma(q[0], float4(words.scale), float4(words.bias));
  v.upper = fma(q[1], float4(words.scale), float4(words.bias));
}

#endif

#line 82 "shaders/matrix.h"

METAL_FUNC float chain4(float sum, float4 a, float4 b) {
  sum = fma(a.x, b.x, sum);
  sum = fma(a.y, b.y, sum);
  sum = fma(a.z, b.z, sum);
  return fma(a.w, b.w, sum);
}

// Past the last column nothing is added: a product with padding would make NaN of an infinite neighbour.
METAL_FUNC float chain8(float sum, thread const Eight& a, thread const Eight& b, uint at, uint columns) {
  if (ALIGNED_ROWS || at + 8 <= columns) return chain4(chain4(sum, a.lower, b.lower), a.upper, b.upper);
  GDM_UNROLL for (uint j = 0; j < 4; ++j) sum = at + j < columns ? fma(a.lower[j], b.lower[j], sum) : sum;
  GDM_UNROLL for (uint j = 0; j < 4; ++j) sum = at + 4 + j < columns ? fma(a.upper[j], b.upper[j], sum) : sum;
  return sum;
}

// One output with what is added to it in float32, rounded once. GDM_RESIDUAL_*; `residual` [rows, outputs] with a row
// stride, or out itself, which is not bound twice.
template <typename T>
METAL_FUNC void project_store(device T* out, device const T* residual, constant GDMProject& params, uint row,
                              uint output, float total) {
  ulong at = ulong(row) * params.outRowStride + output;
  if (params.residual == GDM_RESIDUAL_OUT) {
    total = total + read_wide((device const T*)out, at, OUT_F32);
  } else if (params.residual != GDM_RESIDUAL_NONE) {
    total = total + read_wide(residual, ulong(row) * params.residualRowStride + output,
                              params.residual == GDM_RESIDUAL_F32);
  }
  write_wide(out, at, total, OUT_F32);
}

#endif

#line 9 "shaders/embedding.metal"

template <typename T> METAL_FUNC void embedding_move(device T* out, device const T* from) {
  typedef typename Bits<T>::type U;
  *(device U*)out = *(device const U*)from;
}

template <typename T, typename W, uint PACKED> struct Embedding {
  static METAL_FUNC void put(device T* out, thread const MatrixRow<W>& row, uint at, uint columns) {
    GDM_UNROLL for (uint j = 0; j < 8; ++j) {
      if (at + j < columns) out[at + j] = T(Bits<W>::value(uint(((device const typename Bits<W>::type*)row.row)[j])));
    }
  }
};
template <typename T> struct Embedding<T, T, 0> {
  static METAL_FUNC void put(device T* out, thread const MatrixRow<T>& row, uint at, uint columns) {
    GDM_UNROLL for (uint j = 0; j < 8; ++j) {
      if (at + j < columns) embedding_move(out + at + j, row.row + j);
    }
  }
};
template <typename T, typename P> struct Embedding<T, P, 1> {
  static METAL_FUNC void put(device T* out, thread const MatrixRow<P>& row, uint at, uint columns) {
    Raw<P> raw;
    Eight v;
    matrix_fetch(raw, row, 0, at, columns);
    matrix_widen(v, raw, GDM_PROJECT_UNIT);
    GDM_UNROLL for (uint j = 0; j < 4; ++j) {
      out[at + j] = T(v.lower[j]);
      out[at + 4 + j] = T(v.upper[j]);
    }
  }
};

template <typename T, typename W>
[[max_total_threads_per_threadgroup(GDM_EMBEDDING_THREADS)]]
kernel void gd_embedding(device const ushort* weight [[buffer(0)]],
                         device const ushort* scales [[buffer(1)]],
                         device const ushort* biases [[buffer(2)]],
                         device T* out [[buffer(3)]],
                         device const int* ids [[buffer(4)]],
                         constant GDMEmbedding& params [[buffer(5)]],
                         uint2 group [[threadgroup_position_in_grid]],
                         uint index [[thread_index_in_threadgroup]]) {
  uint at = 8 * (group.x * GDM_EMBEDDING_THREADS + index);
  if (at >= params.columns) return;
  MatrixRow<W> row;
  matrix_place(row, weight, scales, biases, uint(ids[group.y]), at, params.columns);
  Embedding<T, W, IsPacked<W>::value>::put(out + ulong(group.y) * params.outRowStride, row, at, params.columns);
}

// Names: gd_embedding_<T>_<W>, W a float dtype or what unpacks, such as affine4.
GDM_INSTANTIATE_TW(gd_embedding)

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



METAL_FUNC float gate_decay(float gate, float aLog, float dtBias, float bound) {
  if (GATE_FORM == GDM_GATE_DECAY) return gate;
  if (GATE_FORM == GDM_GATE_LOG) return gd_exp(gate);
  if (GATE_FORM == GDM_GATE_NEG_LOG) return gd_exp(-gate);
  float x = gate + dtBias;
  if (GATE_FORM == GDM_GATE_RAW) return gd_exp(-(gd_exp(aLog) * gd_softplus(x)));
  if (GATE_FORM == GDM_GATE_RAW_SSM) return gd_exp(aLog * gd_softplus(x));
  return gd_exp(bound * gd_sigmoid(gd_exp(aLog) * x));
}

// Reads what the form needs: gate at gateAt, A_log of the head, dt_bias at biasAt.
METAL_FUNC float gate_read(device const ushort* gate, ulong gateAt, device const ushort* aLog, uint head,
                       device const ushort* dtBias, uint biasAt, float bound) {
  bool raw = GATE_FORM == GDM_GATE_RAW || GATE_FORM == GDM_GATE_RAW_SSM || GATE_FORM == GDM_GATE_RAW_BOUNDED;
  float g = read_any(gate, gateAt, GATE_DTYPE);
  float a = raw ? read_any(aLog, head, A_LOG_DTYPE) : 0.0f;
  float b = raw ? read_any(dtBias, biasAt, DT_BIAS_DTYPE) : 0.0f;
  return gate_decay(g, a, b, bound);
}

METAL_FUNC float beta_read(device const ushort* beta, ulong at) {
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
// strides in elements, any length. weight [length]: NORM_WEIGHT_DTYPE. ALIGNED_ROWS: the length is a multiple of 4 and
// every row of all four begins at a multiple of four elements' bytes.
//
// Grid: (ceil(rows / GDM_NORM_ROWS)) threadgroups of GDM_NORM_THREADS: one simdgroup a row, row = token heads + head.
// 1. Each lane sums the squares of its elements, four neighbours at a time, and keeps the first four or, NORM_PARTS = 2,
//    eight in registers. NORM_PARTS is 1 for lengths to 128.
// 2. The lanes combine them.   3. Each lane writes its elements.
// Formula and order of the sum: norm.h. Function constants: NORM_SIGMOID, NORM_GATE_FIRST, NORM_X_F32,
// NORM_WEIGHT_DTYPE, OUT_F32, ALIGNED_ROWS, NORM_PARTS.
#line 1 "shaders/norm.h"
// The gated RMS norm of one row, shared by norm.metal and step.metal; its sum is rms_norm.metal's, too.
//
//   norm then gate  weight x rsqrt(mean x^2 + eps) act(z)
//   gate then norm  weight u rsqrt(mean u^2 + eps), u = x act(z)          act: silu or sigmoid
// (RMS norm: Zhang and Sennrich 2019. The first order is Gated DeltaNet's output norm, the second Mamba-2's.)
//
// The sum of squares of a row is one simdgroup's: lane l adds elements 4 (l + 32 i) + {0, 1, 2, 3}, i = 0, 1, ..., in
// ascending order by fma, then lanes add by xor 1, 2, 4, 8, 16. The order depends on the row's length alone.
#ifndef GATED_DELTA_SHADERS_NORM_H
#define GATED_DELTA_SHADERS_NORM_H



METAL_FUNC float norm_gate(float z) { return NORM_SIGMOID ? gd_sigmoid(z) : gd_silu(z); }

// What the norm is taken of.
METAL_FUNC float norm_operand(float x, float gate) { return NORM_GATE_FIRST ? x * gate : x; }

// The first element of part i of this lane.
METAL_FUNC uint norm_element(uint lane, uint i) { return 4 * (lane + GDM_SIMD_LANES * i); }

METAL_FUNC float norm_squares(float sum, float4 u, uint at, uint length) {
  GDM_UNROLL for (uint j = 0; j < 4; ++j) {
    if (ALIGNED_ROWS || at + j < length) sum = fma(u[j], u[j], sum);
  }
  return sum;
}

METAL_FUNC float4 norm_weights(device const ushort* weight, uint at, uint length) {
  if (ALIGNED_ROWS && NORM_WEIGHT_DTYPE == GDM_F32) {
    return at < length ? *(device const float4*)((device const float*)weight + at) : float4(0.0f);
  }
  float4 v = float4(0.0f);
  GDM_UNROLL for (uint j = 0; j < 4; ++j) {
    if (at + j < length) v[j] = read_any(weight, at + j, NORM_WEIGHT_DTYPE);
  }
  return v;
}

// From a lane's sum of squares to 1 / rms of the row, in every lane. Every lane of the simdgroup must call it.
METAL_FUNC float norm_inverse(float sum, uint length, float epsilon) {
  sum += simd_shuffle_xor(sum, ushort(1));
  sum += simd_shuffle_xor(sum, ushort(2));
  sum += simd_shuffle_xor(sum, ushort(4));
  sum += simd_shuffle_xor(sum, ushort(8));
  sum += simd_shuffle_xor(sum, ushort(16));
  return gd_rsqrt(precise::divide(sum, float(length)) + epsilon);
}

// `gate` is norm_gate(z), which can be had before the sum is.
METAL_FUNC float norm_result(float x, float gate, float inverse, float weight) {
  float y = (norm_operand(x, gate) * inverse) * weight;
  return NORM_GATE_FIRST ? y : y * gate;
}

#endif

#line 14 "shaders/norm.metal"

METAL_FUNC float4 norm_gates(float4 z) {
  float4 gates = float4(0.0f);
  GDM_UNROLL for (uint j = 0; j < 4; ++j) gates[j] = norm_gate(z[j]);
  return gates;
}

METAL_FUNC float4 norm_operands(float4 x, float4 gates) {
  float4 u = float4(0.0f);
  GDM_UNROLL for (uint j = 0; j < 4; ++j) u[j] = norm_operand(x[j], gates[j]);
  return u;
}

METAL_FUNC float4 norm_results(float4 x, float4 gates, float inverse, float4 w) {
  float4 y = float4(0.0f);
  GDM_UNROLL for (uint j = 0; j < 4; ++j) y[j] = norm_result(x[j], gates[j], inverse, w[j]);
  return y;
}

template <typename T>
[[max_total_threads_per_threadgroup(GDM_NORM_THREADS)]]
kernel void gd_norm(device const T* x [[buffer(0)]],
                    device const T* z [[buffer(1)]],
                    device const ushort* weight [[buffer(2)]],
                    device T* out [[buffer(3)]],
                    constant GDMNorm& params [[buffer(4)]],
                    uint group [[threadgroup_position_in_grid]],
                    uint index [[thread_index_in_threadgroup]]) {
  constexpr uint held = 2;
  uint lane = index % GDM_SIMD_LANES;
  uint row = group * GDM_NORM_ROWS + index / GDM_SIMD_LANES;
  if (row >= params.rows) return;  // whole simdgroups
  uint token = row / params.heads;
  uint head = row - token * params.heads;
  uint length = params.length;
  ulong xAt = ulong(token) * params.xTokenStride + ulong(head) * params.xHeadStride;
  ulong outAt = ulong(token) * params.outTokenStride + ulong(head) * params.outHeadStride;
  device const T* xRow = wide_row(x, xAt, NORM_X_F32);
  device const T* zRow = z + (ulong(token) * params.zTokenStride + ulong(head) * params.zHeadStride);
  device T* outRow = wide_row(out, outAt, OUT_F32);

  float4 xs[held];
  float4 gs[held];
  float4 ws[held];
  GDM_UNROLL for (uint i = 0; i < held; ++i) {
    uint at = norm_element(lane, i);
    if (i < NORM_PARTS) {
      xs[i] = read_four(xRow, at, length, NORM_X_F32);
      gs[i] = read_four(zRow, at, length, false);
      ws[i] = norm_weights(weight, at, length);
    }
  }
  float sum = 0.0f;
  GDM_UNROLL for (uint i = 0; i < held; ++i) {
    if (i < NORM_PARTS) {
      gs[i] = norm_gates(gs[i]);
      sum = norm_squares(sum, norm_operands(xs[i], gs[i]), norm_element(lane, i), length);
    }
  }
  if (NORM_PARTS == held) {
    for (uint at = norm_element(lane, held); at < length; at += 4 * GDM_SIMD_LANES) {
      float4 gates = norm_gates(read_four(zRow, at, length, false));
      sum = norm_squares(sum, norm_operands(read_four(xRow, at, length, NORM_X_F32), gates), at, length);
    }
  }
  float inverse = norm_inverse(sum, length, params.epsilon);
  GDM_UNROLL for (uint i = 0; i < held; ++i) {
    if (i < NORM_PARTS) {
      write_four(outRow, norm_element(lane, i), length, norm_results(xs[i], gs[i], inverse, ws[i]), OUT_F32);
    }
  }
  if (NORM_PARTS == held) {
    for (uint at = norm_element(lane, held); at < length; at += 4 * GDM_SIMD_LANES) {
      float4 xi = read_four(xRow, at, length, NORM_X_F32);
      float4 gates = norm_gates(read_four(zRow, at, length, false));
      write_four(outRow, at, length, norm_results(xi, gates, inverse, norm_weights(weight, at, length)), OUT_F32);
    }
  }
}

// Names: gd_norm_<T>.
GDM_INSTANTIATE_T(gd_norm)

#line 1 "shaders/projection.metal"
// Linear projection: out[r, o] = (residual[r, o] +) sum over i of x[r, i] weight[o, i], in float32.
//
// x [rows, inputs] T, out [rows, outputs] T or f32 (OUT_F32), residual likewise, row strides in elements; weight
// [outputs, inputs]: matrix.h. ALIGNED_ROWS: inputs are a multiple of 8, and every row of x (and of a weight of floats)
// begins at a multiple of 16 bytes.
//
// The order of a sum, for one row as for many and for any way to store weights (a quantised one
// is w = fma(q, scale, bias) first, and eight of them are a whole number of bytes at any width):
//   1. chain c = 0 .. 31 takes elements 8 (c + 32 i) + 0 .. 7, i = 0, 1, ..., in ascending order by fma, from 0
//   2. chains add by xor 1, 2, 4, 8, 16 of their number
// It depends on `inputs` alone. Here a chain is a lane; in packed_row.h, which the host takes for one row of packed weights
// and many outputs (PACKED_ROW), a lane has four. The residual is added to the whole sum.
//
// Grid: (ceil(rows / TILE_ROWS), ceil(outputs / (4 OUTS))) threadgroups of GDM_PROJECT_THREADS, rows first, so that
// threadgroups that run together read the same weights. A simdgroup makes a tile of TILE_ROWS rows (1, 2, 4 or 8) by
// OUTS outputs (4, or what Tile says), so that a weight read once serves all rows; past the edge it repeats the last row or
// output, unstored. What a lane reads of weights, 8 neighbours of each output, in one turn or, where they are few bytes, in
// several, it asks for before it uses the first. Tiles of eight rows take 150 registers and more, those of four of packed
// weights 143: the host uses smaller ones where the pipeline then has few threads, which is why there is no bound here.
// Function constants: OUT_F32, ALIGNED_ROWS, TILE_ROWS, PACKED_ROW, MATRIX_GROUP, MATRIX_DTYPE.
#line 1 "shaders/packed_row.h"
// One row of x by packed weights, for projection.metal: the same sums, spread otherwise.
//
// Instructions are what there is least of here, a number of 4 bits being half a byte: so x is widened once for a
// threadgroup, a scale and a bias serve 32 numbers, and numbers are read as whole words. GDM_PACKED_LANES = 8 lanes have an
// output, or GDM_PACKED_OUTPUTS of them: lane l has the chains 4 l .. 4 l + 3 of each, that is 32 neighbouring elements
// of every turn of 256. Chains add by xor 1 and 2 in a lane and by xor
// 4, 8, 16 between lanes.
//
// x goes through threadgroup memory as float4s, GDM_PACKED_SPAN elements at a time: quarters 2 c and 2 c + 1 of eight are
// apart by a pitch that keeps neighbouring lanes in different banks. A lane's numbers for GDM_PACKED_TURNS turns are asked
// for before those that it asked for last are used.
// Grid: (1, ceil(outputs / (GDM_PROJECT_THREADS / 8 GDM_PACKED_OUTPUTS))) threadgroups.
#ifndef GATED_DELTA_SHADERS_PACKED_ROW_H
#define GATED_DELTA_SHADERS_PACKED_ROW_H



enum : uint {
  GDM_PACKED_TURN = 32 * GDM_PACKED_LANES,
  GDM_PACKED_SPAN = 2048,
  GDM_PACKED_PITCH = GDM_PACKED_SPAN / 32 + 1,
  GDM_PACKED_MEMORY = 8 * GDM_PACKED_PITCH
};

// What a lane asks for together, of one output.
template <typename W> struct Turns {
  Words<W> words[GDM_PACKED_TURNS];
};

// The turns from `ahead` of a row's place, whose column is `at`; nothing beyond the last.
template <typename W>
METAL_FUNC void turns_fetch(thread Turns<W>& turns, thread const MatrixRow<W>& row, uint ahead, uint at, uint inputs) {
  GDM_UNROLL for (uint turn = 0; turn < GDM_PACKED_TURNS; ++turn) {
    uint further = turn * GDM_PACKED_TURN;
    if (at + further < inputs) words_fetch(turns.words[turn], row, ahead + further);
  }
}

template <typename T>
METAL_FUNC void packed_stage(threadgroup float4* memory, device const T* x, uint first, uint inputs, uint index) {
  GDM_UNROLL for (uint j = 0; j < GDM_PACKED_SPAN / 8 / GDM_PROJECT_THREADS; ++j) {
    uint at = 8 * (index + j * GDM_PROJECT_THREADS);
    if (first + at < inputs) {
      Raw<T> read;
      Eight v;
      MatrixRow<T> from = {x + first + at};
      matrix_fetch(read, from, 0, 0, 8);
      matrix_widen(v, read, 0);
      memory[at % 32 / 4 * GDM_PACKED_PITCH + at / 32] = v.lower;
      memory[(at % 32 / 4 + 1) * GDM_PACKED_PITCH + at / 32] = v.upper;
    }
  }
}

// The chains of all outputs of a lane.
struct PackedSums {
  float chain[4 * GDM_PACKED_OUTPUTS];
};

template <typename W>
METAL_FUNC void packed_add(thread PackedSums& sums, thread const Turns<W>* turns, threadgroup const float4* memory, uint at,
                           uint inputs, uint unit) {
  GDM_UNROLL for (uint turn = 0; turn < GDM_PACKED_TURNS; ++turn) {
    uint column = at + turn * GDM_PACKED_TURN;
    if (column < inputs) {
      threadgroup const float4* block = memory + column % GDM_PACKED_SPAN / 32;
      GDM_UNROLL for (uint c = 0; c < 4; ++c) {
        float4 lower = block[2 * c * GDM_PACKED_PITCH];
        float4 upper = block[(2 * c + 1) * GDM_PACKED_PITCH];
        GDM_UNROLL for (uint b = 0; b < GDM_PACKED_OUTPUTS; ++b) {
          Eight w;
          words_widen(w, turns[b].words[turn], 8 * c, unit);
          sums.chain[4 * b + c] = chain4(chain4(sums.chain[4 * b + c], lower, w.lower), upper, w.upper);
        }
      }
    }
  }
}

template <typename T, typename W>
METAL_FUNC void packed_row(device const T* x, device const ushort* weight, device const ushort* scales,
                           device const ushort* biases, device const T* residual, device T* out,
                           constant GDMProject& params, threadgroup float4* memory, uint group, uint index) {
  constexpr uint step = GDM_PACKED_TURNS * GDM_PACKED_TURN;
  static_assert(GDM_PACKED_SPAN % (2 * step) == 0, "x is put into threadgroup memory between two steps");
  uint lane = index % GDM_PACKED_LANES;
  uint firstOutput = (group * (GDM_PROJECT_THREADS / GDM_PACKED_LANES) + index / GDM_PACKED_LANES) * GDM_PACKED_OUTPUTS;
  uint inputs = params.inputs;
  MatrixRow<W> row[GDM_PACKED_OUTPUTS];
  Turns<W> now[GDM_PACKED_OUTPUTS];
  Turns<W> next[GDM_PACKED_OUTPUTS];
  PackedSums sums;
  GDM_UNROLL for (uint b = 0; b < GDM_PACKED_OUTPUTS; ++b) {
    matrix_place(row[b], weight, scales, biases, min(firstOutput + b, params.outputs - 1), 32 * lane, inputs);
    turns_fetch(now[b], row[b], 0, 32 * lane, inputs);
    GDM_UNROLL for (uint c = 0; c < 4; ++c) sums.chain[4 * b + c] = 0.0f;
  }
  for (uint first = 0; first < inputs; first += 2 * step) {
    uint at = first + 32 * lane;
    GDM_UNROLL for (uint b = 0; b < GDM_PACKED_OUTPUTS; ++b) turns_fetch(next[b], row[b], step, at + step, inputs);
    if (first % GDM_PACKED_SPAN == 0) {
      if (first > 0) threadgroup_barrier(mem_flags::mem_threadgroup);
      packed_stage(memory, x, first, inputs, index);
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    packed_add(sums, now, memory, at, inputs, params.unit);
    GDM_UNROLL for (uint b = 0; b < GDM_PACKED_OUTPUTS; ++b) {
      turns_fetch(now[b], row[b], 2 * step, at + 2 * step, inputs);
      matrix_move(row[b], 2 * step);
    }
    packed_add(sums, next, memory, at + step, inputs, params.unit);
  }
  GDM_UNROLL for (uint b = 0; b < GDM_PACKED_OUTPUTS; ++b) {
    thread const float* chain = sums.chain + 4 * b;
    float total = (chain[0] + chain[1]) + (chain[2] + chain[3]);
    total += simd_shuffle_xor(total, ushort(1));
    total += simd_shuffle_xor(total, ushort(2));
    total += simd_shuffle_xor(total, ushort(4));
    if (lane == b && firstOutput + b < params.outputs) project_store(out, residual, params, 0, firstOutput + b, total);
  }
}

// For W that are packed; of others nothing is compiled.
template <typename T, typename W, uint PACKED> struct PackedRow {
  static METAL_FUNC void run(device const T* x, device const ushort* weight, device const ushort* scales,
                             device const ushort* biases, device const T* residual, device T* out,
                             constant GDMProject& params, threadgroup float4* memory, uint group, uint index) {
    packed_row<T, W>(x, weight, scales, biases, residual, out, params, memory, group, index);
  }
};
template <typename X, typename W> struct PackedRow<X, W, 0> {
  static METAL_FUNC void run(device const X*, device const ushort*, device const ushort*, device const ushort*,
                             device const X*, device X*, constant GDMProject&, threadgroup float4*, uint, uint) {}
};

#endif

#line 22 "shaders/projection.metal"

// Outputs of a simdgroup for one row, and turns whose weights are asked for together: for one row, for tiles of four and of
// eight, and for tiles of two. The host knows the outputs, too.
template <typename W, uint PACKED> struct Tile {
  enum : uint { outputs = GDM_PROJECT_OUTPUTS_1, turns = 2, many = 2, fewest = 2 };
};
template <> struct Tile<float, 0> {
  enum : uint { outputs = GDM_PROJECT_TILE, turns = 1, many = 1, fewest = 1 };
};
template <typename W> struct Tile<W, 1> {
  enum : uint { outputs = 1, turns = GDM_PROJECT_TURNS, many = GDM_PROJECT_TURNS, fewest = 1 };
};

template <typename T, typename W>
kernel void gd_project(device const T* x [[buffer(0)]],
                       device const ushort* weight [[buffer(1)]],
                       device const ushort* scales [[buffer(2)]],
                       device const ushort* biases [[buffer(3)]],
                       device const T* residual [[buffer(4)]],
                       device T* out [[buffer(5)]],
                       constant GDMProject& params [[buffer(6)]],
                       uint2 group [[threadgroup_position_in_grid]],
                       uint index [[thread_index_in_threadgroup]]) {
  threadgroup float4 memory[GDM_PACKED_MEMORY];
  constexpr uint packed = IsPacked<W>::value;
  typedef Tile<W, packed> Shape;
  if (packed == 1 && TILE_ROWS == 1 && PACKED_ROW) {
    PackedRow<T, W, packed>::run(x, weight, scales, biases, residual, out, params, memory, group.y, index);
    return;
  }
  constexpr uint tile = GDM_PROJECT_TILE;
  constexpr uint simdgroups = GDM_PROJECT_THREADS / GDM_SIMD_LANES;
  constexpr uint step = 8 * GDM_SIMD_LANES;
  constexpr uint most = Shape::many;
  uint outs = TILE_ROWS == 1 ? Shape::outputs : tile;
  uint turns = TILE_ROWS == 1 ? Shape::turns : TILE_ROWS == 2 ? Shape::fewest : Shape::many;
  uint lane = index % GDM_SIMD_LANES;
  uint firstOutput = (group.y * simdgroups + index / GDM_SIMD_LANES) * outs;
  uint firstRow = group.x * TILE_ROWS;
  uint inputs = params.inputs;

  MatrixRow<T> xRow[GDM_PROJECT_ROWS];
  MatrixRow<W> weightRow[tile];
  float sum[GDM_PROJECT_ROWS * tile];
  GDM_UNROLL for (uint b = 0; b < tile; ++b) {
    if (b < outs) {
      matrix_place(weightRow[b], weight, scales, biases, min(firstOutput + b, params.outputs - 1), 8 * lane, inputs);
    }
  }
  GDM_UNROLL for (uint a = 0; a < GDM_PROJECT_ROWS; ++a) {
    xRow[a].row = x + (ulong(min(firstRow + a, params.rows - 1)) * params.xRowStride + 8 * lane);
    GDM_UNROLL for (uint b = 0; b < tile; ++b) sum[a * tile + b] = 0.0f;
  }
  for (uint i = 8 * lane; i < inputs; i += turns * step) {
    Raw<W> raw[most][tile];
    Raw<T> one[most];  // of one row: asked for with the weights
    GDM_UNROLL for (uint turn = 0; turn < most; ++turn) {
      uint at = i + turn * step;
      if (turn < turns && at < inputs) {
        GDM_UNROLL for (uint b = 0; b < tile; ++b) {
          if (b < outs) matrix_fetch(raw[turn][b], weightRow[b], turn * step, at, inputs);
        }
        if (TILE_ROWS == 1) matrix_fetch(one[turn], xRow[0], turn * step, at, inputs);
      }
    }
    GDM_UNROLL for (uint turn = 0; turn < most; ++turn) {
      uint at = i + turn * step;
      if (turn < turns && at < inputs) {
        Eight w[tile];
        GDM_UNROLL for (uint b = 0; b < tile; ++b) {
          if (b < outs) matrix_widen(w[b], raw[turn][b], GDM_PROJECT_UNIT);
        }
        GDM_UNROLL for (uint a = 0; a < GDM_PROJECT_ROWS; ++a) {
          if (a < TILE_ROWS) {
            Raw<T> read = one[turn];
            Eight v;
            if (TILE_ROWS != 1) matrix_fetch(read, xRow[a], turn * step, at, inputs);
            matrix_widen(v, read, GDM_PROJECT_UNIT);
            GDM_UNROLL for (uint b = 0; b < tile; ++b) {
              if (b < outs) sum[a * tile + b] = chain8(sum[a * tile + b], v, w[b], at, inputs);
            }
          }
        }
      }
    }
    GDM_UNROLL for (uint b = 0; b < tile; ++b) {
      if (b < outs) matrix_move(weightRow[b], turns * step);
    }
    GDM_UNROLL for (uint a = 0; a < GDM_PROJECT_ROWS; ++a) {
      if (a < TILE_ROWS) matrix_move(xRow[a], turns * step);
    }
  }

  // The tree, for all sums at once: where two are left, a lane keeps the one of its bit and gives the other away. In the
  // end lane n has sum n, of row n / 4 and output n % 4.
  uint sums = TILE_ROWS * tile;
  GDM_UNROLL for (uint bit = 0; bit < 5; ++bit) {
    ushort other = ushort(1u << bit);
    bool upper = (lane >> bit & 1) != 0;
    if (sums >> bit > 1) {
      GDM_UNROLL for (uint k = 0; k < GDM_PROJECT_ROWS * tile / 2; ++k) {
        if (k < sums >> (bit + 1)) {
          float kept = upper ? sum[2 * k + 1] : sum[2 * k];
          float given = upper ? sum[2 * k] : sum[2 * k + 1];
          sum[k] = kept + simd_shuffle_xor(given, other);
        }
      }
    } else {
      sum[0] += simd_shuffle_xor(sum[0], other);
    }
  }
  uint row = firstRow + lane / tile;
  uint output = firstOutput + lane % tile;
  if (lane < sums && lane % tile < outs && row < params.rows && output < params.outputs) {
    project_store(out, residual, params, row, output, sum[0]);
  }
}

// Names: gd_project_<T>_<W>, W a float dtype or what unpacks, such as affine4.
GDM_INSTANTIATE_TW(gd_project)

#line 1 "shaders/recurrence_commit.metal"
// Commit of a verified draft: applies the first counts[s] records of each sequence to its state.
//
// recordKey [tokens, Hk, Dk], recordDelta [tokens, Hv, Dv], f32: what decode or prefill kept with RECORD; decay
// [tokens, Hv] or [tokens, Hv, Dk] (GATE_PER_KEY), f32: the buffer that gates.metal wrote for them. All contiguous.
// state, staged, readSlots, writeSlots: as in recurrence_decode.metal. cuSeqlens [n + 1]: the verify's.
//
// Grid: (ceil(Dv / rows), Hv, n) threadgroups, as in recurrence_decode.metal.
// For each record: S <- a S, S <- S + delta k^T, the operations of a step in a step's order: equal bits (rows.h).
// Function constants: TILED_HEADS, GATE_PER_KEY.


template <typename S, uint G>
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
  constexpr uint L = DecodeShape<S, G>::lanes;
  constexpr uint R = DecodeShape<S, G>::rows;
  constexpr uint apart = DecodeShape<S, G>::threads / L;
  uint keyHeads = params.keyHeads;
  uint valueHeads = params.valueHeads;
  uint keyDim = G < 64 ? 4 * G : params.keyDim;
  uint valueDim = params.valueDim;
  uint lane = index % L;
  uint valueHead = group.y;
  uint sequence = group.z;
  uint keyHead = key_head_of(valueHead, keyHeads, valueHeads);
  uint headRow = valueHead * valueDim;
  RowSet set = {headRow + group.x * (apart * R) + index / L, apart, decode_limit<S, G>(headRow + valueDim),
                lane};
  States<S> states = {state, staged, state, (device const GDMStore*)staged, 0, 0, valueHeads * valueDim, keyDim};

  int count = counts[sequence];
  int readSlot = readSlots[sequence];
  int writeSlot = writeSlots[sequence];
  if (count == 0) {
    if (writeSlot >= 0 && writeSlot != readSlot) states_move<S, L, G, R>(states, readSlot, state, uint(writeSlot), set);
    return;
  }
  Rows<L, G, R> s;
  states_read(s, states, readSlot, set);
  for (int t = 0; t < count; ++t) {
    ulong token = ulong(cuSeqlens[sequence] + t);
    Row<L, G> k;
    row_load<float>(k, recordKey + (token * keyHeads + keyHead) * keyDim, lane, keyDim);
    ulong pair = token * valueHeads + valueHead;
    if (GATE_PER_KEY) {
      Row<L, G> decay;
      row_load<float>(decay, gate + pair * keyDim, lane, keyDim);
      rows_scale(s, decay);
    } else {
      rows_scale(s, gate[pair]);
    }
    GDM_UNROLL for (uint r = 0; r < R; ++r) {
      row_add(s.row[r], recordDelta[pair * valueDim + (row_of(set, r) - headRow)], k, lane, keyDim);
    }
  }
  if (writeSlot >= 0) states_write(states, state, uint(writeSlot), s, set);
}

// Names: gd_commit_<S>_<key dim>; kany serves any multiple of 8 up to 256.
GDM_INSTANTIATE_TK(gd_commit)

#line 1 "shaders/recurrence_decode.metal"
// Gated delta rule, decode and short sequences: every lane group walks its sequence's tokens on its own.
//
// query, key [tokens, Hk, Dk] T; value [tokens, Hv, Dv] T; strides of tokens and heads in elements, multiples of 8.
// gate [tokens, Hv] f32 decay in [0, 1], or [tokens, Hv, Dk] (GATE_PER_KEY); beta [tokens, Hv] f32. RESOLVE_GATES: gate,
// beta, aLog [Hv] and dtBias [Hv] as gates.metal takes them, one gate a head.
// state [slots, Hv, Dv, Dk] S, read and written in place: one argument, since kernel arguments must not overlap.
// staged [copies, Hv, Dv, Dk] S: copies of slots that one sequence reads and another writes.
// out [tokens, Hv, Dv] T, or f32 (OUT_F32).
// cuSeqlens [n + 1]; readSlots, writeSlots [n] (GDM_SLOT_*; a write slot of -1 drops the final state). SMALL_BATCH: all
// three in `batch`, a constant of the dispatch, since no state can be asked for before its slot is known.
// HAS_STORES: sequence s stores its state as stores[storeOffsets[s] .. storeOffsets[s + 1] - 1] say, into the pool or
// into snapshots [entries, Hv, Dv, Dk] S. RECORD: recordKey [tokens, Hk, Dk] and recordDelta [tokens, Hv, Dv], f32.
//
// Grid: (ceil(Dv / rows), Hv, n) threadgroups; rows, threads and lanes by the state's dtype: GDM_DECODE_* in params.h.
// States of 16 bits have a form of more rows (TILE_ROWS), for value dims that are whole threadgroups of them: it takes more
// registers, and the host has the other where the pipeline then has few threads, which is why no bound is put on them. A
// lane group holds several rows, so that a key and a query are loaded and normalised once for them, and keeps as many
// loads under way as a GPU needs to be at the speed of its memory.
//
// 1. Ask for the rows of the state (zeros where the slot says so).
// 2. For each token: load and normalise its key and query (each lane group for itself: no barrier, the same bits as
//    when prefill normalises them once), decay the rows, update them, write their outputs.
// 3. Write the rows to the write slot. A sequence of no tokens moves its state there as bits.
//
// Formula: rows.h. A row is read and written by the same lanes, so read slot = write slot needs no copy.
// Function constants: TILED_HEADS, GATE_PER_KEY, QK_NORM, OUT_F32, HAS_STORES, RECORD, SMALL_BATCH, RESOLVE_GATES, TILE_ROWS;
// where gates are resolved, those of gates.metal.



// What the kernel is given, as its parts take it.
template <typename T, typename S> struct Decode {
  Recurrence<T, S> with;
  Records records;
  device const int* cuSeqlens;
  device const ushort* gate;
  device const ushort* beta;
  device const ushort* aLog;
  device const ushort* dtBias;
};

// A threadgroup's share, R rows a lane group.
template <uint R, uint G, typename T, typename S>
METAL_FUNC void decode_rows(thread const Decode<T, S>& given, constant GDMRecurrence& params, constant GDMBatch& batch,
                            uint3 group, uint index) {
  constexpr uint L = DecodeShape<S, G>::lanes;
  constexpr uint apart = DecodeShape<S, G>::threads / L;
  uint keyHeads = params.keyHeads;
  uint valueHeads = params.valueHeads;
  uint keyDim = G < 64 ? 4 * G : params.keyDim;
  uint valueDim = params.valueDim;
  uint lane = index % L;
  uint firstRow = group.x * (apart * R) + index / L;
  uint valueHead = group.y;
  uint sequence = group.z;
  uint keyHead = key_head_of(valueHead, keyHeads, valueHeads);
  bool recordsKey = firstRow == 0 && is_first_of_key_head(valueHead, keyHeads, valueHeads);

  int readSlot = SMALL_BATCH ? batch.readSlots[sequence] : given.with.readSlots[sequence];
  int writeSlot = SMALL_BATCH ? batch.writeSlots[sequence] : given.with.writeSlots[sequence];
  int begin = SMALL_BATCH ? batch.starts[sequence] : given.cuSeqlens[sequence];
  int count = (SMALL_BATCH ? batch.starts[sequence + 1] : given.cuSeqlens[sequence + 1]) - begin;
  uint headRow = valueHead * valueDim;
  uint limit = R == DecodeShape<S, G>::rows ? decode_limit<S, G>(headRow + valueDim) : 0;
  RowSet set = {headRow + firstRow, apart, limit, lane};
  States<S> states = states_of(given.with, sequence, valueHeads * valueDim, keyDim);
  if (HAS_STORES || count == 0) states_begin<S, L, G, R>(states, readSlot, writeSlot, count == 0, set);
  if (count == 0) return;

  Rows<L, G, R> s;
  states_read(s, states, readSlot, set);
  for (int t = 0; t < count; ++t) {
    if (HAS_STORES) states_store(states, t, s, set);
    ulong token = ulong(begin + t);
    Row<L, G> k;
    Row<L, G> q;
    row_load<T>(k, key_of(given.with, params, token, keyHead), lane, keyDim);
    row_load<T>(q, query_of(given.with, params, token, keyHead), lane, keyDim);
    device const T* values = value_of(given.with, params, token, valueHead);
    Step<L, G, R> step;
    GDM_UNROLL for (uint r = 0; r < R; ++r) step.value[r] = float(values[row_of(set, r) - headRow]);
    ulong gateAt = gate_at(params, token, valueHead);
    ulong betaAt = beta_at(params, token, valueHead);
    float b = RESOLVE_GATES ? beta_read(given.beta, betaAt) : ((device const float*)given.beta)[betaAt];
    float a = 1.0f;
    if (RESOLVE_GATES) a = gate_read(given.gate, gateAt, given.aLog, valueHead, given.dtBias, valueHead, params.bound);
    else if (!GATE_PER_KEY) a = ((device const float*)given.gate)[gateAt];
    if (sizeof(S) == 2) {
      // As many rows as these have are faster so.
      row_normalise(k, keyDim, params.epsilon, 1.0f);
      row_normalise(q, keyDim, params.epsilon, params.scale);
    } else {
      rows_normalise(k, q, lane, keyDim, params.epsilon, params.scale);
    }
    if (GATE_PER_KEY) {
      Row<L, G> decay;
      row_load<float>(decay, (device const float*)given.gate + gateAt, lane, keyDim);
      rows_scale(s, decay);
    } else {
      rows_scale(s, a);
    }
    rows_step(s, k, q, step, b, lane, keyDim);
    ulong outAt = out_at(params, token, valueHead);
    GDM_UNROLL for (uint r = 0; r < R; ++r) {
      if (lane == 0 && row_exists(set, r)) {
        uint row = row_of(set, r) - headRow;
        write_wide(given.with.out, outAt + row, step.out[r], OUT_F32);
        if (RECORD) given.records.delta[(token * valueHeads + valueHead) * valueDim + row] = step.delta[r];
      }
    }
    if (RECORD && recordsKey) {
      row_store<float>(given.records.key + (token * keyHeads + keyHead) * keyDim, k, lane, keyDim);
    }
  }

  if (HAS_STORES) states_store(states, count, s, set);
  if (writeSlot >= 0) states_write(states, given.with.state, uint(writeSlot), s, set);
}

template <typename T, typename S, uint G>
kernel void gd_decode(device const T* query [[buffer(0)]],
                      device const T* key [[buffer(1)]],
                      device const T* value [[buffer(2)]],
                      device const ushort* gate [[buffer(3)]],
                      device const ushort* beta [[buffer(4)]],
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
                      device const ushort* aLog [[buffer(16)]],
                      device const ushort* dtBias [[buffer(17)]],
                      constant GDMRecurrence& params [[buffer(18)]],
                      constant GDMBatch& batch [[buffer(19)]],
                      uint3 group [[threadgroup_position_in_grid]],
                      uint index [[thread_index_in_threadgroup]]) {
  Decode<T, S> given = {{query, key, value, out, state, staged, snapshots, readSlots, writeSlots, storeOffsets, stores},
                        {recordKey, recordDelta},
                        cuSeqlens,
                        gate,
                        beta,
                        aLog,
                        dtBias};
  if (sizeof(S) == 2 && TILE_ROWS == DecodeShape<S, G>::most) {
    decode_rows<DecodeShape<S, G>::most, G>(given, params, batch, group, index);
  } else {
    decode_rows<DecodeShape<S, G>::rows, G>(given, params, batch, group, index);
  }
}

// Names: gd_decode_<T>_<S>_<key dim>; kany serves any multiple of 8 up to 256.
GDM_INSTANTIATE_TSK(gd_decode)

#line 1 "shaders/recurrence_prefill.metal"
// Gated delta rule, long sequences: blocks of tokens staged in threadgroup memory, then walked in order.
//
// Tensors, slots, stores and records as in recurrence_decode.metal, with gates always resolved, and the same bits: every
// sum has the order of rows.h. What differs is where keys and queries come from: a threadgroup of 32 rows loads and
// normalises each key and query once, instead of once a lane group.
//
// Grid: (ceil(Dv / 32), Hv, n) threadgroups of GDM_PREFILL_THREADS, a row GDM_PREFILL_LANES. The last threadgroup of a
// head may have groups beyond Dv: they hold zeros and write nothing, so that every lane takes part in every step.
//
// A block is B = GDM_PREFILL_BLOCK tokens. Threadgroup memory, in floats:
//   keys [B, Dk] | queries [B, Dk] | decays [B, Dk or 1] | betas [B] | values [B, 32] | outputs [B, 32]
// that is B (2 Dk + (GATE_PER_KEY ? Dk : 1) + 1 + 64), 10.3 KB for Dk = 128: three threadgroups fit a core's 32 KB. The
// host passes it, rounded up to 16 bytes; at most 26688 bytes (Dk = 256, GATE_PER_KEY).
//
// A part of the tokens, [partFirst, partFirst + partTokens) of each sequence, is a dispatch of its own where an op would
// keep a GPU to itself for too long. PARTS: the state goes from part to part in `carried` [n, Hv, Dv, Dk] f32, whatever
// the state's dtype, so that the cuts change no bit.
//
// 1. Read the rows of the state into registers. Ask for the first block: sixteen lanes a key or query, one value a
//    thread, decays and betas.
// 2. For each block: (a) put what was asked for into threadgroup memory; barrier. (b) Ask for the next block into
//    registers; walk half of the tokens, leaving outputs in threadgroup memory; normalise what was asked for; walk the
//    other half; barrier. (c) Write the outputs, coalesced. OUT_AT_ONCE: walks write outputs themselves, four tokens at a
//    time, and (c) is not there; it takes more registers, and is for few threadgroups, which wait for their own steps.
// 3. Write the rows to the write slot.
//
// Function constants: TILED_HEADS, GATE_PER_KEY, QK_NORM, OUT_F32, HAS_STORES, RECORD, PARTS, OUT_AT_ONCE.


// What a thread has asked for of a block.
template <typename T, uint G> struct Asked {
  RowBits<T, GDM_PREFILL_STAGE_LANES, G> bits;  // of key or query `item`
  Row<GDM_PREFILL_STAGE_LANES, G> row;          // the same, normalised
  Row<GDM_PREFILL_STAGE_LANES, G> decay;        // of token `item`, GATE_PER_KEY
  T value;
  float gate;
  float beta;
};

// What a walk over a block reads and leaves, at this lane group's row.
template <typename T> struct Walk {
  threadgroup const float* keys;
  threadgroup const float* queries;
  threadgroup const float* decays;
  threadgroup const float* values;
  threadgroup float* outputs;
  threadgroup const float* betas;
  device T* out;
  ulong outAt;
  uint outStride;
  device float* recordDelta;
  ulong record;
  uint recordStride;
  int first;
};

// Tokens from .. end - 1; a COUNT other than 0 is their number.
template <uint COUNT, typename T, typename S, uint L, uint G>
METAL_FUNC void prefill_walk(thread States<S>& states, thread Rows<L, G, 1>& s, thread const Walk<T>& walk, uint from,
                             uint end, RowSet set) {
  uint keyDim = states.keyDim;
  uint count = COUNT > 0 ? COUNT : end - from;
  // Outputs of a known number of tokens wait in registers: a store between two tokens would keep the next one's key and
  // query from being loaded ahead of it. Every lane of a row has them all: OUT_AT_ONCE, lane i stores that of token i.
  static_assert(COUNT <= L, "a lane stores an output");
  float outputs[COUNT > 0 ? COUNT : 1];
  _Pragma("unroll 4") for (uint i = 0; i < count; ++i) {
    uint t = from + i;
    if (HAS_STORES) states_store(states, walk.first + int(t), s, set);
    Row<L, G> k;
    Row<L, G> q;
    row_load(k, walk.keys + t * keyDim, set.lane, keyDim);
    row_load(q, walk.queries + t * keyDim, set.lane, keyDim);
    if (GATE_PER_KEY) {
      Row<L, G> decay;
      row_load(decay, walk.decays + t * keyDim, set.lane, keyDim);
      rows_scale(s, decay);
    } else {
      rows_scale(s, walk.decays[t]);
    }
    Step<L, G, 1> step;
    step.value[0] = walk.values[t * GDM_PREFILL_ROWS];
    rows_step(s, k, q, step, walk.betas[t], set.lane, keyDim);
    if (set.lane == 0) {
      if (COUNT == 0 && !OUT_AT_ONCE) walk.outputs[t * GDM_PREFILL_ROWS] = step.out[0];
      if (COUNT == 0 && OUT_AT_ONCE && row_exists(set, 0)) {
        write_wide(walk.out, walk.outAt + ulong(t) * walk.outStride, step.out[0], OUT_F32);
      }
      if (RECORD && row_exists(set, 0)) walk.recordDelta[walk.record + ulong(t) * walk.recordStride] = step.delta[0];
    }
    outputs[COUNT > 0 ? i : 0] = step.out[0];
  }
  if (COUNT > 0 && !OUT_AT_ONCE && set.lane == 0) {
    GDM_UNROLL for (uint i = 0; i < (COUNT > 0 ? COUNT : 1); ++i) walk.outputs[(from + i) * GDM_PREFILL_ROWS] = outputs[i];
  }
  if (COUNT > 0 && OUT_AT_ONCE && set.lane < COUNT && row_exists(set, 0)) {
    float own = outputs[0];
    GDM_UNROLL for (uint i = 1; i < (COUNT > 0 ? COUNT : 1); ++i) own = set.lane == i ? outputs[i] : own;
    write_wide(walk.out, walk.outAt + ulong(from + set.lane) * walk.outStride, own, OUT_F32);
  }
}

template <typename T, typename S, uint G>
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
                       device float* carried [[buffer(16)]],
                       constant GDMRecurrence& params [[buffer(17)]],
                       constant GDMPart& part [[buffer(18)]],
                       threadgroup float* memory [[threadgroup(0)]],
                       uint3 group [[threadgroup_position_in_grid]],
                       uint index [[thread_index_in_threadgroup]]) {
  constexpr uint L = GDM_PREFILL_LANES;
  constexpr uint W = GDM_PREFILL_STAGE_LANES;
  constexpr uint block = GDM_PREFILL_BLOCK;
  static_assert(2 * block * W == GDM_PREFILL_THREADS, "a lane group stages one key or query");
  static_assert(block * GDM_PREFILL_ROWS == GDM_PREFILL_THREADS, "a thread stages one value");
  Recurrence<T, S> given = {query, key, value, out, state, staged, snapshots, readSlots, writeSlots, storeOffsets, stores};
  Records records = {recordKey, recordDelta};
  uint keyHeads = params.keyHeads;
  uint valueHeads = params.valueHeads;
  uint keyDim = G < 64 ? 4 * G : params.keyDim;
  uint valueDim = params.valueDim;
  uint decayDim = GATE_PER_KEY ? keyDim : 1;
  threadgroup float* keys = memory;
  threadgroup float* queries = keys + block * keyDim;
  threadgroup float* decays = queries + block * keyDim;
  threadgroup float* values = decays + block * decayDim;
  threadgroup float* outputs = values + block * GDM_PREFILL_ROWS;
  threadgroup float* betas = outputs + block * GDM_PREFILL_ROWS;

  uint lane = index % L;
  uint rowGroup = index / L;
  uint firstRow = group.x * GDM_PREFILL_ROWS;
  uint rows = min(uint(GDM_PREFILL_ROWS), valueDim - firstRow);
  uint valueHead = group.y;
  uint sequence = group.z;
  uint keyHead = key_head_of(valueHead, keyHeads, valueHeads);
  bool recordsKey = firstRow == 0 && is_first_of_key_head(valueHead, keyHeads, valueHeads);

  int begin = cuSeqlens[sequence];
  int count = cuSeqlens[sequence + 1] - begin;
  int start = PARTS ? int(part.first) : 0;
  int end = PARTS ? min(count, start + int(part.tokens)) : count;
  int readSlot = readSlots[sequence];
  int writeSlot = writeSlots[sequence];
  uint headRow = valueHead * valueDim;
  RowSet set = {headRow + firstRow + rowGroup, GDM_PREFILL_ROWS, headRow + valueDim, lane};
  States<S> states = states_of(given, sequence, valueHeads * valueDim, keyDim);
  if (start == 0 && (HAS_STORES || count == 0)) {
    states_begin<S, L, G, 1>(states, readSlot, writeSlot, count == 0, set);
  }
  if (start >= count) return;

  Rows<L, G, 1> s;
  ulong carriedAt = (ulong(sequence) * states.slotRows + row_of(set, 0)) * keyDim;
  if (!PARTS || start == 0) states_read(s, states, readSlot, set);
  else if (row_exists(set, 0)) row_load<float>(s.row[0], carried + carriedAt, lane, keyDim);
  else row_zero(s.row[0]);
  while (PARTS && HAS_STORES && states.next < states.end && stores[states.next].tokens < start) ++states.next;

  // Item i is key i for i < block, else query i - block.
  uint item = index / W;
  uint wide = index % W;
  bool isKey = item < block;
  uint slotOf = isKey ? item : item - block;
  device const T* source = isKey ? key_of(given, params, 0, keyHead) : query_of(given, params, 0, keyHead);
  uint sourceStride = isKey ? params.keyTokenStride : params.queryTokenStride;
  device const T* valueSource = value_of(given, params, 0, valueHead) + (firstRow + min(index % GDM_PREFILL_ROWS, rows - 1));
  device const float* gateSource = gate + gate_at(params, 0, valueHead);
  device const float* betaSource = beta + beta_at(params, 0, valueHead);

  Asked<T, G> asked;
  for (int first = start - int(block); first < end; first += int(block)) {
    // (a) What was asked for a block ago.
    uint tokens = 0;
    if (first >= start) {
      tokens = min(block, uint(end - first));
      if (slotOf < tokens) {
        row_store((isKey ? keys : queries) + slotOf * keyDim, asked.row, wide, keyDim);
        if (GATE_PER_KEY && isKey) row_store(decays + slotOf * keyDim, asked.decay, wide, keyDim);
        if (RECORD && recordsKey && isKey) {
          ulong at = ulong(begin + first) + slotOf;
          row_store<float>(records.key + (at * keyHeads + keyHead) * keyDim, asked.row, wide, keyDim);
        }
      }
      values[index] = float(asked.value);
      if (!GATE_PER_KEY && index < block) decays[index] = asked.gate;
      if (index < block) betas[index] = asked.beta;
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }

    // (b) Tokens past the end repeat the last.
    if (first + int(block) < end) {
      uint last = uint(end - 1 - (first + int(block)));
      ulong base = ulong(begin + first + int(block));
      device const T* from = source + (base + min(slotOf, last)) * sourceStride;
      if (sizeof(T) == 2) row_ask(asked.bits, from, wide, keyDim);
      else row_load<T>(asked.row, from, wide, keyDim);
      asked.value = valueSource[(base + min(index / GDM_PREFILL_ROWS, last)) * params.valueTokenStride];
      if (GATE_PER_KEY) {
        row_load<float>(asked.decay, gateSource + (base + min(slotOf, last)) * params.gateTokenStride, wide, keyDim);
      } else {
        asked.gate = gateSource[(base + min(index % block, last)) * params.gateTokenStride];
      }
      asked.beta = betaSource[(base + min(index % block, last)) * params.betaTokenStride];
    }
    if (first < start) {
      if (sizeof(T) == 2) row_widen(asked.row, asked.bits);
      row_normalise(asked.row, keyDim, params.epsilon, isKey ? 1.0f : params.scale);
      continue;
    }
    Walk<T> walk = {keys, queries, decays, values + rowGroup, outputs + rowGroup, betas, out, 0, params.outTokenStride,
                    records.delta, 0, valueHeads * valueDim, first};
    walk.outAt = out_at(params, ulong(begin + first), valueHead) + firstRow + rowGroup;
    if (RECORD) walk.record = (ulong(begin + first) * valueHeads + valueHead) * valueDim + firstRow + rowGroup;
    if (tokens == block) prefill_walk<block / 2>(states, s, walk, 0, block / 2, set);
    else prefill_walk<0>(states, s, walk, 0, tokens, set);
    // What has been asked for is there by now; its norm's latency hides behind the second half.
    if (first + int(block) < end) {
      if (sizeof(T) == 2) row_widen(asked.row, asked.bits);
      row_normalise(asked.row, keyDim, params.epsilon, isKey ? 1.0f : params.scale);
    }
    if (tokens == block) prefill_walk<block / 2>(states, s, walk, block / 2, block, set);
    threadgroup_barrier(mem_flags::mem_threadgroup);

    // (c) The next block's staging touches nothing that is read here.
    uint t = index / GDM_PREFILL_ROWS;
    uint r = index % GDM_PREFILL_ROWS;
    if (!OUT_AT_ONCE && t < tokens && r < rows) {
      write_wide(out, out_at(params, ulong(begin + first) + t, valueHead) + firstRow + r, outputs[index], OUT_F32);
    }
  }

  if (PARTS && end < count) {
    if (row_exists(set, 0)) row_store<float>(carried + carriedAt, s.row[0], lane, keyDim);
    return;
  }
  if (HAS_STORES) states_store(states, count, s, set);
  if (writeSlot >= 0) states_write(states, state, uint(writeSlot), s, set);
}

// Names: gd_prefill_<T>_<S>_<key dim>; kany serves any multiple of 8 up to 256.
GDM_INSTANTIATE_TSK(gd_prefill)

#line 1 "shaders/rms_norm.metal"
// RMS norm over the last dimension, without a gate.
//
//   out = (x r) w or, plusOne, (x r) (1 + w)      r = rsqrt(mean x^2 + eps)        (Zhang and Sennrich 2019)
//
// x [tokens, heads, length] T; out likewise, T or f32 (OUT_F32); token and head strides in elements, any length.
// weight [length]: NORM_WEIGHT_DTYPE. ALIGNED_ROWS: as in norm.metal.
//
// Grid: (ceil(rows / GDM_NORM_ROWS)) threadgroups of GDM_NORM_THREADS: one simdgroup a row, row = token heads + head.
// 1. Each lane sums the squares of its elements, RMS_PARTS groups of four read before the first is used.   2. The lanes
// combine them.   3. Each lane writes its elements, as many at a time.
// Order of the sum: norm.h. Function constants: NORM_WEIGHT_DTYPE, OUT_F32, ALIGNED_ROWS.


enum { RMS_PARTS = 4, RMS_STRIDE = 4 * GDM_SIMD_LANES };

template <typename T>
[[max_total_threads_per_threadgroup(GDM_NORM_THREADS)]]
kernel void gd_rms_norm(device const T* x [[buffer(0)]],
                        device const ushort* weight [[buffer(1)]],
                        device T* out [[buffer(2)]],
                        constant GDMRMSNorm& params [[buffer(3)]],
                        uint group [[threadgroup_position_in_grid]],
                        uint index [[thread_index_in_threadgroup]]) {
  uint lane = index % GDM_SIMD_LANES;
  uint row = group * GDM_NORM_ROWS + index / GDM_SIMD_LANES;
  if (row >= params.rows) return;  // whole simdgroups
  uint token = row / params.heads;
  uint head = row - token * params.heads;
  ulong xAt = ulong(token) * params.xTokenStride + ulong(head) * params.xHeadStride;
  ulong outAt = ulong(token) * params.outTokenStride + ulong(head) * params.outHeadStride;

  device const T* xRow = x + xAt;
  device T* outRow = wide_row(out, outAt, OUT_F32);
  uint length = params.length;

  float sum = 0.0f;
  for (uint first = 4 * lane; first < length; first += RMS_PARTS * RMS_STRIDE) {
    float4 u[RMS_PARTS];
    GDM_UNROLL for (uint i = 0; i < RMS_PARTS; ++i) u[i] = read_four(xRow, first + i * RMS_STRIDE, length, false);
    GDM_UNROLL for (uint i = 0; i < RMS_PARTS; ++i) sum = norm_squares(sum, u[i], first + i * RMS_STRIDE, length);
  }
  float inverse = norm_inverse(sum, length, params.epsilon);
  for (uint first = 4 * lane; first < length; first += RMS_PARTS * RMS_STRIDE) {
    float4 u[RMS_PARTS];
    float4 w[RMS_PARTS];
    GDM_UNROLL for (uint i = 0; i < RMS_PARTS; ++i) {
      u[i] = read_four(xRow, first + i * RMS_STRIDE, length, false);
      w[i] = norm_weights(weight, first + i * RMS_STRIDE, length);
    }
    GDM_UNROLL for (uint i = 0; i < RMS_PARTS; ++i) {
      if (params.plusOne != 0) w[i] = 1.0f + w[i];
      write_four(outRow, first + i * RMS_STRIDE, length, (u[i] * inverse) * w[i], OUT_F32);
    }
  }
}

// Names: gd_rms_norm_<T>.
GDM_INSTANTIATE_T(gd_rms_norm)

#line 1 "shaders/silu_mul.metal"
// SiLU of one tensor times another, in float32 and rounded once: out = silu(gate) up.
//
// up [tokens, heads, length] T; gate and out likewise, T or f32; token and head strides in elements, any length. Where
// out is gate or up itself, that argument is not bound and its elements are read from out: arguments may not overlap.
//
// Grid: (rows, ceil(length / (4 GDM_ADD_PARTS GDM_COPY_THREADS))) threadgroups of GDM_COPY_THREADS; each thread takes
// GDM_ADD_PARTS times four neighbouring elements, and reads them all before it writes the first. ALIGNED_ROWS: lengths
// are multiples of 4 and every row of all three begins at a multiple of four elements' bytes. Function constants: OUT_F32,
// ALIGNED_ROWS.


METAL_FUNC float4 silu_four(float4 x) {
  float4 y = float4(0.0f);
  GDM_UNROLL for (uint j = 0; j < 4; ++j) y[j] = gd_silu(x[j]);
  return y;
}

template <typename T>
[[max_total_threads_per_threadgroup(GDM_COPY_THREADS)]]
kernel void gd_silu_mul(device const T* gate [[buffer(0)]],
                        device const T* up [[buffer(1)]],
                        device T* out [[buffer(2)]],
                        constant GDMAdd& params [[buffer(3)]],
                        uint3 group [[threadgroup_position_in_grid]],
                        uint index [[thread_index_in_threadgroup]]) {
  uint token = group.x / params.heads;
  uint head = group.x - token * params.heads;
  ulong gateAt = ulong(token) * params.aTokenStride + ulong(head) * params.aHeadStride;
  ulong upAt = ulong(token) * params.bTokenStride + ulong(head) * params.bHeadStride;
  ulong outAt = ulong(token) * params.outTokenStride + ulong(head) * params.outHeadStride;
  device const T* aRow = params.replacesA != 0 ? wide_row((device const T*)out, outAt, OUT_F32)
                                               : wide_row(gate, gateAt, params.aF32 != 0);
  device const T* bRow = params.replacesB != 0 ? wide_row((device const T*)out, outAt, OUT_F32) : up + upAt;
  bool aWide = params.replacesA != 0 ? OUT_F32 : params.aF32 != 0;
  bool bWide = params.replacesB != 0 && OUT_F32;
  device T* outRow = wide_row(out, outAt, OUT_F32);
  uint first = 4 * (group.y * GDM_ADD_PARTS * GDM_COPY_THREADS + index);
  float4 x[GDM_ADD_PARTS];
  float4 y[GDM_ADD_PARTS];
  GDM_UNROLL for (uint i = 0; i < GDM_ADD_PARTS; ++i) {
    x[i] = read_four(aRow, first + 4 * i * GDM_COPY_THREADS, params.length, aWide);
    y[i] = read_four(bRow, first + 4 * i * GDM_COPY_THREADS, params.length, bWide);
  }
  GDM_UNROLL for (uint i = 0; i < GDM_ADD_PARTS; ++i) {
    write_four(outRow, first + 4 * i * GDM_COPY_THREADS, params.length, silu_four(x[i]) * y[i], OUT_F32);
  }
}

// Names: gd_silu_mul_<T>.
GDM_INSTANTIATE_T(gd_silu_mul)

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
GDM_KERNEL("gd_slots_gather_u16", gd_slots_gather, ushort)
GDM_KERNEL("gd_slots_gather_u32", gd_slots_gather, uint)
GDM_KERNEL("gd_slots_gather_u128", gd_slots_gather, uint4)
GDM_KERNEL("gd_slots_copy_u16", gd_slots_copy, ushort)
GDM_KERNEL("gd_slots_copy_u32", gd_slots_copy, uint)
GDM_KERNEL("gd_slots_copy_u128", gd_slots_copy, uint4)

#line 1 "shaders/step.metal"
// One decode token of each sequence through the mixer's core: convolution, gates, query/key norm, recurrence and gated
// norm, as one dispatch. The bits of gd_conv, gd_gates, gd_decode (out f32) and gd_norm in a chain.
//
// x [n, C] T, C = 2 Hk Dk + Hv Dv: query | key | value channels, head-major; convWeight [C, K], convBias [C].
// convState [slots, C, K - 1] T or f32 (CONV_STATE_F32), convStaged likewise; state [slots, Hv, Dv, Dk] S, staged
// likewise; both in place. gate [n, Hv] or [n, Hv, Dk], beta [n, Hv], aLog, dtBias: as in gates.metal.
// z [n, Hv, Dv] T; normWeight [Dv]; out [n, Hv, Dv] T or f32 (OUT_F32). readSlots, writeSlots [n], of both pools;
// SMALL_BATCH: in `batch`. arrivals [n, Hk]: counters, see below.
//
// Grid: (Hv, n) threadgroups of any multiple of 32 threads, at most GDM_STEP_THREADS; the bits do not depend on it. A
// threadgroup owns a value head: its rows, its value channels, its outputs.
//
// 1. Ask for the first rows of the state, z and the norm's weights. Where a lane group has TILE_ROWS = 2 GDM_STEP_ROWS rows
//    asked for at a time, for the second ones, too: it takes more registers, and is for few threadgroups, which wait for
//    their own reads and for nothing else.
// 2. Convolve the query and key channels of the key head, and the value head's own channels; resolve its decays. Rounded
//    to T, as the unfused chain stores. Barrier.
// 3. Each group of GDM_STEP_LANES lanes normalises key and query once and takes GDM_STEP_ROWS rows at a time: decay,
//    update, write; outputs stay in threadgroup memory (f32). Barrier.
// 4. Every simdgroup sums the squares of the outputs; each thread writes its share.
//
// The taps that threadgroups share. All value heads of a key head convolve the same query and key channels, in place:
// their columns may be moved on only when every one of those threadgroups has read them. The last to have read them does
// it. A threadgroup arrives after the barrier of step 2, behind which all its threads have their columns: one thread
// fences device memory and adds one to the key head's counter (relaxed, the only order that Metal's atomics have); the
// one that finds ratio - 1 arrivals before its own is the last, fences again, and after the next barrier its threads
// write. Read, barrier, fence, add, add's read, fence, barrier, write: every read happens before the write in the model
// of MSL 3.2 (6.9.1, 6.15.3). Nothing that is written is read by another threadgroup of the dispatch, so that no
// argument needs coherent(device). Nobody waits for anybody: no progress guarantee between threadgroups is used.
// Counters begin at any multiple of the ratio, since each dispatch adds the ratio.
//
// Formulas: conv.h, gates.h, rows.h, norm.h. Function constants: all but NORM_X_F32, HAS_STORES, RECORD, RESOLVE_GATES,
// PARTS, ALIGNED_ROWS, OUT_AT_ONCE and PACKED_ROW.





// The channel of item i: the key head's query, its key, the value head's own.
METAL_FUNC uint step_channel(uint i, uint keyHead, uint valueHead, uint keyHeads, uint keyDim, uint valueDim) {
  if (i < keyDim) return keyHead * keyDim + i;
  if (i < 2 * keyDim) return (keyHeads + keyHead) * keyDim + (i - keyDim);
  return 2 * keyHeads * keyDim + valueHead * valueDim + (i - 2 * keyDim);
}

// Arrivals at a counter before this one: what the caller's threadgroup has read, it has read before any threadgroup that
// arrives later writes. Orders reads before writes only; nothing written is read elsewhere, so nothing is coherent.
METAL_FUNC uint step_arrive(device atomic_uint* counter, uint ratio) {
  atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);
  uint before = atomic_fetch_add_explicit(counter, 1u, memory_order_relaxed);
  if (before % ratio == ratio - 1) atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);
  return before;
}

template <typename T, typename S, uint G>
[[max_total_threads_per_threadgroup(GDM_STEP_THREADS)]]
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
                    device atomic_uint* arrivals [[buffer(16)]],
                    constant GDMStep& params [[buffer(17)]],
                    constant GDMBatch& batch [[buffer(18)]],
                    uint2 group [[threadgroup_position_in_grid]],
                    uint2 threadCounts [[threads_per_threadgroup]],
                    uint index [[thread_index_in_threadgroup]]) {
  constexpr uint L = GDM_STEP_LANES;
  constexpr uint R = G == 64 ? GDM_STEP_ROWS / 2 : GDM_STEP_ROWS;  // for the registers
  bool ahead = TILE_ROWS == 2 * GDM_STEP_ROWS;
  // Rows read four elements at a time are declared so, for their alignment.
  threadgroup float4 queryMemory[GDM_MAX_DIM / 4];
  threadgroup float4 keyMemory[GDM_MAX_DIM / 4];
  threadgroup float4 decayMemory[GDM_MAX_DIM / 4];
  threadgroup float valueRow[GDM_MAX_DIM];
  threadgroup float outRow[GDM_MAX_DIM];
  threadgroup float gateRow[GDM_MAX_DIM];
  threadgroup float betaOf[1];
  threadgroup uint before[1];
  threadgroup float* queryRow = (threadgroup float*)queryMemory;
  threadgroup float* keyRow = (threadgroup float*)keyMemory;
  threadgroup float* decayRow = (threadgroup float*)decayMemory;

  uint threads = threadCounts.x;
  uint keyHeads = params.keyHeads;
  uint valueHeads = params.valueHeads;
  uint keyDim = G < 64 ? 4 * G : params.keyDim;
  uint valueDim = params.valueDim;
  uint valueHead = group.x;
  uint token = group.y;
  uint keyHead = key_head_of(valueHead, keyHeads, valueHeads);
  uint ratio = valueHeads / keyHeads;
  uint channels = 2 * keyHeads * keyDim + valueHeads * valueDim;
  uint decayDim = GATE_PER_KEY ? keyDim : 1;
  int readSlot = SMALL_BATCH ? batch.readSlots[token] : readSlots[token];
  int writeSlot = SMALL_BATCH ? batch.writeSlots[token] : writeSlots[token];
  device const T* input = x + ulong(token) * params.xTokenStride;
  ulong zAt = ulong(token) * params.zTokenStride + ulong(valueHead) * params.zHeadStride;

  // 1.
  uint lane = index % L;
  uint apart = threads / L;
  uint headRow = valueHead * valueDim;
  RowSet set = {headRow + index / L, apart, headRow + valueDim, lane};
  States<S> states = {state, staged, state, (device const GDMStore*)staged, 0, 0, valueHeads * valueDim, keyDim};
  Rows<L, G, R> s;
  RowsBits<S, L, G, R> asked;
  RowsBits<S, L, G, R> further;
  if (ahead) {
    states_ask(asked, states, readSlot, set);
    set.first += R * apart;
    states_ask(further, states, readSlot, set);
  } else {
    states_read(s, states, readSlot, set);
  }
  uint own = min(index, valueDim - 1);
  float ownZ = float(z[zAt + own]);
  float ownWeight = read_any(normWeight, own, NORM_WEIGHT_DTYPE);

  // 2. The columns of a thread's first channel stay in registers, moved on, until the last threadgroup writes them.
  ConvTaps taps;
  GDM_UNROLL for (uint j = 0; j < GDM_CONV_MAX_TAPS; ++j) taps.column[j] = 0u;
  uint items = 2 * keyDim + valueDim;
  for (uint i = index; i < items; i += threads) {
    uint channel = step_channel(i, keyHead, valueHead, keyHeads, keyDim, valueDim);
    ConvTaps read;
    ConvWeights w;
    conv_read(read, (device const T*)convState, convStaged, readSlot, channels, channel);
    conv_weights(w, convWeight, convBias, channel);
    float y = float(T(conv_token(read, w, input[channel])));
    if (i < keyDim) queryRow[i] = y;
    else if (i < 2 * keyDim) keyRow[i - keyDim] = y;
    else valueRow[i - 2 * keyDim] = y;
    if (i >= 2 * keyDim && writeSlot >= 0) conv_write(convState, read, uint(writeSlot), channels, channel);
    if (i == index) taps = read;
  }
  for (uint i = threads - 1 - index; i < decayDim; i += threads) {
    ulong at = ulong(token) * params.gateTokenStride + ulong(valueHead) * params.gateHeadStride + i;
    decayRow[i] = gate_read(gate, at, aLog, valueHead, dtBias, valueHead * decayDim + i, params.bound);
  }
  if (index == 0) {
    betaOf[0] = beta_read(beta, ulong(token) * params.betaTokenStride + ulong(valueHead) * params.betaHeadStride);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
  if (index == 0 && ratio > 1) before[0] = step_arrive(arrivals + (token * keyHeads + keyHead), ratio);

  // 3. The norm's gate needs nothing of the rows, and has arrived while the channels were convolved.
  float ownGate = norm_gate(ownZ);
  Row<L, G> k;
  Row<L, G> q;
  row_load(k, keyRow, lane, keyDim);
  row_load(q, queryRow, lane, keyDim);
  rows_normalise(k, q, lane, keyDim, params.epsilon, params.scale);
  float b = betaOf[0];
  for (uint first = 0; first < valueDim; first += R * apart) {
    set.first = headRow + first + index / L;
    if (ahead) {
      if (first > 0) {
        asked = further;
        set.first += R * apart;
        if (first + R * apart < valueDim) states_ask(further, states, readSlot, set);
        set.first -= R * apart;
      }
      states_widen(s, asked);
    } else if (first > 0) {
      states_read(s, states, readSlot, set);
    }
    if (GATE_PER_KEY) {
      Row<L, G> decay;
      row_load(decay, decayRow, lane, keyDim);
      rows_scale(s, decay);
    } else {
      rows_scale(s, decayRow[0]);
    }
    Step<L, G, R> step;
    GDM_UNROLL for (uint r = 0; r < R; ++r) step.value[r] = valueRow[row_of(set, r) - headRow];
    rows_step(s, k, q, step, b, lane, keyDim);
    GDM_UNROLL for (uint r = 0; r < R; ++r) {
      if (lane == 0 && row_exists(set, r)) outRow[row_of(set, r) - headRow] = step.out[r];
    }
    if (writeSlot >= 0) states_write(states, state, uint(writeSlot), s, set);
  }
  if (NORM_GATE_FIRST) {
    for (uint i = index; i < valueDim; i += threads) gateRow[i] = i == index ? ownGate : norm_gate(float(z[zAt + i]));
  }
  threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);

  // 4. Whole simdgroups with or without an output.
  uint simdLane = index % GDM_SIMD_LANES;
  if (index - simdLane < valueDim) {
    float sum = 0.0f;
    GDM_UNROLL for (uint i = 0; i < GDM_MAX_DIM / (4 * GDM_SIMD_LANES); ++i) {
      uint at = norm_element(simdLane, i);
      if (at < valueDim) {
        GDM_UNROLL for (uint j = 0; j < 4; ++j) {
          float u = norm_operand(outRow[at + j], NORM_GATE_FIRST ? gateRow[at + j] : 0.0f);
          sum = fma(u, u, sum);
        }
      }
    }
    float inverse = norm_inverse(sum, valueDim, params.normEpsilon);
    ulong outAt = ulong(token) * params.outTokenStride + ulong(valueHead) * params.outHeadStride;
    for (uint i = index; i < valueDim; i += threads) {
      float gateOf = i == index ? ownGate : norm_gate(float(z[zAt + i]));
      float w = i == index ? ownWeight : read_any(normWeight, i, NORM_WEIGHT_DTYPE);
      write_wide(out, outAt + i, norm_result(outRow[i], gateOf, inverse, w), OUT_F32);
    }
  }

  if (writeSlot >= 0 && (ratio == 1 || before[0] % ratio == ratio - 1)) {
    for (uint i = index; i < 2 * keyDim; i += threads) {
      uint channel = step_channel(i, keyHead, valueHead, keyHeads, keyDim, valueDim);
      if (i > index) {
        conv_read(taps, (device const T*)convState, convStaged, readSlot, channels, channel);
        conv_move(taps, conv_column(input[channel]));
      }
      conv_write(convState, taps, uint(writeSlot), channels, channel);
    }
  }
}

// Names: gd_step_<T>_<S>_<key dim>; kany serves any multiple of 8 up to 256.
GDM_INSTANTIATE_TSK(gd_step)
"""##
