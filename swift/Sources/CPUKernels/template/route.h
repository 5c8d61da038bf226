/* route: the k best of a row of logits and their shares of its softmax. Work items are tokens.
 *
 * A logit and its id become one number that ascends in the order wanted: first a part that ascends as logits descend, then
 * the id. The k least numbers are in a heap, the greatest first, which is then taken apart from its end. The sum of a
 * row's exponentials has the order of sums.h: element i into partial i mod GD_LANES. */

/* Ascends as x descends; 0 and -0 are equal, and every NaN comes last. */
GD_INLINE uint64_t route_key(float x, int64_t id) {
  float number = x + 0.0f; /* -0 becomes 0 */
  uint32_t bits;
  __builtin_memcpy(&bits, &number, sizeof bits);
  uint32_t ascending = bits >> 31 ? ~bits : bits | 0x80000000u;
  uint32_t descending = x != x ? UINT32_MAX : ~ascending;
  return (uint64_t)descending << 32 | (uint64_t)id;
}

/* Puts a key into the place of the first of `count`, and restores the order of the heap. */
GD_INLINE void route_sink(uint64_t *heap, int64_t count, uint64_t key) {
  int64_t at = 0;
  for (int64_t child = 1; child < count; child = 2 * at + 1) {
    if (child + 1 < count && heap[child + 1] > heap[child]) child++;
    if (heap[child] <= key) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = key;
}

/* The `chosen` least keys of a row, ascending. */
static void route_choose(const float *row, int64_t experts, int64_t chosen, uint64_t *heap) {
  for (int64_t i = 0; i < chosen; i++) {
    uint64_t key = route_key(row[i], i);
    int64_t at = i;
    for (; at > 0 && heap[(at - 1) / 2] < key; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
    heap[at] = key;
  }
  for (int64_t i = chosen; i < experts; i++) {
    uint64_t key = route_key(row[i], i);
    if (key < heap[0]) route_sink(heap, chosen, key);
  }
  for (int64_t left = chosen - 1; left > 0; left--) {
    uint64_t greatest = heap[0];
    route_sink(heap, left, heap[left]);
    heap[left] = greatest;
  }
}

/* Makes exponentials of a row of logits, in place, and returns their sum. most: the greatest that is a number. */
static float route_exponentials(float *row, int64_t experts, float most) {
  vf sums[GD_PARTS] = {0};
  for (int64_t i = 0; i < experts; i += GD_LANES) {
    GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
      int64_t at = i + p * GD_WIDTH, left = experts - at;
      if (left <= 0) break;
      vf e = exp_vf(load_left(row, at, GD_CPU_F32, left) - splat(most));
      store_left(row, at, GD_CPU_F32, left, e);
      sums[p] += load_left(row, at, GD_CPU_F32, left);
    }
  }
  return sum_one(fold(sums));
}

static void route(const void *params, int64_t begin, int64_t end, void *scratch, const uint32_t *stop) {
  const gd_cpu_route *op = params;
  char *take = scratch;
  float *row = scratch_take(&take, GD_CPU_MOST_EXPERTS);
  uint64_t *best = (uint64_t *)scratch_take(&take, 2 * GD_CPU_MOST_EXPERTS);
  for (int64_t token = begin; token < end && !gd_cpu_stopped(stop); token++) {
    int32_t *ids = op->ids + token * op->chosen;
    float *weights = op->weights + token * op->chosen;
    convert(element(&op->logits, token, 0, 0), 0, op->logits.dtype, row, 0, GD_CPU_F32, op->experts);
    route_choose(row, op->experts, op->chosen, best);
    float sum = route_exponentials(row, op->experts, row[(uint32_t)best[0]]), total = 0;
    for (int64_t j = 0; j < op->chosen; j++) {
      ids[j] = (int32_t)(uint32_t)best[j];
      weights[j] = row[ids[j]] / sum;
      total += weights[j];
    }
    for (int64_t j = 0; j < op->chosen && op->normalize; j++) weights[j] /= total;
  }
}
