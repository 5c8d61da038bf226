/* attention: causal softmax attention of grouped query heads over keys and values in pages.
 *
 * attention_store writes this op's key and value rows into the pages; attention and attention_combine run after it has
 * ended. A query row takes its keys from token 0 on in spans of GD_CPU_ATTENTION_SPAN, a span in blocks of ATTENTION_BLOCK. A
 * block, with s its scores, m, l and v the span's maximum, sum and values so far:
 *
 *   m' = max(m, max s); c = exp(m - m'); p = exp(s - m'); l <- l c + sum p; v <- v c + sum p value; m <- m'
 *
 * and a span, with M, L and V those of the spans before it (the first span's are taken as they are):
 *
 *   M' = max(M, m); L <- L exp(M - M') + l exp(m - M'); V <- V exp(M - M') + v exp(m - M'); M <- M'
 *
 * out = V / L (sigmoid(gate)). So a row's bits depend only on the order of its keys: spans of a row may be worked on side by
 * side and combined later, and rows in any company. If everything is -inf, exponents are relative to 0. */

enum { ATTENTION_ROWS = GD_CPU_ATTENTION_ROWS }; /* query rows that share the keys and values read */

/* (x r) w or (x r) (1 + w), as rms_norm; rows without a norm as they are. */
GD_INLINE void head_norm(
  const void *x, uint32_t dtype, const gd_cpu_tensor *weight, uint32_t form, float eps, float *row, int64_t dim
) {
  convert(x, 0, dtype, row, 0, GD_CPU_F32, dim);
  if (weight->data == NULL) return;
  vf factor = splat(rsqrt_one(sum_of_squares(row, GD_CPU_F32, dim) / (double)dim + eps));
  for (int64_t i = 0; i < dim; i += GD_WIDTH) {
    vf w = load_left(weight->data, i, weight->dtype, dim - i);
    if (form == GD_CPU_WEIGHT_PLUS_ONE) w = splat(1.0f) + w;
    store_left(row, i, GD_CPU_F32, dim - i, load_left(row, i, GD_CPU_F32, dim - i) * factor * w);
  }
}

/* Turns element i with element i + rotary / 2; angles holds their cosines, then their sines. */
GD_INLINE void rotate_row(float *row, const float *angles, int64_t rotary) {
  int64_t half = rotary / 2;
  for (int64_t i = 0; i < half; i += GD_WIDTH) {
    int64_t left = half - i;
    vf a = load_left(row, i, GD_CPU_F32, left), b = load_left(row, half + i, GD_CPU_F32, left);
    vf c = load_left(angles, i, GD_CPU_F32, left), s = load_left(angles, half + i, GD_CPU_F32, left);
    store_left(row, i, GD_CPU_F32, left, fma_vf(-b, s, a * c));
    store_left(row, half + i, GD_CPU_F32, left, fma_vf(a, s, b * c));
  }
}

static void attention_store(const void *params, int64_t begin, int64_t end, void *memory, const uint32_t *stop) {
  const gd_cpu_attention *op = params;
  int64_t dim = op->head_dim, size = dtype_size(op->page_dtype);
  float *row = memory;
  for (int64_t item = begin; item < end && !gd_cpu_stopped(stop); item++) {
    int64_t token = item / op->key_heads, head = item % op->key_heads;
    int64_t at = (op->places[token] + head * op->page_tokens) * dim;
    head_norm(element(&op->key, token, head, 0), op->key.dtype, &op->key_norm, op->weight_form, op->norm_eps, row, dim);
    if (op->rotary_dim > 0) rotate_row(row, op->angles + token * op->rotary_dim, op->rotary_dim);
    convert(row, 0, GD_CPU_F32, (char *)op->key_pages + at * size, 0, op->page_dtype, dim);
    convert(
      element(&op->value, token, head, 0), 0, op->value.dtype, (char *)op->value_pages + at * size, 0, op->page_dtype,
      dim);
  }
}

/* The working set of an item. */
typedef struct attention_work {
  float *query, *values, *total; /* ATTENTION_ROWS rows each: the query, a span's v and the V of those before */
  float *scores;                 /* [ATTENTION_ROWS, ATTENTION_BLOCK] */
  float *keys_copy, *values_copy;
  attention_rows keys[2], block_values[2]; /* of this block and of the next, which is prefetched if it is read once */
  float max[ATTENTION_ROWS], sum[ATTENTION_ROWS], correction[ATTENTION_ROWS];
  float total_max[ATTENTION_ROWS], total_sum[ATTENTION_ROWS];
  int64_t seen[ATTENTION_ROWS]; /* the number of keys that each row sees: all up to its own token */
  int64_t counts[ATTENTION_ROWS];
} attention_work;

