/* GatedDelta: fused Gated DeltaNet operations behind a plain C boundary.
 *
 * This header is the single description of every struct, option and op that crosses the boundary. From it,
 * swift/scripts/layout.mjs generates static assertions on the layouts, export lists, the option enums of Swift, C and
 * Metal, the Swift functions that encode, and the TypeScript tables of layouts, options and arguments.
 *
 * Conventions
 *  - A function returns gd_status. GD_OK is 0; any other value except GD_PENDING is a failure, which gd_last_error()
 *    describes for the calling thread. A failing call writes nothing, neither to tensors nor through out-pointers.
 *  - Handles are integers below 2^53 that carry a generation: a stale or foreign handle is GD_ERROR_HANDLE. 0 is none.
 *  - A pointer argument must be NULL or valid for its stated size.
 *  - A descriptor starts with its size in bytes and its version, so that it can grow. Reserved fields are 0.
 *  - A device belongs to the thread that opened it, and so do its plans: calls from another thread are
 *    GD_ERROR_STATE. gd_buffer_release and gd_buffer_deallocate may be called from any thread.
 *  - Layouts are row-major, last index fastest. Offsets are in bytes, strides in elements.
 *
 * Annotations: a comment that begins with @ is read by the generator.
 *  - "@option Name: text" before constants that are the values of an option, each with "@name: text", the public name;
 *    "@choice Name of Option: a b: text" is an option that takes some of another's values.
 *  - In the struct of an op every field but size, version and reserved is an argument of the public function. Its public
 *    name is the field's in camel case or "@as name"; "@as group.member" is a member of a nested object. An argument is
 *    required unless it is "@optional" or has a "@default value". A u32 is an integer ("@from least"), "@boolean", or one
 *    of an option's values ("@is Option"), 0 if it is "@optional" and omitted. A tensor "@of dtype" has no other dtype. A
 *    float is a finite number ("@from least", "@above limit"). A default of nan means that the default depends on other
 *    arguments; the op's validation checks such values.
 *  - "@bound name": the public function's argument `states`, a layer's states in a pass over a pool, provides this
 *    argument under that name, or excludes it ("@bound nothing").
 *  - "@in module" after an op's struct: its function is in that module, not in the main one. "@elementwise": the op is
 *    elementwise, with two tensors and out; the kernels have a function for each such op.
 *  - "@block elements bytes dtype" after a value's name makes it a weight format: a row of such a matrix is a series of
 *    blocks of that many elements in that many bytes, and `weight` is a tensor of that dtype. "@scales dtype" and
 *    "@biases dtype": a separate tensor has one scale or bias per block; dtype "float" is any float dtype, the same for
 *    both. "@unpack Family number" names the kernels' unpacking of a block, such as the family's 4-bit numbers; a format
 *    without it holds plain numbers. */
#ifndef GATED_DELTA_H
#define GATED_DELTA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GD_ABI_VERSION 1

typedef int32_t gd_status;
typedef uint64_t gd_handle;

/* Status codes. */
#define GD_OK 0
#define GD_PENDING 1                 /* gd_poll, gd_wait: not finished yet */
#define GD_ERROR_INVALID_ARGUMENT 2  /* a value outside its enum or its valid interval */
#define GD_ERROR_SHAPE 3             /* a dimension or an extent that does not fit */
#define GD_ERROR_DTYPE 4
#define GD_ERROR_RANGE 5             /* an index: slot, offset, cuSeqlens */
#define GD_ERROR_OVERLAP 6           /* an output that overlaps another tensor, or two writes to one slot */
#define GD_ERROR_HANDLE 7            /* a disposed, stale or foreign handle */
#define GD_ERROR_UNSUPPORTED 8       /* valid, but not on this backend */
#define GD_ERROR_OUT_OF_MEMORY 9
#define GD_ERROR_TIMEOUT 10
#define GD_ERROR_DEVICE 11           /* the device failed or is missing */
#define GD_ERROR_STATE 12            /* a call that does not fit earlier ones, or from the wrong thread */
#define GD_ERROR_INTERNAL 13
#define GD_ERROR_FILE 14             /* a file that cannot be mapped, or has changed since it was mapped; the argument is its path */

/* @option DType: element types; bf16 crosses into JavaScript as Uint16Array */
#define GD_F32 1  /* @f32 */
#define GD_F16 2  /* @f16 */
#define GD_BF16 3 /* @bf16 */
#define GD_I32 4  /* @i32: only for the host's index data */
#define GD_U32 5  /* @u32: only for words of packed weights */
#define GD_ID32 6 /* @id32: 32-bit index data that one op writes, and another reads and checks as it runs */
#define GD_U8 7   /* @u8: only for blocks of packed weights */

/* Backends. */
#define GD_BACKEND_AUTO 0
#define GD_BACKEND_CPU 1
#define GD_BACKEND_METAL 2

/* @option GateForm: how the decay a in (0, 1] is computed from the given gate. Systems differ in this, and a wrong
 * guess gives plausible but wrong numbers, so there is no default. */
#define GD_GATE_DECAY 1       /* @decay: a (mlx-lm, MAX) */
#define GD_GATE_LOG 2         /* @log: exp(g) (Hugging Face, FLA, ggml) */
#define GD_GATE_NEG_LOG 3     /* @neg-log: exp(-g) (mlx-native) */
#define GD_GATE_RAW 4         /* @raw: exp(-exp(aLog) softplus(a + dtBias)) (a Qwen checkpoint's projection, vLLM) */
#define GD_GATE_RAW_SSM 5     /* @raw-ssm: exp(aLog softplus(a + dtBias)), aLog holding ssm_a = -exp(A_log) (GGUF) */
#define GD_GATE_RAW_BOUNDED 6 /* @raw-bounded: exp(gateBound sigmoid(exp(aLog) (a + dtBias))) (Kimi Linear) */

/* @option GateDims: one gate per head, or one per key dimension */
#define GD_GATE_PER_HEAD 1 /* @head */
#define GD_GATE_PER_KEY 2  /* @key: Kimi's KDA */

/* @option BetaForm: how beta is computed from the given values */
#define GD_BETA_GIVEN 1         /* @given: b */
#define GD_BETA_SIGMOID 2       /* @sigmoid: sigmoid(b) */
#define GD_BETA_TWICE_SIGMOID 3 /* @2-sigmoid: 2 sigmoid(b), which allows negative eigenvalues */

/* @option HeadMap: which key head serves value head hv */
#define GD_HEADS_BLOCK 1 /* @block: hv / (valueHeads / keyHeads), rounded down (Hugging Face, MLX, vLLM, MAX) */
#define GD_HEADS_TILED 2 /* @tiled: hv mod keyHeads (ggml) */

