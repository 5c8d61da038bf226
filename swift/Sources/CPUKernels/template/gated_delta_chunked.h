/* gatedDelta by chunks (chunk.h): work items are those of gated_delta.h, (sequence, value head, block of value rows).
 * Items of one key head that follow one another go through the chunks together.
 *
 * A sequence's chunks begin at every CHUNK-th of its tokens, regardless of stores: a state within a chunk is computed
 * separately, from the same d, and equals the final state of a call that ends there. */

enum { CHUNK_HEADS = 4, CHUNK_STATES = 1 << 17 }; /* value heads together, and floats of their states */

/* Value rows first_row .. end_row - 1 of a head, as panels. */
typedef struct chunk_head {
  int64_t head, first_row, end_row;
  float *state;
} chunk_head;

typedef struct chunk_run {
  const gd_cpu_gated_delta *op;
  const gd_cpu_sequence *sequence;
  int64_t key_head, count;
  chunk_head heads[CHUNK_HEADS];
  chunk_scratch scratch;
  float *states; /* of all heads */
  float *delta;  /* [panels, CHUNK, PANEL] */
  float *scaled; /* [CHUNK, PANEL] */
  float *stored; /* [keyDim, PANEL] */
} chunk_run;

GD_INLINE int64_t chunk_panels(const chunk_head *head) { return (head->end_row - head->first_row + PANEL - 1) / PANEL; }

GD_INLINE chunk_panel chunk_panel_at(const chunk_run *run, const chunk_head *head, int64_t p) {
  int64_t row = head->first_row + p * PANEL;
  return (chunk_panel){
    head->state + p * run->scratch.rows.padded * PANEL, run->delta + p * CHUNK * PANEL, p, row,
    least(head->end_row - row, PANEL)};
}

/* The place of a panel's rows in a slot. */
GD_INLINE int64_t chunk_offset(const chunk_run *run, const chunk_head *head, const chunk_panel *panel, uint32_t dtype) {
  const gd_cpu_heads *heads = &run->op->heads;
  return (head->head * heads->value_dim + panel->row) * heads->key_dim * dtype_size(dtype);
}

static void chunk_write(const chunk_run *run, const chunk_head *head, void *slot, uint32_t dtype) {
  if (slot == NULL) return;
  for (int64_t p = 0; p < chunk_panels(head); p++) {
    chunk_panel panel = chunk_panel_at(run, head, p);
    void *to = (char *)slot + chunk_offset(run, head, &panel, dtype);
    panel_write(panel.state, panel_step(panel.left), to, dtype, panel.left, run->op->heads.key_dim);
  }
}

GD_INLINE chunk_wanted chunk_wanted_of(
  const gd_cpu_tensor *tensor, int64_t token, int64_t head, int64_t at, int64_t elements, int64_t tokens
) {
  int64_t size = dtype_size(tensor->dtype);
  return (chunk_wanted){element(tensor, token, head, at), tensor->token_stride * size, elements * size, tokens};
}

/* The chunk after `done` tokens; keys and queries with the first head only. */
static void chunk_want(const chunk_run *run, const chunk_head *head, int64_t done, chunk_reading *reading) {
  const gd_cpu_gated_delta *op = run->op;
  int64_t first = run->sequence->first + done, tokens = least(run->sequence->count - done, CHUNK);
  int64_t dim = op->heads.key_dim, rows = head->end_row - head->first_row;
  reading->wanted[WANTED_VALUE] = chunk_wanted_of(&op->value, first, head->head, head->first_row, rows, tokens);
  reading->wanted[WANTED_OUT] = chunk_wanted_of(&op->out, first, head->head, head->first_row, rows, tokens);
  if (op->gates.gate_dims == GD_CPU_GATE_PER_KEY) {
    reading->wanted[WANTED_GATE] = chunk_wanted_of(&op->gates.gate, first, head->head, 0, dim, tokens);
  }
  if (head != run->heads) return;
  reading->wanted[WANTED_KEY] = chunk_wanted_of(&op->key, first, run->key_head, 0, dim, tokens);
  reading->wanted[WANTED_QUERY] = chunk_wanted_of(&op->query, first, run->key_head, 0, dim, tokens);
}

/* One chunk of one head. done: tokens of the sequence before it. next_store: the first store after them. */
static int64_t chunk_of_head(chunk_run *run, const chunk_head *head, int64_t done, int64_t count, int64_t next_store) {
  const gd_cpu_gated_delta *op = run->op;
  const gd_cpu_state_store *stores = run->sequence->stores;
  int64_t store_count = run->sequence->store_count, panels = chunk_panels(head);
  chunk_reading reading = chunk_reading_of(op, &run->scratch, head->head, run->sequence->first + done, count);
  reading.panels = panels;
  chunk_want(run, head, done + count, &reading);
  int within = next_store < store_count && stores[next_store].after < done + count;
  if (within) {
    for (int64_t p = 0; p < panels; p++) {
      chunk_panel panel = chunk_panel_at(run, head, p);
      panel_read_tokens(op, &reading, &panel);
    }
    for (; next_store < store_count && stores[next_store].after < done + count; next_store++) {
      const gd_cpu_state_store *store = &stores[next_store];
      chunk_update update = chunk_update_of(op, &run->scratch, store->after - done);
      for (int64_t p = 0; p < panels; p++) {
        chunk_panel panel = chunk_panel_at(run, head, p);
        panel_update(&update, &panel, run->scaled, run->stored);
        void *to = (char *)store->state + chunk_offset(run, head, &panel, store->dtype);
        panel_write(run->stored, panel_step(panel.left), to, store->dtype, panel.left, op->heads.key_dim);
      }
    }
  }
  chunk_update update = chunk_update_of(op, &run->scratch, count);
  for (int64_t p = 0; p < panels; p++) {
    chunk_panel panel = chunk_panel_at(run, head, p);
    if (!within) panel_read_tokens(op, &reading, &panel);
    panel_update(&update, &panel, run->scaled, panel.state);
  }
  for (; next_store < store_count && stores[next_store].after == done + count; next_store++) {
    chunk_write(run, head, stores[next_store].state, stores[next_store].dtype);
  }
  return next_store;
}

