// Parameter structs and sizes that the host and the kernels share: read by C, Swift and MSL.
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

#include "option_values.h"

#if defined(__METAL_VERSION__) || defined(__cplusplus)
#define GDM_ASSERT_SIZE(type, bytes) static_assert(sizeof(type) == bytes, "layout shared with the host")
#else
#define GDM_ASSERT_SIZE(type, bytes) _Static_assert(sizeof(type) == bytes, "layout shared with the host")
#endif

// Shapes of the work. Each kernel chooses the lanes that hold a state row (rows.h); the bits do not depend on the choice.
enum {
  GDM_SIMD_LANES = 32,
  GDM_DECODE_THREADS = 64,        // threads of a decode or commit threadgroup, at most
  GDM_DECODE_LANES_F32 = 16,      // float32 states: lanes of a row, rows of a lane group, threads
  GDM_DECODE_ROWS_F32 = 2,
  GDM_DECODE_THREADS_F32 = 64,
  GDM_DECODE_LANES_16 = 16,       // 16-bit states
  GDM_DECODE_ROWS_16 = 4,
  GDM_DECODE_THREADS_16 = 32,
  GDM_DECODE_MOST_ROWS_16 = 8,    // of a lane group, if the value dim is whole threadgroups of that many
  GDM_SMALL_BATCH = 8,            // sequences whose tables fit a constant of the dispatch
  GDM_PREFILL_THREADS = 256,
  GDM_PREFILL_LANES = 8,
  GDM_PREFILL_ROWS = 32,
  GDM_PREFILL_BLOCK = 8,          // tokens that prefill stages at a time
  GDM_STEP_THREADS = 512,         // threads of a step threadgroup, at most
  GDM_STEP_LANES = 16,
  GDM_STEP_ROWS = 2,              // rows of a lane group at a time
  GDM_CONV_THREADS = 128,     // channels of a conv threadgroup
  GDM_CONV_TILE = 16,         // tokens of a conv thread; at least the largest width - 1
  GDM_CONV_MAX_TAPS = 8,      // the largest width - 1
  GDM_GATE_THREADS = 256,
  GDM_NORM_THREADS = 128,     // one simdgroup per row
  GDM_NORM_ROWS = 4,
  GDM_PROJECT_THREADS = 128,  // four simdgroups
  GDM_PROJECT_TILE = 4,       // outputs of a simdgroup, at most
  GDM_PROJECT_ROWS = 8,       // rows of a tile, at most
  GDM_PROJECT_OUTPUTS_1 = 2,  // outputs of a simdgroup for one row and weights of 16 bits or fewer
  GDM_PROJECT_TURN = 256,     // columns of a turn: eight of each chain
  GDM_PROJECT_TURNS = 4,      // turns whose packed weights are read together
  GDM_PROJECT_MANY_TURNS = 7, // the same for one row of 4-bit weights, in the form with more registers
  GDM_PROJECT_MOST_TURNS = 9, // and if a simdgroup has one output
  GDM_PROJECT_PITCH = 9,      // vectors of four from one sum's chains to the next one's
  GDM_PROJECT_SUMS = 16,      // sums of a simdgroup whose chains are in threadgroup memory at a time
  GDM_PROJECT_MEMORY = GDM_PROJECT_SUMS * 4 * GDM_PROJECT_PITCH,  // floats of a simdgroup
  GDM_PACKED_LANES = 8,       // one row of packed weights: lanes of an output, outputs of a lane, turns read together
  GDM_PACKED_OUTPUTS = 2,         // at most: with TWO_OUTPUTS
  GDM_PACKED_TURNS = 2,
  GDM_PACKED_SPAN = 2048,     // columns of x that go through threadgroup memory together
  GDM_PACKED_PITCH = GDM_PACKED_SPAN / 32 + 1,
  GDM_PACKED_MEMORY = 8 * GDM_PACKED_PITCH,  // vectors of four
  GDM_BLOCK_ROWS = 64,        // many rows: rows of a threadgroup, outputs of it
  GDM_BLOCK_OUTPUTS = 128,
  GDM_BLOCK_PITCH = GDM_BLOCK_ROWS + 4,
  GDM_BLOCK_WIDE = GDM_BLOCK_OUTPUTS + 4,
  GDM_MATRIX_PITCH = 20,      // rows by matrices: floats from one row's 16 columns to the next one's
  GDM_EMBEDDING_THREADS = 128,
  GDM_ROUTE_THREADS = 256,
  GDM_TOP_K_EACH = 16,        // elements of a thread
  GDM_TOP_K_THREADS = 256,
  GDM_EXPERT_SORT_THREADS = 256,
  GDM_COMBINE_THREADS = 128,
  GDM_COPY_THREADS = 256,
  GDM_ATTENTION_SPAN = 128,        // keys of a span: the order of a row's sums depends on this and on the chains
  GDM_ATTENTION_CHAINS = 8,        // of a row's pairs of spans
  GDM_ATTENTION_KEYS = 8,          // keys of a simdgroup, or of a half of it, whose scores are summed together
  GDM_ATTENTION_ROWS = 8,          // query rows of a threadgroup
  GDM_MATRIX_ROWS = 32,            // the same if products use matrices
  GDM_ATTENTION_THREADS = 256,     // a simdgroup per row; two elements of some rows per thread
  GDM_ATTENTION_AHEAD = 4,         // pairs of spans that are read together when they are combined
  GDM_ATTENTION_PREPARE_ROWS = 4,  // rows of a threadgroup, one per simdgroup
  GDM_MAX_DIM = 256           // the largest key or value dim
};