/* @option QKNorm: normalisation of each query and key row x of length keyDim, before the query's scale */
#define GD_NORM_NONE 1   /* @none */
#define GD_NORM_L2 2     /* @l2: x rsqrt(sum x^2 + eps) (Hugging Face, FLA) */
#define GD_NORM_L2_MAX 3 /* @l2-max: x / max(sqrt(sum x^2), eps) (ggml) */
#define GD_NORM_RMS 4    /* @rms: x rsqrt(sum x^2 + keyDim eps) (MLX) */

/* @option Algorithm: how prefill is computed */
#define GD_ALGORITHM_AUTO 0      /* @auto: the fastest that gives the bits of recurrent */
#define GD_ALGORITHM_RECURRENT 1 /* @recurrent: token by token */
#define GD_ALGORITHM_CHUNKED 2   /* @chunked: 16 tokens at a time, as matrix products, with different bits; CPU only */

/* @option Products: how a GPU multiplies matrices. The two give different bits */
#define GD_PRODUCTS_ROWS 0   /* @rows: as sums of rows in a documented order */
#define GD_PRODUCTS_MATRIX 1 /* @matrix: with the GPU's matrix units, which sum in an order of their own; Metal only */

/* @option Activation: the function applied to a sum or a gate */
#define GD_ACTIVATION_NONE 1    /* @none: x */
#define GD_ACTIVATION_SILU 2    /* @silu: x sigmoid(x) */
#define GD_ACTIVATION_SIGMOID 3 /* @sigmoid: sigmoid(x) */
/* @choice ConvActivation of Activation: none silu: the function applied to a convolution's sums */
/* @choice NormActivation of Activation: silu sigmoid: the function applied to a norm's gate */

/* @option WeightForm: the factor of a norm's rows */
#define GD_WEIGHT_PLAIN 1    /* @weight: w */
#define GD_WEIGHT_PLUS_ONE 2 /* @one-plus-weight: 1 + w (Qwen3.5) */

/* @option WeightFormat: how a matrix is stored: as floats; in MLX's affine form of 2 to 8 bits with a scale and a bias
 * for each group (g) of 32, 64 or 128 columns; in one of ggml's block types, as in GGUF files, whose elements are those
 * that ggml's dequantize_row functions give in float32 ("@unpack Ggml" has ggml's number of the type); or in one of MLX's
 * micro-scaled forms: small floats with a one-byte scale for each 32 or 16 columns */
#define GD_FORMAT_F32 1           /* @f32 @block 1 4 f32 */
#define GD_FORMAT_F16 2           /* @f16 @block 1 2 f16 */
#define GD_FORMAT_BF16 3          /* @bf16 @block 1 2 bf16 */
#define GD_FORMAT_AFFINE2_G32 4   /* @affine2-g32 @block 32 8 u32 @scales float @biases float @unpack Affine 2 */
#define GD_FORMAT_AFFINE2_G64 5   /* @affine2-g64 @block 64 16 u32 @scales float @biases float @unpack Affine 2 */
#define GD_FORMAT_AFFINE2_G128 6  /* @affine2-g128 @block 128 32 u32 @scales float @biases float @unpack Affine 2 */
#define GD_FORMAT_AFFINE3_G32 7   /* @affine3-g32 @block 32 12 u32 @scales float @biases float @unpack Affine 3 */
#define GD_FORMAT_AFFINE3_G64 8   /* @affine3-g64 @block 64 24 u32 @scales float @biases float @unpack Affine 3 */
#define GD_FORMAT_AFFINE3_G128 9  /* @affine3-g128 @block 128 48 u32 @scales float @biases float @unpack Affine 3 */
#define GD_FORMAT_AFFINE4_G32 10  /* @affine4-g32 @block 32 16 u32 @scales float @biases float @unpack Affine 4 */
#define GD_FORMAT_AFFINE4_G64 11  /* @affine4-g64 @block 64 32 u32 @scales float @biases float @unpack Affine 4 */
#define GD_FORMAT_AFFINE4_G128 12 /* @affine4-g128 @block 128 64 u32 @scales float @biases float @unpack Affine 4 */
#define GD_FORMAT_AFFINE5_G32 13  /* @affine5-g32 @block 32 20 u32 @scales float @biases float @unpack Affine 5 */
#define GD_FORMAT_AFFINE5_G64 14  /* @affine5-g64 @block 64 40 u32 @scales float @biases float @unpack Affine 5 */
#define GD_FORMAT_AFFINE5_G128 15 /* @affine5-g128 @block 128 80 u32 @scales float @biases float @unpack Affine 5 */
#define GD_FORMAT_AFFINE6_G32 16  /* @affine6-g32 @block 32 24 u32 @scales float @biases float @unpack Affine 6 */
#define GD_FORMAT_AFFINE6_G64 17  /* @affine6-g64 @block 64 48 u32 @scales float @biases float @unpack Affine 6 */
#define GD_FORMAT_AFFINE6_G128 18 /* @affine6-g128 @block 128 96 u32 @scales float @biases float @unpack Affine 6 */
#define GD_FORMAT_AFFINE8_G32 19  /* @affine8-g32 @block 32 32 u32 @scales float @biases float @unpack Affine 8 */
#define GD_FORMAT_AFFINE8_G64 20  /* @affine8-g64 @block 64 64 u32 @scales float @biases float @unpack Affine 8 */
#define GD_FORMAT_AFFINE8_G128 21 /* @affine8-g128 @block 128 128 u32 @scales float @biases float @unpack Affine 8 */
#define GD_FORMAT_Q4_0 22         /* @q4_0 @block 32 18 u8 @unpack Ggml 2 */
#define GD_FORMAT_Q4_1 23         /* @q4_1 @block 32 20 u8 @unpack Ggml 3 */
#define GD_FORMAT_Q5_0 24         /* @q5_0 @block 32 22 u8 @unpack Ggml 6 */
#define GD_FORMAT_Q5_1 25         /* @q5_1 @block 32 24 u8 @unpack Ggml 7 */
#define GD_FORMAT_Q8_0 26         /* @q8_0 @block 32 34 u8 @unpack Ggml 8 */
#define GD_FORMAT_Q2_K 27         /* @q2_k @block 256 84 u8 @unpack Ggml 10 */
#define GD_FORMAT_Q3_K 28         /* @q3_k @block 256 110 u8 @unpack Ggml 11 */
#define GD_FORMAT_Q4_K 29         /* @q4_k @block 256 144 u8 @unpack Ggml 12 */
#define GD_FORMAT_Q5_K 30         /* @q5_k @block 256 176 u8 @unpack Ggml 13 */
#define GD_FORMAT_Q6_K 31         /* @q6_k @block 256 210 u8 @unpack Ggml 14 */
#define GD_FORMAT_IQ4_NL 32       /* @iq4_nl @block 32 18 u8 @unpack Ggml 20 */
#define GD_FORMAT_IQ4_XS 33       /* @iq4_xs @block 256 136 u8 @unpack Ggml 23 */
#define GD_FORMAT_GGUF_MXFP4 34   /* @gguf-mxfp4 @block 32 17 u8 @unpack Ggml 39 */
#define GD_FORMAT_MXFP4 35        /* @mxfp4 @block 32 16 u32 @scales u8 @unpack Micro 4 */
#define GD_FORMAT_MXFP8 36        /* @mxfp8 @block 32 32 u32 @scales u8 @unpack Micro 8 */
#define GD_FORMAT_NVFP4 37        /* @nvfp4 @block 16 8 u32 @scales u8 @unpack Micro 4 */