/* The heads of a run over all tokens of their sequence. */
static void chunk_run_all(chunk_run *run, const uint32_t *stop) {
  const gd_cpu_gated_delta *op = run->op;
  const gd_cpu_sequence *sequence = run->sequence;
  int64_t dim = op->heads.key_dim, first_store = 0;
  float *states = run->states;
  for (int64_t h = 0; h < run->count; h++) {
    chunk_head *head = &run->heads[h];
    head->state = states;
    states += chunk_panels(head) * PANEL * run->scratch.rows.padded;
    for (int64_t p = 0; p < chunk_panels(head); p++) {
      chunk_panel panel = chunk_panel_at(run, head, p);
      const char *from = (const char *)gd_cpu_zeros;
      uint32_t dtype = sequence->read != NULL ? op->state_dtype : GD_CPU_F32;
      if (sequence->read != NULL) from = (const char *)sequence->read + chunk_offset(run, head, &panel, dtype);
      panel_read(panel.state, panel_step(panel.left), from, dtype, panel.left, dim);
    }
  }
  for (; first_store < sequence->store_count && sequence->stores[first_store].after == 0; first_store++) {
    const gd_cpu_state_store *store = &sequence->stores[first_store];
    for (int64_t h = 0; h < run->count; h++) chunk_write(run, &run->heads[h], store->state, store->dtype);
  }
  for (int64_t done = 0; done < sequence->count; done += CHUNK) {
    int64_t count = least(sequence->count - done, CHUNK), next_store = first_store;
    chunk_keys(op, &run->scratch, run->key_head, sequence->first + done, count);
    for (int64_t h = 0; h < run->count; h++) {
      if (gd_cpu_stopped(stop)) return;
      next_store = chunk_of_head(run, &run->heads[h], done, count, first_store);
    }
    first_store = next_store;
  }
  for (int64_t h = 0; h < run->count; h++) {
    const chunk_head *head = &run->heads[h];
    int64_t row = head->head * op->heads.value_dim + head->first_row, rows = head->end_row - head->first_row;
    if (sequence->count > 0) chunk_write(run, head, sequence->write, op->state_dtype);
    else copy_state(sequence, op->state_dtype, row * dim, rows * dim);
  }
}

/* True if an item belongs to the run so far. */
static int chunk_run_takes(chunk_run *run, const delta_item *item) {
  const gd_cpu_heads *heads = &run->op->heads;
  if (run->count == 0) {
    run->sequence = item->sequence;
    run->key_head = key_head_of(heads, item->head);
  } else {
    chunk_head *last = &run->heads[run->count - 1];
    if (item->sequence != run->sequence || key_head_of(heads, item->head) != run->key_head) return 0;
    if (item->head == last->head && item->first_row == last->end_row) {
      last->end_row = item->end_row;
      return 1;
    }
    int64_t padded_rows = (heads->value_dim + PANEL - 1) / PANEL * PANEL;
    int64_t most = CHUNK_STATES / (padded_rows * run->scratch.rows.padded);
    if (run->count >= least(most, CHUNK_HEADS)) return 0;
  }
  run->heads[run->count++] = (chunk_head){item->head, item->first_row, item->end_row, NULL};
  return 1;
}

static void gated_delta_chunked(const void *params, int64_t begin, int64_t end, void *memory, const uint32_t *stop) {
  const gd_cpu_gated_delta *op = params;
  int64_t blocks = (op->heads.value_dim + op->rows_per_item - 1) / op->rows_per_item;
  char *cursor = memory;
  chunk_run run = {.op = op, .scratch = chunk_scratch_make(&cursor, op->heads.key_dim)};
  run.delta = scratch_take(&cursor, CHUNK * (GD_CPU_MAX_DIM + PANEL));
  run.scaled = scratch_take(&cursor, CHUNK * PANEL);
  run.stored = scratch_take(&cursor, GD_CPU_MAX_DIM * PANEL);
  run.states = scratch_take(&cursor, CHUNK_STATES);
  for (int64_t i = begin; i < end && !gd_cpu_stopped(stop); i++) {
    delta_item item = delta_item_at(op, blocks, i);
    if (chunk_run_takes(&run, &item)) continue;
    chunk_run_all(&run, stop);
    run.count = 0;
    chunk_run_takes(&run, &item);
  }
  if (run.count > 0) chunk_run_all(&run, stop);
}
