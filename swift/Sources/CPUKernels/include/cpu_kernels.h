/* The CPU backend's kernels: plain C over raw pointers, one table of kernels for every instruction set.
 *
 * The caller has checked everything: sizes, strides, overlaps and slots. An op is split into independent work items that
 * may run in any order, on any threads; no result bit depends on the split. An item touches only its own
 * outputs and states, so a state may be updated in place. A state that one sequence writes and another reads has to be
 * copied aside first, and its reader pointed at the copy.
 *
 * The options' values are in option_values.h. Strides are in elements, vectors are contiguous. */
#ifndef GATED_DELTA_CPU_KERNELS_H
#define GATED_DELTA_CPU_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "option_values.h"
#include "weight_formats.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Limits that the scratch memory is sized for. */
enum { GD_CPU_MAX_DIM = 256, GD_CPU_MAX_WIDTH = 9 };

/* A tensor [tokens, heads, elements]; data is NULL if it is absent. */
typedef struct gd_cpu_tensor {
  void *data;
  int64_t token_stride, head_stride;
  uint32_t dtype;
} gd_cpu_tensor;

/* The state after `after` tokens of a sequence (0: as it was read), also stored to `state`: one slot,
 * [valueHeads, valueDim, keyDim]. Neither read nor written by any other sequence. */
typedef struct gd_cpu_state_store {
  int64_t after;
  void *state;
  uint32_t dtype;
} gd_cpu_state_store;

/* Rows first .. first + count - 1 of the op's inputs, and its slot of the pool before and after. read NULL starts from
 * zero, write NULL drops the final state. If count is 0, the state is copied. */
typedef struct gd_cpu_sequence {
  int64_t first, count;
  const void *read;
  void *write;
  const gd_cpu_state_store *stores; /* ascending by after; only gated_delta and causal_conv1d have them */
  int64_t store_count;
} gd_cpu_sequence;

/* The formulas of decay and beta. a_log and dt_bias are present only for the raw forms. */
typedef struct gd_cpu_gates {
  uint32_t gate_form, gate_dims, beta_form;
  float bound;
  gd_cpu_tensor gate, beta, a_log, dt_bias;
} gd_cpu_gates;

/* Heads and the normalisation of query and key. */
typedef struct gd_cpu_heads {
  int64_t key_heads, value_heads, key_dim, value_dim;
  uint32_t head_map, qk_norm;
  float qk_norm_eps, scale;
} gd_cpu_heads;

/* The update of a state by each token, f32, contiguous: key [tokens, keyHeads, keyDim] (normalised), delta
 * [tokens, valueHeads, valueDim], decay [tokens, valueHeads] or [tokens, valueHeads, keyDim]. All NULL if there are no
 * records. */
typedef struct gd_cpu_records {
  float *key, *delta, *decay;
} gd_cpu_records;

typedef struct gd_cpu_gated_delta {
  gd_cpu_heads heads;
  gd_cpu_gates gates;
  gd_cpu_tensor query, key, value, out;
  gd_cpu_records records;
  uint32_t state_dtype;
  int64_t rows_per_item; /* value rows that one work item owns: a multiple of 8 */
  const gd_cpu_sequence *sequences;
  int64_t sequence_count;
} gd_cpu_gated_delta;

/* S <- a S + d k^T for the records of rows first .. first + count - 1 of each sequence: the same updates as
 * gated_delta's. */
typedef struct gd_cpu_commit_gated_delta {
  gd_cpu_heads heads; /* only the shape and the map */
  uint32_t gate_dims, state_dtype;
  gd_cpu_records records;
  int64_t rows_per_item;
  const gd_cpu_sequence *sequences;
  int64_t sequence_count;
} gd_cpu_commit_gated_delta;

typedef struct gd_cpu_causal_conv1d {
  int64_t channels, width;
  uint32_t activation; /* none or silu */
  gd_cpu_tensor x, weight, bias, out;
  uint32_t state_dtype;
  int64_t channels_per_item; /* a multiple of 16, at most GD_CPU_CONV_BLOCK */
  const gd_cpu_sequence *sequences;
  int64_t sequence_count;
} gd_cpu_causal_conv1d;
enum { GD_CPU_CONV_BLOCK = 256 };