/* @option ActivationForm: how rows of x are multiplied by a packed weight. int8 concerns weights that are, within a group of
 * columns, a scale times an integer plus an offset: MLX's affine forms, mxfp4 and nvfp4 (their own group), ggml's q2_k, q3_k and
 * q6_k (16 columns) and its other types (32). Floats and MLX's mxfp8 are multiplied exactly in either form. int8 is CPU only */
#define GD_ACTIVATIONS_EXACT 0 /* @exact: as they are */
#define GD_ACTIVATIONS_INT8 1  /* @int8: rounded to 8 bits, group by group; products are exact integer sums */

/* @option NormOrder: whether x is normalised before it is multiplied by act(z), or after */
#define GD_NORM_THEN_GATE 1 /* @norm-then-gate: n(x) act(z) (Qwen3-Next) */
#define GD_GATE_THEN_NORM 2 /* @gate-then-norm: n(x act(z)) (Mamba-2) */

#define GD_MAX_RANK 8
#define GD_LARGEST_BUFFER 4294950912 /* bytes: the limit of an ArrayBuffer, 4 GiB, less the 16 KiB that rounding up to pages may need */

/* A tensor of the caller's. buffer 0 means absent; the other fields are then ignored. Dimensions come outermost first;
 * entries beyond rank are ignored. Lengths are below 2^31; a stride is at least 1, except that the strides of dimensions
 * of length 0 or 1 do not matter.
 * query, key, value, gate, beta, a, b, x, z, up, residual, logits, experts, shared, sharedGate and out may have any
 * strides, and inputs may have overlapping rows; only the last dimension must be contiguous. If the length of the last
 * dimension is a multiple of 8, the other strides and the offset are multiples of 8 elements (this never concerns a gate
 * or beta per head, whose rows are single elements). All other tensors are contiguous; a recurrent state with rows whose
 * length is a multiple of 8 also begins at a multiple of 8 elements. The weight, scales and biases of linear,
 * expertLinear and embedding begin at any byte, as in a file: their offset need not be a multiple of the element size.
 * An output or a pool, from its first element to its last, overlaps no other tensor of the op, and an output's rows do
 * not overlap each other. */
typedef struct gd_tensor {
  gd_handle buffer;
  uint64_t offset; /* bytes from the buffer's start, a multiple of the element size */
  uint32_t dtype;  /* GD_F32, ... */
  uint32_t rank;   /* 1 .. GD_MAX_RANK */
  uint32_t shape[8];
  uint32_t strides[8]; /* elements from one index to the next */
} gd_tensor;

/* Index data, i32: either in a buffer (read at encode and again at every replay of a plan) or, if buffer is 0, at a
 * pointer that is read only during the call. count is in elements; buffer 0 and pointer NULL means absent. */
typedef struct gd_index {
  gd_handle buffer;
  uint64_t offset; /* bytes, a multiple of 4 */
  const int32_t *pointer;
  uint64_t count;
} gd_index;

/* States that an op stores in addition to the final ones, in one pass over its tokens (gd_gated_delta, gd_causal_conv1d).
 *
 * Snapshots: entry j of sequence s is the state after all but the last j of its T tokens, j in 0 .. K - 1 (0 is the final
 * state). They go to the tensor snapshots [K, sequences, slot's shape], in the pool's dtype, to the slots snapshot_slots
 * [sequences, K] (-1 skips one), or to both. Entries with j >= T are left as they were.
 *
 * Checkpoints: entries checkpoint_offsets[s] .. checkpoint_offsets[s + 1] - 1 belong to sequence s: its state after
 * checkpoint_tokens[i] of its tokens (0 .. T, in any order; 0 is the state as it was read) goes to slot
 * checkpoint_slots[i]. Offsets begin at 0 and do not decrease; entries beyond the last offset are ignored.
 *
 * All slots that one op writes (final states, snapshots, checkpoints) are distinct, else GD_ERROR_OVERLAP. Every read
 * sees the pool as it was before the op. At most 1048576 snapshots and as many checkpoints per op.
 *
 * The sequences of an op: cu_seqlens [sequences + 1]; absent: one sequence of all tokens. read_slots [sequences]: -1
 * starts from zero; absent: 0, 1, 2, ... or, without state or source, -1. write_slots [sequences]: -1 drops the final
 * state; absent: read_slots or, without state, -1. At most 1048576 sequences. */

/* The gated delta rule over a ragged batch. Per sequence and value head, with state S of valueDim rows of keyDim:
 *   S <- a S;  d = beta (v - S k);  S <- S + d k^T;  out = S q        (k, q normalised, q scaled)
 * query, key [tokens, keyHeads, keyDim]; value, out [tokens, valueHeads, valueDim];
 * gate, beta [tokens, valueHeads] (per-key gate [tokens, valueHeads, keyDim]); aLog [valueHeads];
 * dtBias [valueHeads] (per-key [valueHeads, keyDim]); state [slots, valueHeads, valueDim, keyDim].
 * query, key and value share the activation dtype; out has that or f32; gate is f32 for the decay and log forms, else
 * the activation dtype or f32; beta the activation dtype or f32; aLog, dtBias any; state f32, f16 or bf16.
 * aLog and dtBias are given for the raw forms and absent otherwise. scale is keyDim^-0.5 by default. gateBound is below 0
 * for GD_GATE_RAW_BOUNDED and NaN otherwise.
 * source [sourceSlots, valueHeads, valueDim, keyDim] or absent: read_slots index it instead of state; it has the state's
 * dtype and must not overlap anything that is written.
 * The records (all three or none, f32, contiguous; not with GD_ALGORITHM_CHUNKED) are the input of gd_commit_gated_delta:
 * record_key [tokens, keyHeads, keyDim] the normalised keys, record_delta [tokens, valueHeads, valueDim] the d,
 * record_decay [tokens, valueHeads] the a (per-key [tokens, valueHeads, keyDim]). */
