/* The whole of one instruction set: included once by each isa_*.c, inside its target region, with GD_TABLE the name of
 * the table to define, GD_ISA_NAME its name in GATED_DELTA_ISA, and GD_ISA_INT8 the kernels of int8 activations. With
 * GD_DOT_TABLE there is a second table with other ones, GD_DOT_NAME and GD_DOT_INT8. */

#include "simd.h"
#include "math.h"
#include "sums.h"
#include "rows.h"
#include "delta_parts.h"
#include "delta_passes.h"
#include "delta_pass_tables.h"
#include "delta.h"
#include "chunk_tiles.h"
#include "delta_state.h"
#include "delta_panel.h"
#include "delta_tokens.h"
#include "delta_choice.h"
#include "delta_block.h"
#include "delta_widening.h"
#include "delta_turning.h"
#include "states.h"
#include "gated_delta.h"
#include "chunk.h"
#include "chunk_panel.h"
#include "gated_delta_chunked.h"
#include "conv.h"
#include "causal_conv1d.h"
#include "commits.h"
#include "norm.h"
#include "gated_rms_norm.h"
#include "rms_norm.h"
#include "gated_delta_step.h"
#include "matrix.h"
#include "linear_finish.h"
#include "linear_few.h"
#include "affine_placed.h"
#include "linear_dot.h"
#include "linear_small.h"
#include "linear_blocks.h"
#include "linear_tiles.h"
#include "linear.h"
#include "expert_run.h"
#include "expert_linear.h"
#include "embedding.h"
#include "elementwise.h"
#include "attention_tiles.h"
#include "attention.h"
#include "route.h"
#include "top_k.h"
#include "combine_experts.h"

#define GD_MAP(NAME, F)                                                       \
  static void NAME(const float *in, float *out, int64_t count) {              \
    int64_t i = 0;                                                            \
    for (; i + GD_WIDTH <= count; i += GD_WIDTH) {                            \
      store(out, i, GD_CPU_F32, F(load(in, i, GD_CPU_F32)));                  \
    }                                                                         \
    for (; i < count; i++) out[i] = F(splat(in[i]))[0];                       \
  }
GD_MAP(map_exp, exp_vf)
GD_MAP(map_sigmoid, sigmoid_vf)
GD_MAP(map_softplus, softplus_vf)
GD_MAP(map_silu, silu_vf)
GD_MAP(map_activation_sigmoid, activation_sigmoid_vf)
#undef GD_MAP

static void map_convert(const void *in, uint32_t in_dtype, void *out, uint32_t out_dtype, int64_t count) {
  convert(in, 0, in_dtype, out, 0, out_dtype, count);
}

#define GD_INT8_KERNEL(ISA, KERNEL) gd_cpu_int8_##ISA##_##KERNEL
#define GD_KERNELS(NAME, ISA) \
  { \
    .name = NAME, .int8_rows = GD_INT8_KERNEL(ISA, rows), .int8_linear = GD_INT8_KERNEL(ISA, linear), \
    .int8_expert_linear = GD_INT8_KERNEL(ISA, expert_linear), .int8_turned_bytes = GD_INT8_KERNEL(ISA, turned_bytes), \
    .gated_delta = gated_delta, .gated_delta_chunked = gated_delta_chunked, .causal_conv1d = causal_conv1d, \
    .gated_rms_norm = gated_rms_norm, .rms_norm = rms_norm, .gated_delta_step = gated_delta_step, \
    .linear = linear, .arrange_linear = linear_arrange, .elementwise = elementwise, .embedding = embedding, .route = route, \
    .expert_linear = expert_linear, .combine_experts = combine_experts, .top_k = top_k, .copy_slots = gd_cpu_copy_slots_run, \
    .attention_store = attention_store, .attention = attention, .attention_combine = attention_combine, \
    .commit_gated_delta = commit_gated_delta, .commit_causal_conv1d = commit_causal_conv1d, \
    .choose_block = delta_choose_block, .choose_widening = delta_choose_widening, \
    .choose_turning = delta_choose_turning, .exp = map_exp, \
    .sigmoid = map_sigmoid, .softplus = map_softplus, .silu = map_silu, \
    .activation_sigmoid = map_activation_sigmoid, .convert = map_convert, \
  }

const gd_cpu_kernels GD_TABLE = GD_KERNELS(GD_ISA_NAME, GD_ISA_INT8);
#if defined(GD_DOT_TABLE)
const gd_cpu_kernels GD_DOT_TABLE = GD_KERNELS(GD_DOT_NAME, GD_DOT_INT8);
#endif
