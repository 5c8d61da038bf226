/* causalConv1d: work items are (sequence, block of channels). */

static void copy_conv_state(
  const gd_cpu_causal_conv1d *op, const gd_cpu_sequence *sequence, int64_t first, int64_t count
) {
  int64_t taps = op->width - 1, size = dtype_size(op->state_dtype), at = first * taps * size;
  if (sequence->write == NULL || sequence->write == sequence->read) return;
  char *target = (char *)sequence->write + at;
  if (sequence->read == NULL) __builtin_memset(target, 0, (size_t)(count * taps * size));
  else __builtin_memcpy(target, (const char *)sequence->read + at, (size_t)(count * taps * size));
}

static void causal_conv1d(const void *params, int64_t begin, int64_t end, void *memory) {
  const gd_cpu_causal_conv1d *op = params;
  int64_t blocks = (op->channels + op->channels_per_item - 1) / op->channels_per_item;
  char *cursor = memory;
  conv_block block = conv_block_make(&cursor);
  block.width = op->width;
  block.activation = op->activation;
  for (int64_t item = begin; item < end; item++) {
    const gd_cpu_sequence *sequence = &op->sequences[item / blocks];
    block.first = item % blocks * op->channels_per_item;
    int64_t left = op->channels - block.first;
    block.count = left < op->channels_per_item ? left : op->channels_per_item;
    if (sequence->count == 0) {
      copy_conv_state(op, sequence, block.first, block.count);
      continue;
    }
    conv_begin(&block, &op->weight, &op->bias, sequence->read, op->state_dtype);
    for (int64_t t = sequence->first; t < sequence->first + sequence->count; t++) {
      conv_token(
        &block, op->x.data, t * op->x.token_stride + block.first, op->x.dtype, op->out.data,
        t * op->out.token_stride + block.first, op->out.dtype);
    }
    conv_end(&block, sequence->write, op->state_dtype);
  }
}