typedef struct gd_gated_delta {
  uint32_t size, version;
  uint32_t gate_form; /* @is GateForm */
  uint32_t gate_dims; /* @is GateDims @default head */
  uint32_t beta_form; /* @is BetaForm @default given */
  uint32_t head_map;  /* @is HeadMap @default block */
  uint32_t qk_norm;   /* @is QKNorm @default none */
  uint32_t algorithm; /* @is Algorithm @default auto */
  float qk_norm_eps;  /* @from 0 @default 1e-6 */
  float scale;        /* @default nan */
  float gate_bound;   /* @default nan */
  uint32_t reserved;
  gd_tensor query, key, value, gate, beta;
  gd_tensor a_log, dt_bias; /* @optional */
  gd_tensor state;          /* @optional @bound state */
  gd_tensor out;
  gd_index cu_seqlens;          /* @optional @bound cuSeqlens */
  gd_index read_slots;          /* @optional @bound readSlots */
  gd_index write_slots;         /* @optional @bound writeSlots */
  gd_tensor source, snapshots;  /* @optional @bound nothing */
  gd_index snapshot_slots;      /* @optional @bound snapshotSlots */
  gd_index checkpoint_offsets;  /* @optional @bound checkpoints @as checkpoints.offsets */
  gd_index checkpoint_tokens;   /* @optional @bound checkpoints @as checkpoints.tokens */
  gd_index checkpoint_slots;    /* @optional @bound checkpoints @as checkpoints.slots */
  gd_tensor record_key;         /* @optional @bound records @as records.key */
  gd_tensor record_delta;       /* @optional @bound records @as records.delta */
  gd_tensor record_decay;       /* @optional @bound records @as records.decay */
} gd_gated_delta;

/* Causal depthwise convolution over time with its state. x, out [tokens, channels]; weight [channels, width], width 2 to
 * 9; bias [channels] or absent; state [slots, channels, width - 1], oldest first; the new state is the last width - 1
 * columns of (old state, x). x and out share the activation dtype (out may be f32); state has x's dtype or f32.
 * source [sourceSlots, channels, width - 1], snapshots and checkpoints as in gd_gated_delta. */
typedef struct gd_causal_conv1d {
  uint32_t size, version;
  uint32_t activation; /* @is ConvActivation @default silu */
  uint32_t reserved;
  gd_tensor x, weight;
  gd_tensor bias;  /* @optional */
  gd_tensor state; /* @optional @bound convState */
  gd_tensor out;
  gd_index cu_seqlens;         /* @optional @bound cuSeqlens */
  gd_index read_slots;         /* @optional @bound readSlots */
  gd_index write_slots;        /* @optional @bound writeSlots */
  gd_tensor source, snapshots; /* @optional @bound nothing */
  gd_index snapshot_slots;     /* @optional @bound snapshotSlots */
  gd_index checkpoint_offsets; /* @optional @bound checkpoints @as checkpoints.offsets */
  gd_index checkpoint_tokens;  /* @optional @bound checkpoints @as checkpoints.tokens */
  gd_index checkpoint_slots;   /* @optional @bound checkpoints @as checkpoints.slots */
} gd_causal_conv1d;

/* Applies the first counts[s] of each sequence's records, kept by a gd_gated_delta over the same tokens, to its state:
 *   S <- a S;  S <- S + d k^T
 * An f32 state gets the bits of that many decode steps. records [tokens, ...] as in gd_gated_delta; state
 * [slots, valueHeads, valueDim, keyDim]; counts [sequences], 0 .. the sequence's tokens. To verify a draft, run one
 * gd_gated_delta with records and write slots of -1, then this op with the numbers of accepted tokens and the cu_seqlens
 * and read_slots of the first op. */
typedef struct gd_commit_gated_delta {
  uint32_t size, version;
  uint32_t head_map; /* @is HeadMap @default block */
  uint32_t reserved;
  gd_tensor record_key;   /* @as records.key */
  gd_tensor record_delta; /* @as records.delta */
  gd_tensor record_decay; /* @as records.decay */
  gd_tensor state; /* @optional @bound state */
  gd_index counts;
  gd_index cu_seqlens;  /* @optional */
  gd_index read_slots;  /* @optional @bound readSlots */
  gd_index write_slots; /* @optional @bound writeSlots */
} gd_commit_gated_delta;

/* The same for the convolution, whose record is its input: the new state is the last width - 1 columns of (old
 * state, the first counts[s] rows of x). x [tokens, channels]; state [slots, channels, width - 1], x's dtype or f32. */
typedef struct gd_commit_causal_conv1d {
  uint32_t size, version;
  gd_tensor x;
  gd_tensor state; /* @optional @bound convState */
  gd_index counts;
  gd_index cu_seqlens;  /* @optional */
  gd_index read_slots;  /* @optional @bound readSlots */
  gd_index write_slots; /* @optional @bound writeSlots */
} gd_commit_causal_conv1d;

/* Gated RMS norm over the last dimension. x, z, out [tokens, heads, dim] or [tokens, dim]; weight [dim].
 * norm-then-gate: weight * x * rsqrt(mean x^2 + eps) * act(z); gate-then-norm: the same norm over x * act(z).
 * x is f32 or z's dtype; out z's dtype or f32. */
typedef struct gd_gated_rms_norm {
  uint32_t size, version;
  uint32_t activation; /* @is NormActivation @default silu */
  uint32_t order;      /* @is NormOrder @default norm-then-gate */
  float eps;           /* @from 0 @default 1e-6 */
  uint32_t reserved;
  gd_tensor x, z, weight, out;
} gd_gated_rms_norm;

/* RMS norm over the last dimension: out = (x rsqrt(mean x^2 + eps)) w, w the weight or 1 + weight. x, out
 * [tokens, heads, dim] or [tokens, dim]; weight [dim], any float dtype. out has x's dtype or f32. */
typedef struct gd_rms_norm {
  uint32_t size, version;
  uint32_t weight_form; /* @is WeightForm @default weight */
  float eps;            /* @from 0 @default 1e-6 */
  gd_tensor x, weight, out;
} gd_rms_norm;

/* One decode token of each sequence through conv, gates, query/key norm, recurrence and gated norm.
 * x [sequences, channels], channels = 2 keyHeads keyDim + valueHeads valueDim laid out query | key | value;
 * conv_weight [channels, width]; conv_state [slots, channels, width - 1]; gate and beta as in gd_gated_delta with
 * tokens = sequences; z, out [sequences, valueHeads, valueDim]; norm_weight [valueDim]. read_slots and write_slots
 * apply to both pools.
 * The convolution's output is rounded to x's dtype; nothing else is rounded before the final store. */