/* The state as rows first .. first + count - 1 of x leave it; no output. */
typedef struct gd_cpu_commit_causal_conv1d {
  int64_t channels, width;
  gd_cpu_tensor x;
  uint32_t state_dtype;
  int64_t channels_per_item; /* as in gd_cpu_causal_conv1d */
  const gd_cpu_sequence *sequences;
  int64_t sequence_count;
} gd_cpu_commit_causal_conv1d;

typedef struct gd_cpu_gated_rms_norm {
  int64_t tokens, heads, dim;
  uint32_t activation, order;
  float eps;
  gd_cpu_tensor x, z, weight, out;
} gd_cpu_gated_rms_norm;

/* An item is a row: there are tokens * heads. */
typedef struct gd_cpu_rms_norm {
  int64_t tokens, heads, dim;
  uint32_t weight_form;
  float eps;
  gd_cpu_tensor x, weight, out;
} gd_cpu_rms_norm;

/* One token of each sequence. An item is a key head with its value heads: they share the key head's channels, so
 * its conv taps are shifted once, by the item that read them. */
typedef struct gd_cpu_gated_delta_step {
  gd_cpu_heads heads;
  gd_cpu_gates gates;
  int64_t width;
  uint32_t conv_activation, norm_activation, norm_order;
  float norm_eps;
  gd_cpu_tensor x, conv_weight, conv_bias, z, norm_weight, out;
  uint32_t conv_state_dtype, state_dtype;
  const gd_cpu_sequence *conv_sequences, *sequences; /* of the two pools; count is 1 */
  int64_t sequence_count;
} gd_cpu_gated_delta_step;

/* A matrix whose rows are read whole: a row is whole blocks of its format (weight_formats.h), and rows follow one
 * another. scales and biases [rows, blocks of a row], contiguous, of dtype; NULL if the format has none. */
typedef struct gd_cpu_matrix {
  uint32_t format; /* GD_CPU_FORMAT_* */
  uint32_t dtype;
  int64_t columns;
  const void *values, *scales, *biases;
} gd_cpu_matrix;

/* group: the columns that share a scale with int8 activations; 0: the format is multiplied exactly. middle: a number of the weight
 * minus the integer that it stands for. */
typedef struct gd_cpu_int8_form {
  int16_t group, middle;
  int16_t is_paired; /* neighbouring columns of the weight share a byte */
  int16_t is_small; /* no number is above 127 */
} gd_cpu_int8_form;
gd_cpu_int8_form gd_cpu_int8_form_of(uint32_t format);
/* Bytes from a rounded row to the next. */
int64_t gd_cpu_int8_stride(int64_t columns, gd_cpu_int8_form form);

enum { GD_CPU_INT8_TOGETHER = 64, GD_CPU_INT8_EACH = 8 };
/* Rows of x as signed bytes in groups, [rows, stride], and for each group its scale, the sum of its numbers times the scale, and
 * the start value of its integer products: [rows, groups]. stride is gd_cpu_int8_stride; bytes after the columns are zeros, and 15
 * more elements follow those of the last group. An item is a row: head r mod ranks of token r / ranks of x. */
typedef struct gd_cpu_int8_rows {
  int64_t rows, columns, ranks;
  gd_cpu_tensor x;
  gd_cpu_int8_form form;
  int64_t stride, groups;
  int8_t *values;
  float *scales, *sums;
  int32_t *starts;
  int64_t shared; /* the number of neighbouring places of gd_cpu_linear that share a row here */
  /* NULL, or memory of int8_turned_bytes for the same rows in the order in which the kernels of `format` take several rows. An
   * item is then two groups of all rows or, if there are more than GD_CPU_INT8_TOGETHER rows, GD_CPU_INT8_EACH rows. */
  uint8_t *turned;
  uint32_t format;
} gd_cpu_int8_rows;

/* An item is a block of GD_CPU_LINEAR_BLOCK output features, with all rows or those of a panel. residual is NULL if there is none,
 * and may be out itself. places: NULL, or for each row the place in x and out, which then have `ranks` heads per token: head
 * p mod ranks of token p / ranks. Then there is no residual. */