/* Reference point of exponents. */
GD_INLINE float finite_max(float max) { return max == -__builtin_inff() ? 0.0f : max; }

/* Turns scores into weights and updates the row's maximum and sum. count: the number of its keys in this block. */
GD_INLINE void softmax_step(float *scores, int64_t count, float *max, float *sum, float *correction) {
  enum { VECTORS = ATTENTION_BLOCK / GD_WIDTH };
  const vf none = splat(-__builtin_inff());
  vi lanes;
  GD_UNROLL for (int l = 0; l < GD_WIDTH; l++) lanes[l] = l;
  vf largest = none;
  for (int v = 0; v < VECTORS; v++) {
    vf s = load(scores, v * GD_WIDTH, GD_CPU_F32);
    s = select_vf(lanes + v * GD_WIDTH < (int32_t)count, s, none);
    store(scores, v * GD_WIDTH, GD_CPU_F32, s);
    largest = select_vf(s > largest, s, largest);
  }
  float before = *max, now = before;
  GD_UNROLL for (int l = 0; l < GD_WIDTH; l++) now = largest[l] > now ? largest[l] : now;
  vf reference = splat(finite_max(now));
  vf parts[GD_PARTS];
  GD_UNROLL for (int p = 0; p < GD_PARTS; p++) parts[p] = splat(0.0f);
  for (int v = 0; v < VECTORS; v += GD_PARTS) {
    GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
      vf weight = exp_vf(load(scores, (v + p) * GD_WIDTH, GD_CPU_F32) - reference);
      store(scores, (v + p) * GD_WIDTH, GD_CPU_F32, weight);
      parts[p] = parts[p] + weight;
    }
  }
  *correction = exp_one(before - reference[0]);
  *max = now;
  *sum = fma_vf(splat(*sum), splat(*correction), splat(sum_one(fold(parts))))[0];
}

/* Adds one more span to V, M and L. */
static void add_span(float *total, float *total_max, float *total_sum, const float *values, float max, float sum,
                     int64_t stride) {
  float now = max > *total_max ? max : *total_max, reference = finite_max(now);
  vf before = splat(exp_one(*total_max - reference)), here = splat(exp_one(max - reference));
  for (int64_t i = 0; i < stride; i += GD_WIDTH) {
    vf v = fma_vf(load(total, i, GD_CPU_F32), before, load(values, i, GD_CPU_F32) * here);
    store(total, i, GD_CPU_F32, v);
  }
  *total_sum = fma_vf(splat(*total_sum), before, splat(sum) * here)[0];
  *total_max = now;
}

/* Finds keys and values first .. first + count - 1 of a sequence; rows that are not whole vectors, and those that many
 * query rows read, are copied as floats. */
static void find_block(
  const gd_cpu_attention *op, const gd_cpu_paged_sequence *sequence, int64_t head, int64_t first, int64_t count,
  int copied, attention_work *work, attention_rows *keys, attention_rows *values
) {
  int64_t dim = op->head_dim, stride = attention_stride(dim), size = dtype_size(op->page_dtype);
  int64_t page = first / op->page_tokens, row = first % op->page_tokens;
  keys->dtype = values->dtype = copied ? GD_CPU_F32 : op->page_dtype;
  for (int64_t k = 0; k < count; k++) {
    int64_t at = ((sequence->pages[page] * op->key_heads + head) * op->page_tokens + row) * dim * size;
    const char *key = (const char *)op->key_pages + at, *value = (const char *)op->value_pages + at;
    keys->row[k] = key;
    values->row[k] = value;
    if (copied) {
      convert(key, 0, op->page_dtype, work->keys_copy, k * stride, GD_CPU_F32, dim);
      convert(value, 0, op->page_dtype, work->values_copy, k * stride, GD_CPU_F32, dim);
      keys->row[k] = work->keys_copy + k * stride;
      values->row[k] = work->values_copy + k * stride;
    }
    if (++row == op->page_tokens) {
      row = 0;
      page++;
    }
  }
  for (int64_t k = count; k < count + ATTENTION_REPEATED; k++) {
    keys->row[k] = keys->row[count - 1];
    values->row[k] = values->row[count - 1];
  }
}

