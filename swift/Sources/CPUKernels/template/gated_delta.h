/* gatedDelta: work items are (sequence, value head, block of value rows). With several tokens the value heads of a
 * key head are adjacent, so that a thread that runs several of them prepares query and key once. With a single token heads
 * are in the order of their states in memory, since reading those takes the time; the token's keys, one row each, are all kept. */

GD_INLINE int64_t key_head_of(const gd_cpu_heads *heads, int64_t value_head) {
  if (heads->head_map == GD_CPU_HEADS_TILED) return value_head % heads->key_heads;
  return value_head / (heads->value_heads / heads->key_heads);
}

/* The h-th value head in that order. */
GD_INLINE int64_t value_head_at(const gd_cpu_heads *heads, int64_t tokens, int64_t h) {
  int64_t group = heads->value_heads / heads->key_heads;
  return tokens == 1 || heads->head_map == GD_CPU_HEADS_BLOCK ? h : h % group * heads->key_heads + h / group;
}

/* The stores due before the first token. */
static void store_before(
  const gd_cpu_sequence *sequence, delta_state state, int64_t head, const gd_cpu_heads *heads, int64_t first_row,
  int64_t end_row
) {
  int64_t dim = heads->key_dim;
  for (int64_t i = 0; i < sequence->store_count && sequence->stores[i].after == 0; i++) {
    const gd_cpu_state_store *store = &sequence->stores[i];
    for (int64_t row = first_row; row < end_row; row++) {
      int64_t to = (head * heads->value_dim + row) * dim;
      convert(state.source, row * dim, state.source_dtype, store->state, to, store->dtype, dim);
    }
  }
}

/* The key head and the token whose key and query a row of scratch holds. */
typedef struct prepared_row {
  int64_t key_head, token; /* -1: none */
} prepared_row;

/* Query and key of a block of tokens, unless they are there already. */
static void prepare_keys(
  const gd_cpu_gated_delta *op, const delta_scratch *scratch, prepared_row *prepared, int64_t head, int64_t first,
  int64_t count
) {
  int64_t dim = op->heads.key_dim;
  for (int64_t t = 0; t < count; t++) {
    if (prepared[t].key_head == head && prepared[t].token == first + t) continue;
    prepared[t] = (prepared_row){head, first + t};
    float *key = scratch->key + t * scratch->padded, *query = scratch->query + t * scratch->padded;
    convert(element(&op->key, first + t, head, 0), 0, op->key.dtype, key, 0, GD_CPU_F32, dim);
    convert(element(&op->query, first + t, head, 0), 0, op->query.dtype, query, 0, GD_CPU_F32, dim);
    prepare_key(&op->heads, key, query, scratch->padded);
  }
}

/* Rows of a tensor, from one token's on. */
GD_INLINE delta_wanted wanted_of(const gd_cpu_tensor *tensor, int64_t token, int64_t head, int64_t at, int64_t elements,
                                 int64_t tokens) {
  int64_t size = dtype_size(tensor->dtype);
  return (delta_wanted){element(tensor, token, head, at), tensor->token_stride * size, elements * size, tokens};
}

/* Records of a block's keys and decays: rows of a head share them, and heads of a key head its keys, so that the first
 * of each keeps them. */
static void record_inputs(
  const gd_cpu_gated_delta *op, const delta_scratch *scratch, int64_t head, int64_t first, int64_t count,
  int64_t first_row
) {
  int64_t heads = op->heads.value_heads, key_heads = op->heads.key_heads, dim = op->heads.key_dim;
  if (op->records.key == NULL || first_row != 0) return;
  int per_key = op->gates.gate_dims == GD_CPU_GATE_PER_KEY;
  int64_t key_head = key_head_of(&op->heads, head);
  int is_first = op->heads.head_map == GD_CPU_HEADS_BLOCK ? head % (heads / key_heads) == 0 : head < key_heads;
  for (int64_t t = 0; t < count; t++) {
    if (is_first) {
      float *key = op->records.key + ((first + t) * key_heads + key_head) * dim;
      convert(scratch->key, t * scratch->padded, GD_CPU_F32, key, 0, GD_CPU_F32, dim);
    }
    float *decay = op->records.decay + ((first + t) * heads + head) * (per_key ? dim : 1);
    if (per_key) convert(scratch->decay, t * scratch->padded, GD_CPU_F32, decay, 0, GD_CPU_F32, dim);
    else *decay = scratch->decay[t];
  }
}

typedef struct delta_item {
  const gd_cpu_sequence *sequence;
  int64_t head, first_row, end_row;
} delta_item;

GD_INLINE delta_item delta_item_at(const gd_cpu_gated_delta *op, int64_t blocks, int64_t item) {
  int64_t per_sequence = blocks * op->heads.value_heads, rest = item % per_sequence;
  const gd_cpu_sequence *sequence = &op->sequences[item / per_sequence];
  int64_t head = value_head_at(&op->heads, sequence->count, rest / blocks), row = rest % blocks * op->rows_per_item;
  return (delta_item){sequence, head, row, least(row + op->rows_per_item, op->heads.value_dim)};
}

/* Where an item's state is read from. */
GD_INLINE const void *item_state(const gd_cpu_gated_delta *op, const delta_item *item) {
  const char *read = item->sequence->read;
  if (read == NULL) return gd_cpu_zeros;
  int64_t row = item->head * op->heads.value_dim + item->first_row;
  return read + row * op->heads.key_dim * dtype_size(op->state_dtype);
}

