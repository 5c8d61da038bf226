/* causalConv1d: work items are (sequence, block of channels). */

static void causal_conv1d(const void *params, int64_t begin, int64_t end, void *memory, const uint32_t *stop) {
  const gd_cpu_causal_conv1d *op = params;
  int64_t blocks = (op->channels + op->channels_per_item - 1) / op->channels_per_item;
  char *cursor = memory;
  conv_block block = conv_block_make(&cursor);
  block.width = op->width;
  block.activation = op->activation;
  for (int64_t item = begin; item < end && !gd_cpu_stopped(stop); item++) {
    const gd_cpu_sequence *sequence = &op->sequences[item / blocks];
    block.first = item % blocks * op->channels_per_item;
    int64_t left = op->channels - block.first;
    block.count = left < op->channels_per_item ? left : op->channels_per_item;
    int64_t taps = op->width - 1;
    const gd_cpu_state_store *stores = sequence->stores;
    int64_t next_store = 0, store_count = sequence->store_count;
    if (sequence->count == 0) {
      copy_state(sequence, op->state_dtype, block.first * taps, block.count * taps);
      if (store_count == 0) continue;
    }
    conv_begin(&block, &op->weight, &op->bias, sequence->read, op->state_dtype);
    for (; next_store < store_count && stores[next_store].after == 0; next_store++) {
      conv_end(&block, stores[next_store].state, stores[next_store].dtype);
    }
    if (sequence->count == 0) continue;
    for (int64_t done = 0, count; done < sequence->count; done += count) {
      if (done % 64 == 0 && gd_cpu_stopped(stop)) return;
      count = least(sequence->count - done, CONV_TOKENS);
      if (next_store < store_count) count = least(count, stores[next_store].after - done);
      conv_rows rows = {
        .x = element(&op->x, sequence->first + done, 0, block.first), .x_dtype = op->x.dtype,
        .x_step = op->x.token_stride * dtype_size(op->x.dtype),
        .out = element(&op->out, sequence->first + done, 0, block.first), .out_dtype = op->out.dtype,
        .out_step = op->out.token_stride * dtype_size(op->out.dtype),
        .ahead = done + count + CONV_TOKENS <= sequence->count ? CONV_TOKENS : 0};
      conv_tokens(&block, &rows, count);
      for (; next_store < store_count && stores[next_store].after == done + count; next_store++) {
        conv_end(&block, stores[next_store].state, stores[next_store].dtype);
      }
    }
    conv_end(&block, sequence->write, op->state_dtype);
  }
}