// A slot of a pool to read: 0 and up is that slot of the pool, -1 is zeros, -2 - i is slot i of the staged copies.
enum { GDM_SLOT_NONE = -1, GDM_SLOT_STAGED = -2 };

// An extra store of a sequence's state after `tokens` tokens of this call, 0 being the state as read.
// A slot of 0 and up is the pool's; -1 - i is entry i of the snapshot tensor. Sorted by tokens within a sequence.
typedef struct GDMStore {
  int32_t tokens;
  int32_t slot;
} GDMStore;
GDM_ASSERT_SIZE(GDMStore, 8);

// recurrence_*.metal. gate and beta are the float32 buffers that gates.metal makes.
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

// A part of every sequence's tokens, in a prefill of several dispatches.
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
  uint32_t channels, sequences;
  uint32_t xTokenStride, outTokenStride;
} GDMConv;
GDM_ASSERT_SIZE(GDMConv, 16);

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

// projection.metal. Added to a sum: nothing, a tensor of the activation dtype or of float32, or the content of out.
enum { GDM_RESIDUAL_NONE = 0, GDM_RESIDUAL_T = 1, GDM_RESIDUAL_F32 = 2, GDM_RESIDUAL_OUT = 3 };
typedef struct GDMProject {
  uint32_t rows, inputs, outputs;
  uint32_t xRowStride, outRowStride, residualRowStride;
  uint32_t residual;  // GDM_RESIDUAL_*
  uint32_t unit;      // GDM_PROJECT_UNIT
} GDMProject;
GDM_ASSERT_SIZE(GDMProject, 32);

// expert_projection.metal, which also takes a GDMProject, whose rows are those of out and whose row strides are not used.
typedef struct GDMExperts {
  uint32_t experts, ranks;  // matrices; rows of out for each token
  uint32_t xTokenStride, xRankStride;
  uint32_t outTokenStride, outRankStride;
} GDMExperts;
GDM_ASSERT_SIZE(GDMExperts, 24);

// The matrices of experts may be pieces of several buffers. Their table has 64 bits per piece: the number of its buffer from
// bit GDM_PIECE_BUFFER on, and below it the offset in bytes from that buffer's start.
enum { GDM_PIECE_BUFFERS = 4, GDM_PIECE_BUFFER = 56 };

// Rows of out that one expert's matrix serves: entries first .. first + rows - 1 of the sorted rows. expert
// GDM_EXPERT_NONE: rows whose ids name no expert. rows 0: nothing.
enum { GDM_EXPERT_NONE = -1 };
typedef struct GDMExpertTile {
  int32_t expert;
  uint32_t first, rows;
} GDMExpertTile;
GDM_ASSERT_SIZE(GDMExpertTile, 12);

// expert_sort.metal. tiles: as many as there is memory for.
typedef struct GDMExpertSort {
  uint32_t rows, experts, tileRows, tiles;
} GDMExpertSort;
GDM_ASSERT_SIZE(GDMExpertSort, 16);

