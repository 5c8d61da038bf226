/* gatedRmsNorm: work items are rows. */

static void gated_rms_norm(const void *params, int64_t begin, int64_t end, void *memory) {
  const gd_cpu_gated_rms_norm *op = params;
  char *cursor = memory;
  float *gated = scratch_take(&cursor, NORM_BLOCK), *weight = scratch_take(&cursor, NORM_BLOCK);
  norm_row_of row = {
    .dim = op->dim, .activation = op->activation, .order = op->order, .eps = op->eps, .weight = op->weight.data,
    .x_dtype = op->x.dtype, .z_dtype = op->z.dtype, .weight_dtype = op->weight.dtype, .out_dtype = op->out.dtype};
  if (op->dim <= NORM_BLOCK) {
    convert(op->weight.data, 0, op->weight.dtype, weight, 0, GD_CPU_F32, op->dim);
    row.weight = weight;
    row.weight_dtype = GD_CPU_F32;
  }
  for (int64_t item = begin; item < end; item++) {
    int64_t token = item / op->heads, head = item % op->heads;
    row.x = element(&op->x, token, head, 0);
    row.z = element(&op->z, token, head, 0);
    row.out = element(&op->out, token, head, 0);
    norm_row_any(&row, gated);
  }
}
