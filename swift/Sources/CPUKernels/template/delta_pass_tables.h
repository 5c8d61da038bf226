/* The passes of delta_passes.h that exist, and the tables that find them. */

/* Every combination that occurs, the common row length as a constant (not on the baseline, whose kernels are small rather than
 * fast). Between tokens a block is f32, so that a 16-bit target belongs to a last token, and a pass that forms the next token's d
 * has an f32 target. */
typedef void delta_function(const delta_pass *pass);

#define DELTA_IS_COMMON(PASS) (GD_FMA && (PASS)->key_dim == 128)

#define DELTA_FIRST(NAME, SOURCE)                                   \
  static void NAME(const delta_pass *pass) {                        \
    delta_kind kind = DELTA_KIND(SOURCE, SOURCE, 0, NEXT_TOKEN);    \
    if (DELTA_IS_COMMON(pass)) delta_first(pass, kind, 128);        \
    else delta_first(pass, kind, pass->key_dim);                    \
  }
#define DELTA_UPDATE(NAME, KIND)                                   \
  static void NAME(const delta_pass *pass) {                       \
    if (DELTA_IS_COMMON(pass)) delta_update(pass, KIND, 128);     \
    else delta_update(pass, KIND, pass->key_dim);                 \
  }
#define DELTA_UPDATE_GATES(NAME, SOURCE, TARGET, NEXT)                \
  DELTA_UPDATE(NAME##_per_head, DELTA_KIND(SOURCE, TARGET, 0, NEXT))  \
  DELTA_UPDATE(NAME##_per_key, DELTA_KIND(SOURCE, TARGET, 1, NEXT))

DELTA_FIRST(first_f32, GD_CPU_F32)
DELTA_FIRST(first_f16, GD_CPU_F16)
DELTA_FIRST(first_bf16, GD_CPU_BF16)
DELTA_UPDATE_GATES(next_f32, GD_CPU_F32, GD_CPU_F32, NEXT_TOKEN)
DELTA_UPDATE_GATES(next_f16, GD_CPU_F16, GD_CPU_F32, NEXT_TOKEN)
DELTA_UPDATE_GATES(next_bf16, GD_CPU_BF16, GD_CPU_F32, NEXT_TOKEN)
/* For the last token, and for the only one. */
#define DELTA_UPDATE_LAST(NAME, SOURCE, TARGET)               \
  DELTA_UPDATE_GATES(last_##NAME, SOURCE, TARGET, NEXT_NONE)  \
  DELTA_UPDATE_GATES(only_##NAME, SOURCE, TARGET, NEXT_ROWS)
DELTA_UPDATE_LAST(f32_f32, GD_CPU_F32, GD_CPU_F32)
DELTA_UPDATE_LAST(f32_f16, GD_CPU_F32, GD_CPU_F16)
DELTA_UPDATE_LAST(f32_bf16, GD_CPU_F32, GD_CPU_BF16)
DELTA_UPDATE_LAST(f16_f32, GD_CPU_F16, GD_CPU_F32)
DELTA_UPDATE_LAST(f16_f16, GD_CPU_F16, GD_CPU_F16)
DELTA_UPDATE_LAST(bf16_f32, GD_CPU_BF16, GD_CPU_F32)
DELTA_UPDATE_LAST(bf16_bf16, GD_CPU_BF16, GD_CPU_BF16)

/* Indexed by gate dims (0 per head, 1 per key) and dtype - 1. The slots of one pool share their dtype, so nothing
 * leads from f16 to bf16. */
static delta_function *const first_pass[3] = {first_f32, first_f16, first_bf16};
static delta_function *const next_pass[2][3] = {
  {next_f32_per_head, next_f16_per_head, next_bf16_per_head},
  {next_f32_per_key, next_f16_per_key, next_bf16_per_key},
};
#define DELTA_LAST_TABLE(NAME, GATES)                                          \
  {{NAME##_f32_f32_##GATES, NAME##_f32_f16_##GATES, NAME##_f32_bf16_##GATES}, \
   {NAME##_f16_f32_##GATES, NAME##_f16_f16_##GATES, NULL},                    \
   {NAME##_bf16_f32_##GATES, NULL, NAME##_bf16_bf16_##GATES}}
static delta_function *const last_pass[2][3][3] = {
  DELTA_LAST_TABLE(last, per_head), DELTA_LAST_TABLE(last, per_key)};
static delta_function *const only_pass[2][3][3] = {
  DELTA_LAST_TABLE(only, per_head), DELTA_LAST_TABLE(only, per_key)};

/* For the only token, with rows kept widened. */
#if GD_WIDTH == 16
#define DELTA_CAN_KEEP 1
DELTA_UPDATE(keep_bf16_per_head, DELTA_KEEPS(DELTA_KIND(GD_CPU_BF16, GD_CPU_BF16, 0, NEXT_ROWS)))
DELTA_UPDATE(keep_bf16_per_key, DELTA_KEEPS(DELTA_KIND(GD_CPU_BF16, GD_CPU_BF16, 1, NEXT_ROWS)))
static delta_function *const keep_pass[2] = {keep_bf16_per_head, keep_bf16_per_key};
#else
#define DELTA_CAN_KEEP 0
static delta_function *const keep_pass[2] = {NULL, NULL};
#endif
