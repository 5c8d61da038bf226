// One decode token of each sequence through the mixer's core: convolution, gates, query/key norm, recurrence and gated
// norm, as one dispatch, with the bits of gd_conv, gd_gates, gd_decode (out f32) and gd_norm in a chain.
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
// 1. Ask for the first rows of the state, z and the norm's weights. With TILE_ROWS = 2 GDM_STEP_ROWS, also for the second
//    rows: this takes more registers, and is for few threadgroups, which wait for nothing but their own reads.
// 2. Convolve the query and key channels of the key head, and the value head's own channels; resolve its decays. Rounded
//    to T, as the unfused chain stores. Barrier.
// 3. Each group of GDM_STEP_LANES lanes normalises key and query once and takes GDM_STEP_ROWS rows at a time: decay,
//    update, write; outputs stay in threadgroup memory (f32). Barrier.
// 4. Every simdgroup sums the squares of the outputs; each thread writes its share.
// 5. The last threadgroup of a key head writes the columns of its query and key channels.
//
// The taps that threadgroups share. All value heads of a key head convolve the same query and key channels, in place:
// their columns may be moved on only after all of those threadgroups have read them. The last one to read them moves
// them. A threadgroup arrives after the barrier of step 2, by which all its threads have their columns: one thread
// fences device memory and adds one to the key head's counter (relaxed, the only order that Metal's atomics have); the
// one that finds ratio - 1 arrivals before its own is the last, fences again, and after the next barrier its threads
// write. Read, barrier, fence, add, add's read, fence, barrier, write: every read happens before the write in the model
// of MSL 3.2 (6.9.1, 6.15.3). Nothing that is written is read by another threadgroup of the dispatch, so no
// argument needs coherent(device). No threadgroup waits for another, so no guarantee of progress
// is needed. Counters begin at any multiple of the ratio, since each dispatch adds the ratio.
//
// Formulas: conv.h, gates.h, rows.h, norm.h. Function constants: all but NORM_X_F32, HAS_STORES, RECORD, RESOLVE_GATES,
// PARTS, ALIGNED_ROWS, OUT_AT_ONCE and PACKED_ROW.
#include "conv.h"
#include "gates.h"
#include "norm.h"
#include "states.h"

// The value head of a threadgroup, with the key head that serves it.
struct StepHead {
  uint valueHead;
  uint keyHead;
  uint keyHeads;
  uint keyDim;
  uint valueDim;
};

// The threadgroup memory of a value head: rows of the key dim, or of one decay; rows of the value dim.
struct StepMemory {
  threadgroup float* query;
  threadgroup float* key;
  threadgroup float* decay;
  threadgroup float* value;
  threadgroup float* out;
  threadgroup float* gate;
};

// The convolution of one token: `input` [C], and the columns of its sequence.
template <typename T> struct StepConv {
  device const T* input;
  device const ushort* weight;
  device const ushort* bias;
  device T* state;
  device const T* staged;
  int readSlot;
  int writeSlot;
  uint channels;
};

// The channel of item i: the key head's query, its key, the value head's own.
METAL_FUNC uint step_channel(uint i, StepHead head) {
  if (i < head.keyDim) return head.keyHead * head.keyDim + i;
  if (i < 2 * head.keyDim) return (head.keyHeads + head.keyHead) * head.keyDim + (i - head.keyDim);
  return 2 * head.keyHeads * head.keyDim + head.valueHead * head.valueDim + (i - 2 * head.keyDim);
}

// Step 2: convolves the head's channels into threadgroup memory, and writes the columns that no other head reads. The columns
// of a thread's first channel stay in `taps`, moved on, for step_move.
template <typename T>
METAL_FUNC void step_convolve(thread ConvTaps& taps, thread const StepConv<T>& conv, thread const StepMemory& memory,
                              StepHead head, uint index, uint threads) {
  GDM_UNROLL for (uint j = 0; j < GDM_CONV_MAX_TAPS; ++j) taps.column[j] = 0u;
  uint keyDim = head.keyDim;
  uint items = 2 * keyDim + head.valueDim;
  for (uint i = index; i < items; i += threads) {
    uint channel = step_channel(i, head);
    ConvTaps read;
    ConvWeights w;
    conv_read(read, (device const T*)conv.state, conv.staged, conv.readSlot, conv.channels, channel);
    conv_weights(w, conv.weight, conv.bias, channel);
    float y = float(T(conv_token(read, w, conv.input[channel])));
    if (i < keyDim) memory.query[i] = y;
    else if (i < 2 * keyDim) memory.key[i - keyDim] = y;
    else memory.value[i - 2 * keyDim] = y;
    if (i >= 2 * keyDim && conv.writeSlot >= 0) {
      conv_write(conv.state, read, uint(conv.writeSlot), conv.channels, channel);
    }
    if (i == index) taps = read;
  }
}

