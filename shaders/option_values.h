/* Generated from gated_delta.h: change that header and run `node swift/scripts/layout.mjs` again. */
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
  GDM_NORM_THEN_GATE = 1,
  GDM_GATE_THEN_NORM = 2
};

#endif