typedef struct gd_gated_delta_step {
  uint32_t size, version;
  uint32_t key_heads;       /* @from 1 */
  uint32_t gate_form;       /* @is GateForm */
  uint32_t gate_dims;       /* @is GateDims @default head */
  uint32_t beta_form;       /* @is BetaForm @default given */
  uint32_t head_map;        /* @is HeadMap @default block */
  uint32_t qk_norm;         /* @is QKNorm @default none */
  uint32_t conv_activation; /* @is ConvActivation @default silu */
  uint32_t norm_activation; /* @is NormActivation @default silu */
  uint32_t norm_order;      /* @is NormOrder @default norm-then-gate */
  float qk_norm_eps;        /* @from 0 @default 1e-6 */
  float scale;              /* @default nan */
  float gate_bound;         /* @default nan */
  float norm_eps;           /* @from 0 @default 1e-6 */
  uint32_t reserved;
  gd_tensor x, conv_weight;
  gd_tensor conv_bias;  /* @optional */
  gd_tensor conv_state; /* @optional @bound convState */
  gd_tensor gate, beta;
  gd_tensor a_log, dt_bias; /* @optional */
  gd_tensor state;          /* @optional @bound state */
  gd_tensor z, norm_weight, out;
  gd_index read_slots;  /* @optional @bound readSlots */
  gd_index write_slots; /* @optional @bound writeSlots */
} gd_gated_delta_step;

/* out[r, o] = (residual[r, o] +) sum over i of x[r, i] w[o, i]. x [rows, inFeatures]; out [rows, outFeatures] in x's dtype
 * or f32. The order of the sum depends only on inFeatures, the form of the weight and products.
 * The weight is a matrix [outFeatures, inFeatures] in weight_format; see WeightFormat for the tensors of each format. inFeatures
 * is a multiple of a block's elements. MLX's affine forms: weight [outFeatures, inFeatures bits / 32], u32 words, each row one
 * little-endian stream of unsigned numbers q of `bits` bits; scales and biases [outFeatures, inFeatures / group] of one
 * float dtype; w[o, i] = fma(q, scale, bias) in float32, with scale and bias widened first, and inFeatures not 0.
 * MLX's micro-scaled forms: words as above, of floats E2M1 (mxfp4, nvfp4) or E4M3 (mxfp8); scales u8 [outFeatures,
 * inFeatures / group], no biases; w[o, i] is the float times the scale, in float32. A scale s of mxfp4 and mxfp8 is
 * 2^(s - 127), and 255 is infinity, as in MLX; a scale of nvfp4 is E4M3. In E4M3, all ones except for the sign is NaN.
 * weight_format 0: the only float or affine format that fits the dtype, scales, biases and shapes.
 * activations int8: a group of x has scale = max |x| / 127 and integers q = x / scale, rounded to nearest even, within -127 .. 127;
 * with the weight as a scale times integers n, plus an offset, out is the sum over groups, from the first, of
 *   float(sum of q n) weight_scale scale + offset (float(sum of q) scale)
 * each product and sum rounded to float32; if there is an offset, the product with scale is not rounded before the sum. A
 * group of zeros, or of numbers whose scale rounds to 0, has scale 0. A row with NaN or an infinity gives NaN. The bits are
 * the same for every instruction set.
 * residual [rows, outFeatures], x's dtype or f32, is added in float32 before the one rounding. It may be out itself: the
 * same buffer, offset, dtype and strides. */
typedef struct gd_linear {
  uint32_t size, version;
  uint32_t weight_format; /* @is WeightFormat @optional */
  uint32_t activations;   /* @is ActivationForm @default exact */
  uint32_t products;      /* @is Products @default rows */
  uint32_t reserved;
  gd_tensor x, weight;
  gd_tensor scales, biases; /* @optional */
  gd_tensor residual;       /* @optional */
  gd_tensor out;
} gd_linear;

/* out[r] = row ids[r] of a matrix [vocabulary, dim] that is stored like linear's weight. ids, or device_ids instead,
 * [rows], 0 .. vocabulary - 1, at most 1048576 of them; out [rows, dim], f32, f16 or bf16, each element rounded once.
 * device_ids, contiguous, as gd_top_k writes them, are read when the op runs: the row of an id that is out of range becomes
 * zeros, and the submission fails with GD_ERROR_RANGE, but all of its ops run. */
typedef struct gd_embedding {
  uint32_t size, version;
  uint32_t weight_format; /* @is WeightFormat @optional */
  uint32_t reserved;
  gd_tensor weight;
  gd_tensor scales, biases; /* @optional */
  gd_tensor out;
  gd_index ids;         /* @optional */
  gd_tensor device_ids; /* @optional @of id32 */
} gd_embedding;

/* Elementwise ops: out = f(first, second) in float32, rounded once. All three [tokens, heads, dim] or [tokens, dim]; the
 * first is f32 or the second's dtype, out the second's dtype or f32. out may be the first or the second itself: the same
 * buffer, offset, dtype and strides. */

/* out = a + b */
typedef struct gd_add {
  uint32_t size, version;
  gd_tensor a, b, out;
} gd_add; /* @elementwise */

/* out = silu(gate) up */
typedef struct gd_silu_mul {
  uint32_t size, version;
  gd_tensor gate, up, out;
} gd_silu_mul; /* @elementwise */

/* Causal attention of grouped query heads over paged keys and values, to which the op adds those of its tokens. Sequence s
 * already has pastTokens[s] tokens in its pages; its row i in this op is its token pastTokens[s] + i. Per row and head:
 *   q = rotate(norm(query)) scale; k = rotate(norm(key));  s[j] = q k[j], j in 0 .. the row's token
 *   out = (sum over j of exp(s[j] - max s) v[j]) / (sum over j of exp(s[j] - max s)) * sigmoid(gate)
 * query, gate, out [tokens, heads, headDim]; key, value [tokens, kvHeads, headDim]; query head h takes key head
 * h / (heads / kvHeads); headDim a multiple of 8 in 8 .. 256. query, key, value and gate share the activation dtype; out
 * has that or f32.
 * norm: x rsqrt(mean x^2 + normEps) w over a head's row, w the weight or 1 + weight, where queryNorm, keyNorm [headDim]
 * (any float dtype) are given. rotate: element i < rotaryDim / 2 and element i + rotaryDim / 2 turn by the angle
 * position ropeTheta^(-2 i / rotaryDim), (a, b) to (a cos - b sin, b cos + a sin); the others stay. Cosines and sines are
 * computed in float64 and rounded to float32 once. scale is headDim^-0.5 by default.
 * keyPages, valuePages [pages, kvHeads, pageTokens, headDim], f32, f16 or bf16, both the same, contiguous. Token t of
 * sequence s lies at row t mod pageTokens of page pageTable[s, t / pageTokens]. Rows of this op are stored there, each
 * element rounded once, and always read from there. No other rows of a page are written, and none after a sequence's
 * last token are read.
 * pageTable [sequences, pagesPerSequence]: of a sequence's row only the first (its tokens + pageTokens - 1) / pageTokens
 * entries are read, and none if the op has no rows of that sequence. pastTokens [sequences]. positions [tokens], 0 and
 * up; absent: pastTokens[s] + i. A page that a sequence writes to is used in one place, by that sequence alone, else
 * GD_ERROR_OVERLAP. Pages that are only read may be shared.
 * A row sums over its keys in spans from token 0, whatever the pages, the batch or the call: the row's bits depend
 * only on its own query, keys and values. Source: transformers, Qwen3_5Attention (modeling_qwen3_5.py). */