// Arrivals at a counter before this one: everything that the caller's threadgroup has read was read before any
// threadgroup that arrives later writes. Orders only reads before writes; nothing written is read elsewhere, so nothing
// is coherent.
METAL_FUNC uint step_arrive(device atomic_uint* counter, uint ratio) {
  atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);
  uint before = atomic_fetch_add_explicit(counter, 1u, memory_order_relaxed);
  if (before % ratio == ratio - 1) atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);
  return before;
}

// Step 3 for the rows of a lane group: decay, update, outputs to threadgroup memory.
template <uint L, uint G, uint R>
METAL_FUNC void step_rows(thread Rows<L, G, R>& s, thread const Row<L, G>& k, thread const Row<L, G>& q, float beta,
                          thread const StepMemory& memory, RowSet set, uint headRow, uint keyDim) {
  if (GATE_PER_KEY) {
    Row<L, G> decay;
    row_load(decay, memory.decay, set.lane, keyDim);
    rows_scale(s, decay);
  } else {
    rows_scale(s, memory.decay[0]);
  }
  Step<L, G, R> step;
  GDM_UNROLL for (uint r = 0; r < R; ++r) step.value[r] = memory.value[row_of(set, r) - headRow];
  rows_step(s, k, q, step, beta, set.lane, keyDim);
  GDM_UNROLL for (uint r = 0; r < R; ++r) {
    if (set.lane == 0 && row_exists(set, r)) memory.out[row_of(set, r) - headRow] = step.out[r];
  }
}

// Step 4: 1 / rms of the head's outputs. Every lane of the simdgroup must call it.
METAL_FUNC float step_norm(thread const StepMemory& memory, uint simdLane, uint valueDim, float epsilon) {
  float sum = 0.0f;
  GDM_UNROLL for (uint i = 0; i < GDM_MAX_DIM / (4 * GDM_SIMD_LANES); ++i) {
    uint at = norm_element(simdLane, i);
    if (at < valueDim) {
      GDM_UNROLL for (uint j = 0; j < 4; ++j) {
        float u = norm_operand(memory.out[at + j], NORM_GATE_FIRST ? memory.gate[at + j] : 0.0f);
        sum = fma(u, u, sum);
      }
    }
  }
  return norm_inverse(sum, valueDim, epsilon);
}