/* Asks for an item's first rows of inputs and of the output. */
GD_INLINE void fetch_inputs(const gd_cpu_gated_delta *op, const delta_item *item) {
  if (item->sequence->count == 0) return;
  int64_t token = item->sequence->first, key_head = key_head_of(&op->heads, item->head);
  int64_t dim = op->heads.key_dim, rows = item->end_row - item->first_row;
  fetch(element(&op->key, token, key_head, 0), dim * dtype_size(op->key.dtype));
  fetch(element(&op->query, token, key_head, 0), dim * dtype_size(op->query.dtype));
  fetch(element(&op->value, token, item->head, item->first_row), rows * dtype_size(op->value.dtype));
  fetch(element(&op->out, token, item->head, item->first_row), rows * dtype_size(op->out.dtype));
}

/* next: the item that follows this one. */
static void gated_delta_item(
  const gd_cpu_gated_delta *op, const delta_scratch *shared, prepared_row *prepared, const delta_item *item,
  const delta_item *next, const uint32_t *stop
) {
  const gd_cpu_sequence *sequence = item->sequence;
  int64_t head = item->head, first_row = item->first_row, end_row = item->end_row;
  int64_t dim = op->heads.key_dim, value_dim = op->heads.value_dim, key_head = key_head_of(&op->heads, head);
  int64_t key_row = sequence->count == 1 ? key_head % DELTA_TOKENS : 0;
  delta_scratch of_head = delta_scratch_from(*shared, key_row), *scratch = &of_head;
  int per_key = op->gates.gate_dims == GD_CPU_GATE_PER_KEY;
  int64_t size = dtype_size(op->state_dtype), offset = head * value_dim * dim * size;
  delta_state state = {gd_cpu_zeros, item_state(op, next), NULL, GD_CPU_F32, op->state_dtype, 0};
  state.in_panels = sequence->count >= DELTA_PANEL_TOKENS && dim % GD_LANES == 0 && delta_turns(per_key);
  if (sequence->read != NULL) {
    state.source = (const char *)sequence->read + offset;
    state.source_dtype = op->state_dtype;
  }
  store_before(sequence, state, head, &op->heads, first_row, end_row);
  if (sequence->count == 0) {
    copy_state(sequence, op->state_dtype, (head * value_dim + first_row) * dim, (end_row - first_row) * dim);
    return;
  }
  void *target = sequence->write == NULL ? NULL : (char *)sequence->write + offset;
  for (int64_t done = 0; done < sequence->count; done += DELTA_TOKENS) {
    if (gd_cpu_stopped(stop)) return;
    int64_t left = sequence->count - done, count = left < DELTA_TOKENS ? left : DELTA_TOKENS;
    int64_t first = sequence->first + done;
    prepare_keys(op, scratch, prepared + key_row, key_head, first, count);
    prepare_gates(&op->gates, head, first, count, dim, scratch);
    for (int64_t t = 0; t < count; t++) {
      decay_key(scratch, per_key, t);
      convert(
        element(&op->value, first + t, head, first_row), 0, op->value.dtype, scratch->value, t * value_dim + first_row,
        GD_CPU_F32, end_row - first_row);
    }
    record_inputs(op, scratch, head, first, count, first_row);
    /* A slot of 16-bit elements is written with the last tokens only. */
    int is_direct = op->state_dtype == GD_CPU_F32 && !state.in_panels;
    state.target = count == left || is_direct ? target : NULL;
    int64_t then = first + count, more = least(left - count, DELTA_TOKENS), rows = end_row - first_row;
    delta_extras extras = {
      .stores = sequence->stores, .store_count = sequence->store_count, .tokens_before = done, .head = head,
      .wanted = {
        wanted_of(&op->key, then, key_head, 0, dim, more), wanted_of(&op->query, then, key_head, 0, dim, more),
        wanted_of(&op->value, then, head, first_row, rows, more),
        wanted_of(&op->out, first, head, first_row, rows, count)}};
    if (op->records.delta != NULL) {
      extras.record = op->records.delta + (first * op->heads.value_heads + head) * value_dim;
      extras.record_stride = op->heads.value_heads * value_dim;
    }
    if (count == left) fetch_inputs(op, next);
    delta_tokens(scratch, &op->heads, per_key, state, first_row, end_row, count, &extras);
    for (int64_t t = 0; t < count; t++) {
      convert(
        scratch->out, t * value_dim + first_row, GD_CPU_F32, element(&op->out, first + t, head, first_row), 0,
        op->out.dtype, end_row - first_row);
    }
    state.source = state.target != NULL ? state.target : (const void *)scratch->state;
    state.source_dtype = GD_CPU_F32;
  }
}

static void gated_delta(const void *params, int64_t begin, int64_t end, void *memory, const uint32_t *stop) {
  const gd_cpu_gated_delta *op = params;
  if (begin == end) return;
  int64_t blocks = (op->heads.value_dim + op->rows_per_item - 1) / op->rows_per_item;
  char *cursor = memory;
  delta_scratch scratch = delta_scratch_make(&cursor, op->heads.key_dim);
  prepared_row prepared[DELTA_TOKENS];
  for (int64_t row = 0; row < DELTA_TOKENS; row++) prepared[row] = (prepared_row){-1, -1};
  delta_item next = delta_item_at(op, blocks, begin);
  for (int64_t i = begin; i < end && !gd_cpu_stopped(stop); i++) {
    delta_item item = next;
    if (i + 1 < end) next = delta_item_at(op, blocks, i + 1);
    gated_delta_item(op, &scratch, prepared, &item, &next, stop);
  }
}
