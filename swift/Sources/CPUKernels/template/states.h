/* Elements at .. at + count - 1 of a sequence's state, moved as they are, for a sequence without tokens. */
static void copy_state(const gd_cpu_sequence *sequence, uint32_t dtype, int64_t at, int64_t count) {
  int64_t size = dtype_size(dtype);
  if (sequence->write == NULL || sequence->write == sequence->read) return;
  char *target = (char *)sequence->write + at * size;
  if (sequence->read == NULL) __builtin_memset(target, 0, (size_t)(count * size));
  else __builtin_memcpy(target, (const char *)sequence->read + at * size, (size_t)(count * size));
}