// route.metal
typedef struct GDMRoute {
  uint32_t experts, chosen, normalize, logitsRowStride;
} GDMRoute;
GDM_ASSERT_SIZE(GDMRoute, 16);

// top_k.metal. pieces: of a row, GDM_TOP_K_THREADS * GDM_TOP_K_EACH columns each.
typedef struct GDMTopK {
  uint32_t columns, chosen, pieces, rowStride;
} GDMTopK;
GDM_ASSERT_SIZE(GDMTopK, 16);

// combine_experts.metal. wide: GDM_COMBINE_*, the tensors that are f32 and not the activation dtype.
enum { GDM_COMBINE_EXPERTS = 1, GDM_COMBINE_SHARED = 2, GDM_COMBINE_GATE = 4, GDM_COMBINE_RESIDUAL = 8 };
typedef struct GDMCombine {
  uint32_t ranks, length, wide;
  uint32_t hasShared, hasGate;
  uint32_t residual;  // GDM_RESIDUAL_NONE, GDM_RESIDUAL_OUT or anything else for a tensor
  uint32_t expertsTokenStride, expertsRankStride;
  uint32_t sharedTokenStride, gateTokenStride, residualTokenStride, outTokenStride;
} GDMCombine;
GDM_ASSERT_SIZE(GDMCombine, 48);

// embedding.metal
typedef struct GDMEmbedding {
  uint32_t columns, outRowStride, vocabulary;
} GDMEmbedding;
GDM_ASSERT_SIZE(GDMEmbedding, 12);

// elementwise.metal. A row is a (token, head) pair.
enum { GDM_ELEMENTWISE_PARTS = 2 };  // of a thread: four neighbouring elements each
typedef struct GDMElementwise {
  uint32_t heads, length;
  uint32_t aTokenStride, aHeadStride;
  uint32_t bTokenStride, bHeadStride;
  uint32_t outTokenStride, outHeadStride;
  uint32_t aF32;                  // a is f32, not the activation dtype
  uint32_t replacesA, replacesB;  // out is that same tensor, which is then not bound
} GDMElementwise;
GDM_ASSERT_SIZE(GDMElementwise, 44);

// step.metal: strides of one row (token) per sequence; channels are query | key | value, each head-major.
typedef struct GDMStep {
  uint32_t keyHeads, valueHeads, keyDim, valueDim;
  uint32_t xTokenStride;
  uint32_t gateTokenStride, gateHeadStride, betaTokenStride, betaHeadStride;
  uint32_t zTokenStride, zHeadStride;
  uint32_t outTokenStride, outHeadStride;
  float scale, epsilon, bound, normEpsilon;
} GDMStep;
GDM_ASSERT_SIZE(GDMStep, 68);

// attention_prepare.metal. A dtype of 0 means that there is no norm.
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

// Query rows of one sequence: row i is head i mod g of its token i / g, among the g = heads / keyHeads that share a key
// head. Rows firstRow .. firstRow + rows - 1, after `past` tokens; the sequence's rows of the op begin at firstToken, its
// row of the page table at `pages`. place: in attention.metal the first span of a threadgroup, in attention_combine.metal
// the place of the rows' first result.
typedef struct GDMAttentionTask {
  int32_t firstToken, past, pages, firstRow, rows, place;
} GDMAttentionTask;
GDM_ASSERT_SIZE(GDMAttentionTask, 24);

// attention.metal. spans: of a threadgroup, 1 or 2.
typedef struct GDMAttention {
  uint32_t heads, keyHeads, dim, pageTokens, spans;
} GDMAttention;
GDM_ASSERT_SIZE(GDMAttention, 20);

// attention_combine.metal. spans: of a result; rows: that it has room for.
typedef struct GDMAttentionCombine {
  uint32_t heads, keyHeads, dim, spans, rows;
  uint32_t hasGate;
  uint32_t gateTokenStride, gateHeadStride;
  uint32_t outTokenStride, outHeadStride;
} GDMAttentionCombine;
GDM_ASSERT_SIZE(GDMAttentionCombine, 40);

// slots.metal: units of a slot, in the kernel's copy unit of 2, 4 or 16 bytes.
typedef struct GDMSlots {
  uint32_t slotUnits;
} GDMSlots;
GDM_ASSERT_SIZE(GDMSlots, 4);

#endif