typedef struct gd_cpu_linear {
  int64_t rows, out_features;
  gd_cpu_tensor x, residual, out;
  gd_cpu_matrix weight; /* [outFeatures, inFeatures] */
  const int32_t *places;
  int64_t ranks;
  const gd_cpu_int8_rows *rounded; /* instead of x, for int8_linear and int8_expert_linear */
  const float *arranged; /* NULL, or what arrange_linear has written */
} gd_cpu_linear;
enum { GD_CPU_LINEAR_BLOCK = 16 };
/* The most floats, columns and rows of a panel of x, and the most rows if it has only a part of the columns. */
enum { GD_CPU_LINEAR_PANEL = 216 << 10, GD_CPU_LINEAR_DEPTH = 4096, GD_CPU_LINEAR_ROWS = 144, GD_CPU_LINEAR_DEEP_ROWS = 48 };

/* Entries first .. first + count - 1 of an expert_linear's places: the rows of an expert or, if expert is -1, those whose
 * ids are of no expert. */
typedef struct gd_cpu_expert_group {
  int64_t expert, first, count;
} gd_cpu_expert_group;

/* Rows by the matrices of experts. linear: what the groups share, with the matrix of the first expert and all places,
 * group by group. An item is a block of output features of a group. */
typedef struct gd_cpu_expert_linear {
  gd_cpu_linear linear;
  const gd_cpu_expert_group *groups;
  int64_t group_count;
  /* The blocks of each expert's matrix; NULL if the matrices follow one another. */
  const void *const *pieces;
} gd_cpu_expert_linear;

/* An item is a token. ids and weights [tokens, chosen]. */
typedef struct gd_cpu_route {
  int64_t tokens, experts, chosen;
  uint32_t normalize;
  gd_cpu_tensor logits;
  int32_t *ids;
  float *weights;
} gd_cpu_route;
enum { GD_CPU_MOST_EXPERTS = 4096 };

/* An item is a row. values and ids [rows, chosen]. */
typedef struct gd_cpu_top_k {
  int64_t rows, columns, chosen;
  gd_cpu_tensor x;
  float *values;
  int32_t *ids;
} gd_cpu_top_k;

/* An item is a block of a token's row. experts [tokens, chosen, dim], weights [tokens, chosen]; shared, shared_gate and
 * residual are NULL if absent; residual may be out itself. */
typedef struct gd_cpu_combine_experts {
  int64_t tokens, chosen, dim;
  gd_cpu_tensor experts, shared, shared_gate, residual, out;
  const float *weights;
} gd_cpu_combine_experts;
enum { GD_CPU_COMBINE_BLOCK = 512 };

/* An item is a row of out: row ids[item] of the matrix. */
typedef struct gd_cpu_embedding {
  int64_t rows;
  gd_cpu_matrix weight; /* [vocabulary, dim] */
  gd_cpu_tensor out;
  const int32_t *ids; /* negative: a row of zeros */
} gd_cpu_embedding;

/* An item is a row: there are tokens * heads. out may be a or b itself. */
typedef struct gd_cpu_elementwise {
  uint32_t operation; /* GD_CPU_ELEMENTWISE_* */
  int64_t tokens, heads, dim;
  gd_cpu_tensor a, b, out;
} gd_cpu_elementwise;

/* A sequence of an attention: rows first .. first + count - 1 of the op, which come after `past` tokens, and the pages of
 * all of them. */
typedef struct gd_cpu_paged_sequence {
  int64_t first, count, past;
  const int32_t *pages;
  /* NULL, or where the spans' results go: [key heads, count * heads / key heads, spans, gd_cpu_attention_partial]. */
  float *partials;
  int64_t spans;
} gd_cpu_paged_sequence;

/* Rows first_row .. first_row + row_count - 1 of a sequence's, row i being query head i mod g of its token i / g with
 * g = heads / key heads, and spans first_span .. end_span - 1 of their keys: all of them if the sequence has no
 * partials. */
typedef struct gd_cpu_attention_task {
  int64_t sequence, first_row, row_count;
  int64_t first_span, end_span;
} gd_cpu_attention_task;
enum { GD_CPU_ATTENTION_SPAN = 512, GD_CPU_ATTENTION_ROWS = 64 /* of a task, at most */ };

/* Three kernels, one after another: attention_store, whose item is a key head of a row; attention, whose item is a key
 * head of a task; attention_combine, whose item is a key head of a sequence: it has work if there are partials. */
