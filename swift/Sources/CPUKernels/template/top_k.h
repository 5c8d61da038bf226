/* topK: the k largest elements of a row. Work items are rows.
 *
 * An element and its column become one number that ascends in the order wanted, as in route.h; NaN comes first
 * here. The k least numbers are in a heap, the greatest first. Blocks of a row in which no element exceeds that one's
 * are skipped. */

GD_INLINE uint64_t top_k_key(float x, int64_t id) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t ascending = magnitude == 0 ? 0x80000000u : bits >> 31 ? ~bits : bits | 0x80000000u;
  uint32_t descending = magnitude > 0x7f800000u ? 0 : ~ascending;
  return (uint64_t)descending << 32 | (uint64_t)id;
}

enum { TOP_K_VECTORS = 8 };

/* Whether an element of some vectors may come before one of value `floor` and a lower column: exceeds it, or is NaN. */
GD_INLINE int top_k_any(const void *row, int64_t at, int vectors, uint32_t dtype, vf floor) {
  vi any = {0};
  GD_UNROLL for (int v = 0; v < vectors; v++) any |= ~(load(row, at + v * GD_WIDTH, dtype) <= floor);
  return __builtin_reduce_or(any) != 0;
}

/* The `chosen` least keys of a row, ascending. */
GD_INLINE void top_k_choose(const void *row, uint32_t dtype, int64_t columns, int64_t chosen, uint64_t *heap) {
  for (int64_t i = 0; i < chosen; i++) {
    uint64_t key = top_k_key(load_one(row, i, dtype), i);
    int64_t at = i;
    for (; at > 0 && heap[(at - 1) / 2] < key; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
    heap[at] = key;
  }
  enum { BLOCK = TOP_K_VECTORS * GD_WIDTH };
  vf floor = splat(load_one(row, (uint32_t)heap[0], dtype));
  for (int64_t i = chosen; i < columns; i += BLOCK) {
    int64_t end = least(i + BLOCK, columns);
    if (end - i == BLOCK && !top_k_any(row, i, TOP_K_VECTORS, dtype, floor)) continue;
    for (int64_t first = i; first < end; first += GD_WIDTH) {
      int64_t after = least(first + GD_WIDTH, end);
      if (after - first == GD_WIDTH && !top_k_any(row, first, 1, dtype, floor)) continue;
      for (int64_t at = first; at < after; at++) {
        uint64_t key = top_k_key(load_one(row, at, dtype), at);
        if (key < heap[0]) route_sink(heap, chosen, key);
      }
      floor = splat(load_one(row, (uint32_t)heap[0], dtype));
    }
  }
  for (int64_t left = chosen - 1; left > 0; left--) {
    uint64_t greatest = heap[0];
    route_sink(heap, left, heap[left]);
    heap[left] = greatest;
  }
}

static void top_k(const void *params, int64_t begin, int64_t end, void *scratch, const uint32_t *stop) {
  const gd_cpu_top_k *op = params;
  uint64_t *best = scratch;
  for (int64_t r = begin; r < end && !gd_cpu_stopped(stop); r++) {
    const void *row = element(&op->x, r, 0, 0);
    /* A loop for each dtype, which has no branch for its conversion. */
    if (op->x.dtype == GD_CPU_F32) top_k_choose(row, GD_CPU_F32, op->columns, op->chosen, best);
    else if (op->x.dtype == GD_CPU_F16) top_k_choose(row, GD_CPU_F16, op->columns, op->chosen, best);
    else top_k_choose(row, GD_CPU_BF16, op->columns, op->chosen, best);
    for (int64_t j = 0; j < op->chosen; j++) {
      int32_t id = (int32_t)(uint32_t)best[j];
      op->ids[r * op->chosen + j] = id;
      op->values[r * op->chosen + j] = load_one(row, id, op->x.dtype);
    }
  }
}