static void attention_block(
  attention_work *work, const attention_rows *keys, const attention_rows *values, attention_fetch *fetch_values,
  attention_fetch *fetch_next, int64_t first, int64_t count, int64_t rows, int64_t dim
) {
  int64_t stride = attention_stride(dim), idle = 0;
  while (idle < rows && work->seen[idle] <= first) idle++;
  for (int64_t r = idle; r < rows; r++) work->counts[r] = least(work->seen[r] - first, count);
  float *scores = work->scores + idle * ATTENTION_BLOCK;
  scores_of(work->query + idle * stride, stride, keys, fetch_values, count, rows - idle, dim, scores);
  for (int64_t r = idle; r < rows; r++) {
    softmax_step(
      work->scores + r * ATTENTION_BLOCK, work->counts[r], &work->max[r], &work->sum[r], &work->correction[r]);
  }
  values_of(
    work->values + idle * stride, stride, scores, work->correction + idle, values, fetch_next, work->counts + idle,
    rows - idle);
}

static void prepare_queries(
  const gd_cpu_attention *op, const gd_cpu_paged_sequence *sequence, const gd_cpu_attention_task *task, int64_t head,
  attention_work *work
) {
  int64_t group = op->heads / op->key_heads, dim = op->head_dim, stride = attention_stride(dim);
  for (int64_t r = 0; r < task->row_count; r++) {
    int64_t row = task->first_row + r, token = sequence->first + row / group, at = head * group + row % group;
    float *query = work->query + r * stride;
    head_norm(
      element(&op->query, token, at, 0), op->query.dtype, &op->query_norm, op->weight_form, op->norm_eps, query, dim);
    if (op->rotary_dim > 0) rotate_row(query, op->angles + token * op->rotary_dim, op->rotary_dim);
    for (int64_t i = 0; i < dim; i++) query[i] = query[i] * op->scale;
    for (int64_t i = dim; i < stride; i++) query[i] = 0.0f;
    work->seen[r] = sequence->past + row / group + 1;
  }
}

/* out = V / L (sigmoid(gate)) of a row of the sequence. */
static void finish_row(
  const gd_cpu_attention *op, const gd_cpu_paged_sequence *sequence, int64_t head, int64_t row, const float *values,
  float sum
) {
  int64_t group = op->heads / op->key_heads, dim = op->head_dim;
  int64_t token = sequence->first + row / group, at = head * group + row % group;
  void *out = element(&op->out, token, at, 0);
  const void *gate = op->gate.data == NULL ? NULL : element(&op->gate, token, at, 0);
  for (int64_t i = 0; i < dim; i += GD_WIDTH) {
    vf x = load_left(values, i, GD_CPU_F32, dim - i) / splat(sum);
    if (gate != NULL) x = x * sigmoid_vf(load_left(gate, i, op->gate.dtype, dim - i));
    store_left(out, i, op->out.dtype, dim - i, x);
  }
}

/* Floats of a partial result: a span's values, then its maximum and sum. */
GD_INLINE float *partial_of(const gd_cpu_attention *op, const gd_cpu_paged_sequence *sequence, int64_t head,
                            int64_t row, int64_t span) {
  int64_t rows = sequence->count * (op->heads / op->key_heads);
  return sequence->partials + ((head * rows + row) * sequence->spans + span) * gd_cpu_attention_partial(op);
}