// Step 5: writes the query and key columns. Those of a thread's first channel are in `taps`; others are read and moved on again.
template <typename T>
METAL_FUNC void step_move(thread ConvTaps& taps, thread const StepConv<T>& conv, StepHead head, uint index, uint threads) {
  for (uint i = index; i < 2 * head.keyDim; i += threads) {
    uint channel = step_channel(i, head);
    if (i > index) {
      conv_read(taps, (device const T*)conv.state, conv.staged, conv.readSlot, conv.channels, channel);
      conv_move(taps, conv_column(conv.input[channel]));
    }
    conv_write(conv.state, taps, uint(conv.writeSlot), conv.channels, channel);
  }
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
  StepMemory memory = {(threadgroup float*)queryMemory, (threadgroup float*)keyMemory, (threadgroup float*)decayMemory,
                       valueRow, outRow, gateRow};

  uint threads = threadCounts.x;
  uint keyHeads = params.keyHeads;
  uint valueHeads = params.valueHeads;
  uint keyDim = G < 64 ? 4 * G : params.keyDim;
  uint valueDim = params.valueDim;
  uint valueHead = group.x;
  uint token = group.y;
  uint keyHead = key_head_of(valueHead, keyHeads, valueHeads);
  uint ratio = valueHeads / keyHeads;
  uint decayDim = GATE_PER_KEY ? keyDim : 1;
  int readSlot = SMALL_BATCH ? batch.readSlots[token] : readSlots[token];
  int writeSlot = SMALL_BATCH ? batch.writeSlots[token] : writeSlots[token];
  StepHead head = {valueHead, keyHead, keyHeads, keyDim, valueDim};
  StepConv<T> conv = {x + ulong(token) * params.xTokenStride, convWeight, convBias, convState, convStaged, readSlot, writeSlot,
                      2 * keyHeads * keyDim + valueHeads * valueDim};
  ulong zAt = ulong(token) * params.zTokenStride + ulong(valueHead) * params.zHeadStride;

  // 1. If TILE_ROWS asks ahead, `bits` are the current rows and `nextBits` the ones after them.
  uint lane = index % L;
  uint apart = threads / L;
  uint headRow = valueHead * valueDim;
  RowSet set = {headRow + index / L, apart, headRow + valueDim, lane};
  States<S> states = {state, staged, state, (device const GDMStore*)staged, 0, 0, valueHeads * valueDim, keyDim};
  Rows<L, G, R> s;
  RowsBits<S, L, G, R> bits;
  RowsBits<S, L, G, R> nextBits;
  if (ahead) {
    states_ask(bits, states, readSlot, set);
    set.first += R * apart;
    states_ask(nextBits, states, readSlot, set);
  } else {
    states_read(s, states, readSlot, set);
  }
  uint element = min(index, valueDim - 1);
  float elementZ = float(z[zAt + element]);
  float elementWeight = read_any(normWeight, element, NORM_WEIGHT_DTYPE);

  // 2.
  ConvTaps taps;
  step_convolve(taps, conv, memory, head, index, threads);
  for (uint i = threads - 1 - index; i < decayDim; i += threads) {
    ulong at = ulong(token) * params.gateTokenStride + ulong(valueHead) * params.gateHeadStride + i;
    memory.decay[i] = gate_read(gate, at, aLog, valueHead, dtBias, valueHead * decayDim + i, params.bound);
  }
  if (index == 0) {
    betaOf[0] = beta_read(beta, ulong(token) * params.betaTokenStride + ulong(valueHead) * params.betaHeadStride);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
  if (index == 0 && ratio > 1) before[0] = step_arrive(arrivals + (token * keyHeads + keyHead), ratio);

  // 3. The norm's gate does not need the rows, and has arrived while the channels were convolved.
  float elementGate = norm_gate(elementZ);
  Row<L, G> k;
  Row<L, G> q;
  row_load(k, memory.key, lane, keyDim);
  row_load(q, memory.query, lane, keyDim);
  rows_normalise(k, q, lane, keyDim, params.epsilon, params.scale);
  float b = betaOf[0];
  for (uint first = 0; first < valueDim; first += R * apart) {
    set.first = headRow + first + index / L;
    if (ahead) {
      if (first > 0) {
        bits = nextBits;
        set.first += R * apart;
        if (first + R * apart < valueDim) states_ask(nextBits, states, readSlot, set);
        set.first -= R * apart;
      }
      states_widen(s, bits);
    } else if (first > 0) {
      states_read(s, states, readSlot, set);
    }
    step_rows(s, k, q, b, memory, set, headRow, keyDim);
    if (writeSlot >= 0) states_write(states, state, uint(writeSlot), s, set);
  }
  if (NORM_GATE_FIRST) {
    for (uint i = index; i < valueDim; i += threads) {
      memory.gate[i] = i == index ? elementGate : norm_gate(float(z[zAt + i]));
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);

  // 4. Whole simdgroups with or without an output.
  uint simdLane = index % GDM_SIMD_LANES;
  if (index - simdLane < valueDim) {
    float inverse = step_norm(memory, simdLane, valueDim, params.normEpsilon);
    ulong outAt = ulong(token) * params.outTokenStride + ulong(valueHead) * params.outHeadStride;
    for (uint i = index; i < valueDim; i += threads) {
      float gateOf = i == index ? elementGate : norm_gate(float(z[zAt + i]));
      float w = i == index ? elementWeight : read_any(normWeight, i, NORM_WEIGHT_DTYPE);
      write_wide(out, outAt + i, norm_result(memory.out[i], gateOf, inverse, w), OUT_F32);
    }
  }

  // 5.
  if (writeSlot >= 0 && (ratio == 1 || before[0] % ratio == ratio - 1)) step_move(taps, conv, head, index, threads);
}

// Names: gd_step_<T>_<S>_<key dim>; kany serves any multiple of 8 up to 256.
GDM_INSTANTIATE_TSK(gd_step)