typedef struct gd_attention {
  uint32_t size, version;
  uint32_t rotary_dim;  /* @default 0 */
  uint32_t weight_form; /* @is WeightForm @default weight */
  float rope_theta;     /* @above 0 @default 10000 */
  float norm_eps;       /* @from 0 @default 1e-6 */
  float scale;          /* @default nan */
  uint32_t products;    /* @is Products @default rows */
  gd_tensor query, key, value;
  gd_tensor gate, query_norm, key_norm; /* @optional */
  gd_tensor key_pages, value_pages, out;
  gd_index cu_seqlens; /* @optional */
  gd_index page_table, past_tokens;
  gd_index positions; /* @optional */
} gd_attention;

/* The k best of a token's experts, by the softmax of its logits over all experts in float32:
 *   e[i] = exp(logits[i] - max logits);  p[i] = e[i] / sum over all i of e[i]
 *   weights[j] = p[ids[j]], or where normalize is 1 p[ids[j]] / sum over all j of p[ids[j]]
 * logits [tokens, experts], 1 .. 4096 experts; ids [tokens, k] id32, k in 1 .. experts; weights [tokens, k] f32; ids and
 * weights are contiguous. Experts are in descending order of their logits, which is the order of an exact softmax; of equal
 * logits (0 and -0 are equal) the lower id comes first, and NaN comes after all others. A row with a NaN or an infinite
 * maximum has ids in that order, and its weights are NaN. A row's bits depend only on its own logits.
 * Source: transformers, Qwen3_5MoeTopKRouter (modeling_qwen3_5_moe.py). */
typedef struct gd_route {
  uint32_t size, version;
  uint32_t normalize; /* @boolean */
  uint32_t reserved;
  gd_tensor logits;
  gd_tensor ids; /* @of id32 */
  gd_tensor weights;
} gd_route;

/* The k largest elements of each row and their columns, largest first:
 *   values[r, j] = x[r, ids[r, j]], with values[r, j] >= values[r, j + 1]
 * x [rows, columns], 1 .. 1048576 columns; values [rows, k] f32 and ids [rows, k] id32, both contiguous, k in
 * 1 .. min(columns, 128). Of equal elements (0 and -0 are equal) the one in the lower column comes first, and NaN comes
 * before all others, so a row with a NaN has it first. A value is its element unchanged, including the sign of -0.
 * Source: torch.topk (PyTorch), which leaves the order of equal elements open. */
typedef struct gd_top_k {
  uint32_t size, version;
  gd_tensor x;
  gd_tensor values;
  gd_tensor ids; /* @of id32 */
} gd_top_k;

/* linear with the matrices of each token's experts: out[t, j, o] = sum over i of x[t, j, i] w[ids[t, j], o, i].
 * x [tokens, inFeatures], the same for all experts of a token, or [tokens, k, inFeatures], a row for each; ids [tokens, k]
 * id32, contiguous, as gd_route writes them or in any other order; out [tokens, k, outFeatures] in x's dtype or f32. The
 * weight is a matrix [outFeatures, inFeatures] per expert, one after another: weight, scales and biases as in gd_linear,
 * each with experts as a first dimension, 1 .. 4096.
 * A row of out has the bits of gd_linear with that row of x and that expert's matrix. An id outside 0 .. experts - 1 makes
 * its row of out zeros; the ops that follow run, and then the submission fails with GD_ERROR_RANGE. */
typedef struct gd_expert_linear {
  uint32_t size, version;
  uint32_t weight_format; /* @is WeightFormat @optional */
  uint32_t activations;   /* @is ActivationForm @default exact */
  uint32_t products;      /* @is Products @default rows */
  uint32_t reserved;
  gd_tensor x, weight;
  gd_tensor scales, biases; /* @optional */
  gd_tensor ids; /* @of id32 */
  gd_tensor out;
} gd_expert_linear;

/* The outputs of each token's experts as one row, in float32 and rounded once, added in this order:
 *   out[t] = ((sum over j = 0, 1, .. of weights[t, j] experts[t, j]) + sigmoid(sharedGate[t]) shared[t]) + residual[t]
 * experts [tokens, k, dim]; weights [tokens, k] f32, contiguous; shared, residual, out [tokens, dim]; sharedGate
 * [tokens, 1]. Each except weights is f32 or of a 16-bit dtype, the same for all that are not f32. Without sharedGate its
 * factor is 1; without shared (sharedGate is then absent too) or residual, that term is left out. residual may be out
 * itself: the same buffer, offset, dtype and strides.
 * Source: transformers, Qwen3_5MoeSparseMoeBlock (modeling_qwen3_5_moe.py). */
typedef struct gd_combine_experts {
  uint32_t size, version;
  gd_tensor experts, weights;
  gd_tensor shared, shared_gate, residual; /* @optional */
  gd_tensor out;
} gd_combine_experts;

/* Copies or zeroes whole slots of a pool [slots, ...] of floats: slot write_slots[i] gets the content that slot
 * read_slots[i] had before the op; -1 reads zeros, or writes nothing. Zeros are stored, not multiplied in. */
typedef struct gd_copy_slots {
  uint32_t size, version;
  gd_tensor pool;
  gd_index read_slots, write_slots;
} gd_copy_slots;

/* The four fused ops, with ggml's conventions, everything in f32: heads tiled, the gate a logarithm, beta given, query
 * and key not normalised, the output scaled by 1 / sqrt(S), states [.., Hv, S (value), S (key)]. They are
 * gd_gated_delta and gd_causal_conv1d under other names, with the same bits and the same rules. B sequences of T tokens
 * each, one sequence after another: q, k [B, T, Hk, S]; v, out [B, T, Hv, S];
 * gate [B, T, Hv] (per-key [B, T, Hv, S]); beta [B, T, Hv]; snapshots [K, B, Hv, S, S] or absent: 0 is the newest, and
 * those beyond a sequence's tokens stay as they were. */