static void attention_task(
  const gd_cpu_attention *op, const gd_cpu_attention_task *task, int64_t head, attention_work *work,
  const uint32_t *stop
) {
  const gd_cpu_paged_sequence *sequence = &op->sequences[task->sequence];
  int64_t rows = task->row_count, dim = op->head_dim, stride = attention_stride(dim);
  int copied = dim % GD_LANES != 0 || (op->page_dtype != GD_CPU_F32 && rows > 2 * VALUE_ROWS);
  int few = !copied && rows <= 2 * VALUE_ROWS;
  prepare_queries(op, sequence, task, head, work);
  int64_t end = least(work->seen[rows - 1], task->end_span * GD_CPU_ATTENTION_SPAN);
  int64_t start = task->first_span * GD_CPU_ATTENTION_SPAN;
  if (few) {
    find_block(
      op, sequence, head, start, least(ATTENTION_BLOCK, end - start), 0, work, &work->keys[0], &work->block_values[0]);
  }
  for (int64_t span = task->first_span; span * GD_CPU_ATTENTION_SPAN < end; span++) {
    int64_t first = span * GD_CPU_ATTENTION_SPAN, last = least(first + GD_CPU_ATTENTION_SPAN, end);
    for (int64_t r = 0; r < rows; r++) {
      work->max[r] = -__builtin_inff();
      work->sum[r] = 0.0f;
    }
    __builtin_memset(work->values, 0, (size_t)(rows * stride) * sizeof(float));
    for (int64_t at = first; at < last; at += ATTENTION_BLOCK) {
      if (gd_cpu_stopped(stop)) return;
      int64_t count = least(ATTENTION_BLOCK, last - at);
      int64_t turn = few ? at / ATTENTION_BLOCK % 2 : 0, next = at + count;
      attention_rows *keys = &work->keys[turn], *block_values = &work->block_values[turn];
      if (!few) {
        find_block(op, sequence, head, at, count, copied, work, keys, block_values);
        attention_block(work, keys, block_values, NULL, NULL, at, count, rows, dim);
        continue;
      }
      int64_t bytes = dim * dtype_size(op->page_dtype), more = least(ATTENTION_BLOCK, end - next);
      if (more > 0) {
        find_block(op, sequence, head, next, more, 0, work, &work->keys[!turn], &work->block_values[!turn]);
      }
      attention_fetch fetch_values = attention_fetch_of(block_values, count, bytes);
      attention_fetch fetch_next = attention_fetch_of(&work->keys[!turn], more, bytes);
      attention_block(work, keys, block_values, &fetch_values, &fetch_next, at, count, rows, dim);
    }
    for (int64_t r = 0; r < rows; r++) {
      if (work->seen[r] <= first) continue;
      const float *values = work->values + r * stride;
      if (sequence->partials != NULL) {
        float *partial = partial_of(op, sequence, head, task->first_row + r, span);
        __builtin_memcpy(partial, values, (size_t)stride * sizeof(float));
        partial[stride] = work->max[r];
        partial[stride + 1] = work->sum[r];
      } else if (span == 0) {
        __builtin_memcpy(work->total + r * stride, values, (size_t)stride * sizeof(float));
        work->total_max[r] = work->max[r];
        work->total_sum[r] = work->sum[r];
      } else {
        add_span(
          work->total + r * stride, &work->total_max[r], &work->total_sum[r], values, work->max[r], work->sum[r], stride);
      }
    }
  }
  if (sequence->partials != NULL) return;
  for (int64_t r = 0; r < rows; r++) {
    finish_row(op, sequence, head, task->first_row + r, work->total + r * stride, work->total_sum[r]);
  }
}

static void attention(const void *params, int64_t begin, int64_t end, void *memory, const uint32_t *stop) {
  const gd_cpu_attention *op = params;
  char *cursor = memory;
  int64_t stride = attention_stride(op->head_dim);
  attention_work work;
  work.query = scratch_take(&cursor, ATTENTION_ROWS * stride);
  work.values = scratch_take(&cursor, ATTENTION_ROWS * stride);
  work.total = scratch_take(&cursor, ATTENTION_ROWS * stride);
  work.scores = scratch_take(&cursor, ATTENTION_ROWS * ATTENTION_BLOCK);
  work.keys_copy = scratch_take(&cursor, ATTENTION_BLOCK * stride);
  work.values_copy = scratch_take(&cursor, ATTENTION_BLOCK * stride);
  /* The padding after a copied row's elements, if there is any, stays zero. */
  for (int64_t k = 0; k < ATTENTION_BLOCK && stride > op->head_dim; k++) {
    for (int64_t i = op->head_dim; i < stride; i++) work.keys_copy[k * stride + i] = work.values_copy[k * stride + i] = 0.0f;
  }
  for (int64_t item = begin; item < end && !gd_cpu_stopped(stop); item++) {
    attention_task(op, &op->tasks[item / op->key_heads], item % op->key_heads, &work, stop);
  }
}

/* An item is a key head of a sequence: its rows' spans become its output. */
static void attention_combine(const void *params, int64_t begin, int64_t end, void *memory, const uint32_t *stop) {
  const gd_cpu_attention *op = params;
  int64_t stride = attention_stride(op->head_dim), group = op->heads / op->key_heads;
  float *total = memory;
  for (int64_t item = begin; item < end && !gd_cpu_stopped(stop); item++) {
    const gd_cpu_paged_sequence *sequence = &op->sequences[item / op->key_heads];
    int64_t head = item % op->key_heads;
    if (sequence->partials == NULL) continue;
    for (int64_t row = 0; row < sequence->count * group; row++) {
      int64_t seen = sequence->past + row / group + 1;
      const float *partial = partial_of(op, sequence, head, row, 0);
      __builtin_memcpy(total, partial, (size_t)stride * sizeof(float));
      float max = partial[stride], sum = partial[stride + 1];
      for (int64_t span = 1; span * GD_CPU_ATTENTION_SPAN < seen; span++) {
        partial = partial_of(op, sequence, head, row, span);
        add_span(total, &max, &sum, partial, partial[stride], partial[stride + 1], stride);
      }
      finish_row(op, sequence, head, row, total, sum);
    }
  }
}
