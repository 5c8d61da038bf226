// The function constants of every kernel: options only. A pipeline sets those that its kernel reads, which the head of
// each .metal file names; enum values are those of params.h and of the C header.
#ifndef GATED_DELTA_SHADERS_OPTIONS_H
#define GATED_DELTA_SHADERS_OPTIONS_H

#include "params.h"
#include "weight_formats.h"

#include <metal_stdlib>
// Here and not only in numerics.h: the unsigned types' short names are in this namespace.
using namespace metal;

// Unrolls loops over arrays that live in registers: an array with a running index would be kept in memory.
#define GDM_UNROLL _Pragma("unroll")

// An instantiation under the name that the host asks for; and those for every activation dtype T, state or weight dtype
// S, way to store a matrix W and key class. Groups of a key class: rows.h.
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
constant bool GATE_PER_KEY [[function_constant(1)]];    // a decay for every key dimension, not one per head
constant uint QK_NORM [[function_constant(2)]];         // GDM_NORM_*
constant bool OUT_F32 [[function_constant(3)]];         // out is f32, not the activation dtype
constant bool HAS_STORES [[function_constant(4)]];      // extra stores of the state inside a sequence
constant bool RECORD [[function_constant(5)]];          // keep delta and normalised key of every token
constant bool SMALL_BATCH [[function_constant(6)]];     // slots and starts are constants of the dispatch
constant bool RESOLVE_GATES [[function_constant(7)]];   // decays and betas are resolved by the kernel itself

// Gates.
constant uint GATE_FORM [[function_constant(8)]];       // GDM_GATE_*
constant uint BETA_FORM [[function_constant(9)]];       // GDM_BETA_*
constant uint GATE_DTYPE [[function_constant(10)]];     // GDM_F32, GDM_F16, GDM_BF16; so are those below
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
constant uint CONV_UPDATE [[function_constant(22)]];    // one token of each sequence: sequences per thread, or 0

// Gated norm.
constant bool NORM_SIGMOID [[function_constant(24)]];   // gate by sigmoid(z), not silu(z)
constant bool NORM_GATE_FIRST [[function_constant(25)]]; // norm(x act(z)), not norm(x) act(z)
constant bool NORM_X_F32 [[function_constant(26)]];     // x is f32, not the activation dtype
constant uint NORM_WEIGHT_DTYPE [[function_constant(27)]];

constant uint NORM_PARTS [[function_constant(30)]];     // groups of four elements that a lane keeps: 1 or 2
constant bool NORM_WEIGHT_VECTORS [[function_constant(15)]]; // weights of float32 begin at a multiple of 16 bytes

// Rows begin where vectors may begin, and are read as vectors: each kernel says of how many elements.
constant bool ALIGNED_ROWS [[function_constant(28)]];
// Rows of a projection's tile: 1, 2, 4 or 8. Rows of a lane group in decode: DecodeShape's. Rows that a lane group of the
// step asks for: GDM_STEP_ROWS or twice as many.
constant uint TILE_ROWS [[function_constant(29)]];

// Packed weights.
constant uint MATRIX_GROUP [[function_constant(23)]];   // log2 of a block's elements
constant uint MATRIX_DTYPE [[function_constant(31)]];   // of scales and biases
// A matrix may begin at any byte of a file. The bound matrix begins at a multiple of an element's bytes, or of four if elements
// are bytes, and its elements (words, floats) begin MATRIX_SHIFT bytes later; scales and biases likewise. MATRIX_ALIGNMENT: log2 of
// the alignment in bytes of the bound matrix, and of each of its rows if blocks hold their factors; at most 4.
constant uint MATRIX_ALIGNMENT [[function_constant(34)]];
constant uint MATRIX_SHIFT [[function_constant(35)]];
constant uint SCALES_SHIFT [[function_constant(36)]];
constant uint BIASES_SHIFT [[function_constant(37)]];
constant uint MATRIX_VARIANT [[function_constant(38)]]; // GDM_UNPACK_*, for a family whose blocks hold their factors
constant bool MATRIX_PIECES [[function_constant(39)]];  // experts: a table of pieces is bound, as in params.h

constant bool OUT_AT_ONCE [[function_constant(33)]];    // prefill: outputs do not go through threadgroup memory
constant bool PACKED_ROW [[function_constant(32)]];     // one row of packed weights: packed_row.h's spread
constant bool TWO_OUTPUTS [[function_constant(43)]];    // packed_row.h: a lane has two outputs
constant bool MATRIX_HALVES [[function_constant(44)]];  // projection_matrix.h: threadgroup memory for two steps
constant bool MANY_ROWS [[function_constant(40)]];      // projection_block.h's spread
constant uint MANY_TURNS [[function_constant(42)]];     // one row of 4-bit weights, more read together: outputs of a simdgroup, or 0
constant bool MATRICES [[function_constant(41)]];       // products by simdgroup matrices

constant bool PARTS [[function_constant(14)]];          // prefill: a part of the tokens, between carried states

#endif