/* State s of state [B, ...] becomes state s of state_dst, which is state's own range (in place) or disjoint. */
typedef struct gd_gated_delta_net_inplace {
  uint32_t size, version;
  gd_tensor q, k, v, gate, beta, state, state_dst;
  gd_tensor snapshots; /* @optional */
  gd_tensor out;
} gd_gated_delta_net_inplace; /* @in ggml */

/* Sequence s reads slot ids[s] of cache [slots, ...] and writes slot rs_head + s, as if all reads came before any write.
 * An id of -1 starts from zero. rs_head .. rs_head + B - 1 are slots of the cache. */
typedef struct gd_gated_delta_net_inplace_ids {
  uint32_t size, version;
  int32_t rs_head;
  uint32_t reserved;
  gd_tensor q, k, v, gate, beta, cache;
  gd_tensor snapshots; /* @optional */
  gd_tensor out;
  gd_index ids; /* [B] */
} gd_gated_delta_net_inplace_ids; /* @in ggml */

/* One token of the causal convolution: x, out [B, C]; weight [C, K]; conv_states and conv_state_dst [B, C, K - 1],
 * oldest first, the latter being the former's own range or disjoint. silu: whether the output goes through SiLU. */
typedef struct gd_ssm_conv_update_inplace {
  uint32_t size, version;
  uint32_t silu; /* @boolean */
  uint32_t reserved;
  gd_tensor conv_states, conv_state_dst, weight, x, out;
} gd_ssm_conv_update_inplace; /* @in ggml */

/* The same with ids and rs_head as above, over conv_cache [cells, C, K - 1]. */
typedef struct gd_ssm_conv_update_inplace_ids {
  uint32_t size, version;
  uint32_t silu; /* @boolean */
  int32_t rs_head;
  gd_tensor conv_cache, weight, x, out;
  gd_index ids; /* [B] */
} gd_ssm_conv_update_inplace_ids; /* @in ggml */

typedef struct gd_device_options {
  uint32_t size, version;
  uint32_t backend; /* GD_BACKEND_* */
  uint32_t threads; /* CPU threads of this device; 0: every core that the process may use */
} gd_device_options;

typedef struct gd_device_info {
  uint32_t size, version;
  uint32_t backend;  /* the backend in use */
  uint32_t emulated; /* 1 if Metal is the Linux emulation */
  uint32_t threads, reserved;
  /* Two words of shared memory, which belong to the device until it is closed, then to another device: [0] the low 32 bits
   * of the number of finished submissions (they finish in order), [1] the number of failed ones. */
  const int32_t *status;
  uint64_t largest_buffer; /* bytes of the largest buffer that the device can make or map */
  char name[128];
  char isa[32];
} gd_device_info;

/* The library. */
uint32_t gd_abi_version(void);
const char *gd_version(void);
/* The last failure on this thread, valid until the next failing call: which = 0 message, 1 op, 2 argument,
 * 3 expected, 4 received; an empty string if there is none. UTF-8, at most 1023 bytes. */
const char *gd_last_error(uint32_t which);

/* Devices. Closing drops ops that are encoded but not committed and waits for pending work; it also releases the device's
 * plans. Buffers outlive the device.
 * gd_device_abandon is for callers that cannot wait, such as a finaliser. It drops and releases the same. Pending submissions
 * that touch only memory of gd_buffer_create continue by themselves, up to the first one that touches wrapped memory:
 * that one and those after it are stopped. Of these, work that has not begun never begins, running work on the CPU ends
 * within about a millisecond, and the call waits for a GPU's committed work. Wrapped memory may be freed when the call returns.
 * A thread that exits abandons the devices that it has left open and releases the buffers that it has wrapped. */
gd_status gd_device_open(const gd_device_options *options, gd_handle *device);
gd_status gd_device_describe(gd_handle device, gd_device_info *info);
/* The GPU's time for the submissions that have finished since the device was opened, in nanoseconds, as Metal reports it
 * for each command buffer (GPUStartTime to GPUEndTime). 0 on a CPU device. */
gd_status gd_device_gpu_time(gd_handle device, uint64_t *nanoseconds);
/* Bytes of the device's buffers that exist now, including those that only encoded or pending work keeps: own is memory of
 * gd_buffer_create, mapped is address space of gd_file_map. */
gd_status gd_device_memory(gd_handle device, uint64_t *own, uint64_t *mapped);
gd_status gd_device_close(gd_handle device);
gd_status gd_device_abandon(gd_handle device);
/* Makes the library a Node-API module. A thread that has loaded it as one (process.dlopen) does its exit work as soon as its
 * JavaScript environment is torn down, before the memory of that environment is freed. */
void *napi_register_module_v1(void *env, void *exports);

/* Buffers. bytes may be 0; memory is zeroed, aligned to 16384 bytes, at most 4 GiB - 16 KiB.
 * gd_buffer_wrap borrows the caller's memory without a copy: the CPU backend needs 64-byte alignment, Metal needs
 * start and length at multiples of 16384. Pending work keeps a released buffer's memory, but not a wrapped one's. */
gd_status gd_buffer_create(gd_handle device, uint64_t bytes, gd_handle *buffer, void **pointer);
gd_status gd_buffer_wrap(gd_handle device, void *pointer, uint64_t bytes, gd_handle *buffer);
gd_status gd_buffer_release(gd_handle buffer);
/* gd_buffer_release in the form of a JavaScript engine's deallocator: context is the handle. */
void gd_buffer_deallocate(void *pointer, void *context);

/* Files. gd_file_map maps windows of an open regular file for reading and gives, for each, a buffer and the address of its
 * first byte. Windows may overlap. The descriptor is duplicated, so the caller can close its own; path is for messages,
 * UTF-8. Mapped buffers can be inputs of ops, but not index data, and no op can write to them. Their memory is the system's cache of
 * the file, which processes share: pages are loaded when they are first read. Encoded and pending work keeps released
 * windows mapped, and a thread that exits releases the windows that it has left.
 * Before each submission, the mapped files that it reads are compared with the files that were mapped, by size, modification
 * time, time of the inode's last change, device and inode. If one differs, the submission is refused with GD_ERROR_FILE and
 * nothing is committed. If a file is truncated after that, while a kernel reads it, the process ends with SIGBUS; if it is
 * written to in place, kernels read the new bytes. */
typedef struct gd_window {
  uint64_t offset;     /* bytes from the start of the file, a multiple of 16384 */
  uint64_t bytes;      /* 1 .. gd_device_info.largest_buffer, all of them inside the file */
  gd_handle buffer;    /* out */
  const void *pointer; /* out */
} gd_window;
gd_status gd_file_map(gd_handle device, int32_t descriptor, const char *path, gd_window *windows, uint64_t count);

