/* gatedRmsNorm: work items are rows. */

static void gated_rms_norm(const void *params, int64_t begin, int64_t end, void *memory, const uint32_t *stop) {
  const gd_cpu_gated_rms_norm *op = params;
  char *cursor = memory;
  float *gated = scratch_take(&cursor, NORM_BLOCK), *weight = scratch_take(&cursor, NORM_BLOCK);
  norm_rows rows = {
    .kind = {op->x.dtype, op->z.dtype, op->weight.dtype, op->out.dtype, op->activation}, .order = op->order,
    .eps = op->eps, .dim = op->dim, .weight = op->weight.data};
  if (op->dim <= NORM_BLOCK && begin < end) {
    convert(op->weight.data, 0, op->weight.dtype, weight, 0, GD_CPU_F32, op->dim);
    rows.weight = weight;
    rows.kind.weight_dtype = GD_CPU_F32;
  }
  int64_t together = op->dim <= 1 << 16 ? NORM_ROWS : 1;
  for (int64_t item = begin; item < end && !gd_cpu_stopped(stop); item += rows.count) {
    rows.count = least(end - item, together);
    for (int64_t r = 0; r < rows.count; r++) {
      int64_t token = (item + r) / op->heads, head = (item + r) % op->heads;
      rows.x[r] = element(&op->x, token, head, 0);
      rows.z[r] = element(&op->z, token, head, 0);
      rows.out[r] = element(&op->out, token, head, 0);
    }
    norm_run(&rows, gated);
  }
}