typedef struct gd_cpu_attention {
  int64_t heads, key_heads, head_dim, rotary_dim;
  uint32_t weight_form;
  float norm_eps, scale;
  gd_cpu_tensor query, key, value, gate, query_norm, key_norm, out;
  uint32_t page_dtype;
  int64_t page_tokens;
  void *key_pages, *value_pages;
  const int64_t *places; /* by row: page * key heads * page_tokens + row of the page */
  const float *angles;   /* by row: rotary_dim / 2 cosines, as many sines */
  const gd_cpu_paged_sequence *sequences;
  const gd_cpu_attention_task *tasks;
} gd_cpu_attention;

/* Slot write of a pool becomes slot read; NULL reads zeros. */
typedef struct gd_cpu_slot_copy {
  const void *read;
  void *write;
} gd_cpu_slot_copy;

typedef struct gd_cpu_copy_slots {
  int64_t slot_bytes;
  const gd_cpu_slot_copy *copies;
  int64_t count;
} gd_cpu_copy_slots;

/* Independent work items of one sequence (gated_delta, causal_conv1d, their commits, gated_delta_step) or of the whole
 * op. Items are numbered sequence by sequence. */
int64_t gd_cpu_gated_delta_items(const gd_cpu_gated_delta *op);
int64_t gd_cpu_causal_conv1d_items(const gd_cpu_causal_conv1d *op);
int64_t gd_cpu_gated_rms_norm_items(const gd_cpu_gated_rms_norm *op);
int64_t gd_cpu_gated_delta_step_items(const gd_cpu_gated_delta_step *op);
int64_t gd_cpu_linear_items(const gd_cpu_linear *op);
int64_t gd_cpu_int8_rows_items(const gd_cpu_int8_rows *op);
/* The number of panels of x, each of which `linear` multiplies by all items; the rows of each panel but the last. */
int64_t gd_cpu_linear_panels(const gd_cpu_linear *op);
int64_t gd_cpu_linear_panel_rows(const gd_cpu_linear *op);
/* Items of one group. */
int64_t gd_cpu_expert_linear_items(const gd_cpu_expert_linear *op);
int64_t gd_cpu_combine_experts_items(const gd_cpu_combine_experts *op);
/* Groups the rows of an expert_linear by their ids, which it reads once: groups in ascending order of experts, rows of
 * no expert last, the rows of a group in their own order. counts: experts + 1 numbers; places and copy: rows of them; groups:
 * as many as rows or as experts + 1, whichever is less. Returns the number of groups. wrong: the first row whose id is of no
 * expert, or -1. */
int64_t gd_cpu_expert_groups(
  const int32_t *ids, int64_t rows, int64_t experts, int64_t *counts, int32_t *copy, int32_t *places,
  gd_cpu_expert_group *groups, int64_t *wrong);
/* Floats of one span's result of one row. */
int64_t gd_cpu_attention_partial(const gd_cpu_attention *op);
int64_t gd_cpu_copy_slots_items(const gd_cpu_copy_slots *op);
int64_t gd_cpu_commit_gated_delta_items(const gd_cpu_commit_gated_delta *op);
int64_t gd_cpu_commit_causal_conv1d_items(const gd_cpu_commit_causal_conv1d *op);

/* Runs items begin .. end - 1. scratch: gd_cpu_scratch_bytes() bytes of the calling thread's own, 64-byte aligned. The
 * caller has entered gd_cpu_float_environment. stop: a word that another thread may set at any time to something other
 * than 0. It is checked between items, and inside long ones after at most a millisecond of work (except for rows of more
 * than a million elements); once it is set the function returns, and its outputs are undefined. */
typedef void gd_cpu_run(const void *op, int64_t begin, int64_t end, void *scratch, const uint32_t *stop);

/* Linears that multiply the same rows, of one panel if there are several linears. Items: those of the first linear, then those of
 * the second, and so on. run: linear or int8_linear of gd_cpu_kernels. */
typedef struct gd_cpu_linears {
  gd_cpu_run *run;
  const gd_cpu_linear *ops;
  int64_t count;
} gd_cpu_linears;
gd_cpu_run gd_cpu_linears_run;

