// Gates and betas of a batch, resolved to the float32 that the recurrence takes.
//
// gate [tokens, Hv] or, per key dimension, [tokens, Hv, Dk]: GATE_DTYPE, token and head strides in elements.
// beta [tokens, Hv]: BETA_DTYPE, token and head strides. aLog [Hv], dtBias [Hv] or [Hv, Dk]: read if the form is raw.
// decay [tokens, Hv, dims] f32, contiguous; betaOut [tokens, Hv] f32, contiguous. dims is 1 or Dk.
//
// Grid: (ceil(tokens Hv dims / GDM_GATE_THREADS)) threadgroups of GDM_GATE_THREADS; a thread writes one decay, and the
// thread of a head's first dimension its beta. Formulas: gates.h.
// Function constants: GATE_FORM, BETA_FORM, GATE_DTYPE, BETA_DTYPE, A_LOG_DTYPE, DT_BIAS_DTYPE.
#include "gates.h"

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