/* One buffer made of pieces of mapped buffers, `bytes` bytes each, as if they followed one another: gd_expert_linear takes it
 * as its weight, one piece per expert, and every other op refuses it. All offsets are equal modulo 4, and there are at most
 * GD_JOINED_BUFFERS different buffers. The joined buffer keeps the pieces mapped; release it with gd_buffer_release. */
#define GD_JOINED_BUFFERS 4
typedef struct gd_piece {
  gd_handle buffer; /* of gd_file_map */
  uint64_t offset;  /* bytes from its start */
} gd_piece;
/* count: 1 .. 4096; bytes: at least 1. */
gd_status gd_buffer_join(gd_handle device, const gd_piece *pieces, uint64_t count, uint64_t bytes, gd_handle *buffer);

/* Encoding. target is a device (its open submission) or a plan; all tensors belong to its device. An op that is refused
 * leaves target unchanged. Encoded ops keep the memory that they use. */
gd_status gd_encode_gated_delta(gd_handle target, const gd_gated_delta *op);
gd_status gd_encode_causal_conv1d(gd_handle target, const gd_causal_conv1d *op);
gd_status gd_encode_gated_rms_norm(gd_handle target, const gd_gated_rms_norm *op);
gd_status gd_encode_rms_norm(gd_handle target, const gd_rms_norm *op);
gd_status gd_encode_gated_delta_step(gd_handle target, const gd_gated_delta_step *op);
gd_status gd_encode_linear(gd_handle target, const gd_linear *op);
gd_status gd_encode_add(gd_handle target, const gd_add *op);
gd_status gd_encode_attention(gd_handle target, const gd_attention *op);
gd_status gd_encode_embedding(gd_handle target, const gd_embedding *op);
gd_status gd_encode_silu_mul(gd_handle target, const gd_silu_mul *op);
gd_status gd_encode_route(gd_handle target, const gd_route *op);
gd_status gd_encode_expert_linear(gd_handle target, const gd_expert_linear *op);
gd_status gd_encode_combine_experts(gd_handle target, const gd_combine_experts *op);
gd_status gd_encode_top_k(gd_handle target, const gd_top_k *op);
gd_status gd_encode_copy_slots(gd_handle target, const gd_copy_slots *op);
gd_status gd_encode_commit_gated_delta(gd_handle target, const gd_commit_gated_delta *op);
gd_status gd_encode_commit_causal_conv1d(gd_handle target, const gd_commit_causal_conv1d *op);
gd_status gd_encode_gated_delta_net_inplace(gd_handle target, const gd_gated_delta_net_inplace *op);
gd_status gd_encode_gated_delta_net_inplace_ids(gd_handle target, const gd_gated_delta_net_inplace_ids *op);
gd_status gd_encode_ssm_conv_update_inplace(gd_handle target, const gd_ssm_conv_update_inplace *op);
gd_status gd_encode_ssm_conv_update_inplace_ids(gd_handle target, const gd_ssm_conv_update_inplace_ids *op);

/* Submissions. Tickets of a device are 1, 2, 3, ... in order of commit, and finish in that order; ticket 0 means
 * none and is always finished. The last 1024 failures are kept: an older ticket's outcome is GD_ERROR_STATE. A failed
 * submission does not stop those after it. An out-pointer for a ticket may be NULL. */
gd_status gd_commit(gd_handle device, uint64_t *ticket); /* nothing encoded: the last ticket again */
gd_status gd_discard(gd_handle device);                  /* drops what was encoded since the last commit */
gd_status gd_poll(gd_handle device, uint64_t ticket);    /* GD_OK, GD_PENDING or the submission's failure */
/* Blocks for at most timeout_ns (UINT64_MAX: for ever): GD_OK, GD_ERROR_TIMEOUT or the submission's failure. */
gd_status gd_wait(gd_handle device, uint64_t ticket, uint64_t timeout_ns);
/* For an event loop, which can neither poll nor wait: a socket that becomes readable once a submission whose ticket was given to
 * gd_notify has finished. The socket does not block; reading consumes its bytes, one for each finish. The caller closes it, and it
 * can be read to its end once the device is closed. A device has one: a second call replaces the first socket. GD_ERROR_DEVICE if
 * the system has no more sockets. */
gd_status gd_notifier(gd_handle device, int32_t *socket);
/* GD_PENDING: a byte comes when the submission has finished, or an unfinished earlier one that was asked for. GD_OK: it has
 * already finished, successfully or not, and no byte comes. GD_ERROR_STATE before gd_notifier. */
gd_status gd_notify(gd_handle device, uint64_t ticket);

/* Functions whose names begin with gd_test_ are in a clone's build, but not in a published library.
 *
 * On Linux, gd_test_emulate takes the path of a library of translated kernels (swift/Sources/CEmulator), NUL-terminated UTF-8:
 * the library is loaded when a Metal device is opened, and emulates one. On macOS the call is GD_ERROR_UNSUPPORTED. */
gd_status gd_test_emulate(const char *path);

/* For tests of callers: makes the count-th event of a kind from now on fail with GD_ERROR_DEVICE; a count of 0 cancels
 * the request, and a second request replaces the first. Each kind is counted separately, for this device only.
 *  - GD_TEST_ENCODE: a gd_encode_* call into the device or one of its plans, which encodes nothing;
 *  - GD_TEST_COMMIT: gd_commit or gd_plan_run, which commits nothing and keeps the encoded ops;
 *  - GD_TEST_RUN: an op that is committed after this call. Earlier ops of its submission run, it and later ones do not,
 *    and the submission fails with the op's name. */
#define GD_TEST_ENCODE 1
#define GD_TEST_COMMIT 2
#define GD_TEST_RUN 3
gd_status gd_test_fail(gd_handle device, uint32_t stage, uint64_t count);

/* Plans: ops validated once and replayed. A replay reads index data anew and checks it; it is committed at once, after
 * anything encoded on the device and under the same ticket. Replaying over a released buffer is GD_ERROR_HANDLE. A plan
 * keeps the memory of its tensors until it is released. */
gd_status gd_plan_create(gd_handle device, gd_handle *plan);
gd_status gd_plan_run(gd_handle plan, uint64_t *ticket);
/* Compiles the kernels of the plan's ops on one of the library's threads and runs nothing: the ops' first run then need not
 * wait for the compiler. The CPU backend has nothing to compile. gd_plan_poll gives the outcome of the last gd_plan_prepare:
 * GD_OK, GD_PENDING or its failure, with the op's name; GD_ERROR_STATE if there was none. A plan may be released during its preparation. */
gd_status gd_plan_prepare(gd_handle plan);
gd_status gd_plan_poll(gd_handle plan);
gd_status gd_plan_release(gd_handle plan);

#ifdef __cplusplus
}
#endif
#endif