typedef struct gd_cpu_kernels {
  const char *name; /* the value of GATED_DELTA_ISA that asks for it */
  gd_cpu_run *gated_delta, *gated_delta_chunked, *causal_conv1d, *gated_rms_norm, *rms_norm, *gated_delta_step, *linear;
  /* Puts a few rows of x into the order in which `linear` takes them, from a multiple of 64 on, unless `to` is NULL. Returns the
   * number of floats; 0 if the rows are taken in another way. Without it, each call of `linear` arranges them for itself. */
  int64_t (*arrange_linear)(const gd_cpu_linear *op, float *to);
  gd_cpu_run *elementwise, *embedding, *copy_slots;
  gd_cpu_run *route, *expert_linear, *combine_experts, *top_k;
  gd_cpu_run *int8_rows, *int8_linear, *int8_expert_linear;
  /* Bytes of gd_cpu_int8_rows.turned, from a multiple of 64 on, for a weight's format; 0 if its kernels have no use for it. */
  int64_t (*int8_turned_bytes)(uint32_t format, int64_t rows, int64_t columns);
  gd_cpu_run *attention_store, *attention, *attention_combine;
  gd_cpu_run *commit_gated_delta, *commit_causal_conv1d;
  /* The number of state rows that gated_delta keeps together in the nearest cache: block 0 measures, the first time, which of a
   * few numbers is the fastest, in about a tenth of a millisecond; a multiple of 8 sets the number. Returns it. No result bit
   * depends on it. scratch: gd_cpu_scratch_bytes() bytes, whose contents are lost. */
  int32_t (*choose_block)(void *scratch, int32_t block);
  /* The same for bf16 states and single tokens: 1: a row is widened for its sum and again for its update; 2: it is kept
   * in between. Instruction sets that know only 1 always use it. */
  int32_t (*choose_widening)(void *scratch, int32_t way);
  /* The same for many tokens: 1, plus 2 if tokens go over panels of the state where a decay is one number, plus 4 if they do so
   * where decays are per key dimension. */
  int32_t (*choose_turning)(void *scratch, int32_t ways);
  /* The helpers that the whole library uses, for its tests: out[i] = f(in[i]). */
  void (*exp)(const float *in, float *out, int64_t count);
  void (*sigmoid)(const float *in, float *out, int64_t count);
  void (*softplus)(const float *in, float *out, int64_t count);
  void (*silu)(const float *in, float *out, int64_t count);
  void (*activation_sigmoid)(const float *in, float *out, int64_t count);
  /* Reads count elements of one dtype and writes them as another, rounding to nearest even; NaN stays NaN. */
  void (*convert)(const void *in, uint32_t in_dtype, void *out, uint32_t out_dtype, int64_t count);
} gd_cpu_kernels;

/* Every instruction set by name, best first; NULL past the last. */
const char *gd_cpu_isa_name(int32_t index);
/* NULL if the name is unknown, or this processor or its operating system lacks the instructions. */
const gd_cpu_kernels *gd_cpu_kernels_named(const char *name);
const gd_cpu_kernels *gd_cpu_kernels_best(void);

/* The number of memory pages that kernels ask for in turn: 0, 4 or 8; the processor's own choice unless set before any kernel runs. Also
 * decides the least and most int8 rows that are lanes, and how exact 8-bit rows are unpacked. No bit depends on it. 0 for others. */
int gd_cpu_ask_by_pages(int32_t pages);
/* Whether int8 kernels are those for 512-bit vector units: 0 or 1, with the same default and bits. Returns 0 for other numbers. */
int gd_cpu_take_as_wide(int32_t wide);

size_t gd_cpu_scratch_bytes(void);

/* Every thread computes in the same mode: round to nearest, denormals kept, no traps. Returns the previous mode, for
 * gd_cpu_float_environment_leave. */
uint64_t gd_cpu_float_environment_enter(void);
void gd_cpu_float_environment_leave(uint64_t before);

/* Tells the processor that this thread spins. */
void gd_cpu_pause(void);

/* The processor's own name, NUL-terminated, or an empty string. */
void gd_cpu_brand(char *name, size_t size);

/* Cores that this process may run on, at least 1. */
int32_t gd_cpu_usable_cores(void);

/* 1 if other work wanted the calling thread's core since the last call: the system took it away, and the thread has
 * waited for a core a tenth of the time or more. Else 0, as in the first call and if the system does not say. */
int32_t gd_cpu_lost_core(void);

/* Names the calling thread, for debuggers and top: at most 15 characters. */
void gd_cpu_name_thread(const char *name);

#ifdef __cplusplus
}
#endif
#endif
