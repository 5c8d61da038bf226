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

#include "storage.h"

METAL_FUNC float gate_decay(float gate, float aLog, float dtBias, float bound) {
  if (GATE_FORM == GDM_GATE_DECAY) return gate;
  if (GATE_FORM == GDM_GATE_LOG) return gd_exp(gate);
  if (GATE_FORM == GDM_GATE_NEG_LOG) return gd_exp(-gate);
  float x = gate + dtBias;
  if (GATE_FORM == GDM_GATE_RAW) return gd_exp(-(gd_exp(aLog) * gd_softplus(x)));
  if (GATE_FORM == GDM_GATE_RAW_SSM) return gd_exp(aLog * gd_softplus(x));
  return gd_exp(bound * gd_sigmoid(gd_exp(aLog) * x));
}

// Reads the values that the form needs: gate at gateAt, A_log of the head, dt_bias at biasAt.
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
