/* The integers of packed weights, for products with int8 activations: whatever the format, unsigned bytes in the order of columns. */

/* Columns that are unpacked at a time, and the most groups that these are. */
enum { INT8_SEGMENT = 2048, INT8_SEGMENT_GROUPS = INT8_SEGMENT / 16 };

typedef uint8_t int8_b16 __attribute__((vector_size(16)));
typedef uint8_t int8_b32 __attribute__((vector_size(32)));
typedef uint16_t int8_h16 __attribute__((vector_size(32)));
typedef uint16_t int8_h32 __attribute__((vector_size(64)));
typedef uint32_t int8_w16 __attribute__((vector_size(64)));
typedef uint8_t int8_b16_memory __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint8_t int8_b32_memory __attribute__((vector_size(32), aligned(1), may_alias));
typedef uint16_t int8_h16_memory __attribute__((vector_size(32), aligned(1), may_alias));
typedef uint16_t int8_h32_memory __attribute__((vector_size(64), aligned(1), may_alias));
typedef uint32_t int8_w16_memory __attribute__((vector_size(64), aligned(1), may_alias));

/* Sixteen numbers of `bits` bits, each put into two bytes of its own, moved to the top of these and down again. May read 16
 * bytes. */
GD_INLINE void int8_sixteen(const uint8_t *from, uint8_t *out, uint32_t bits) {
#define GD_TWO(B, L) L * B / 8, L * B / 8 + 1
#define GD_UP(B, L) 1 << (16 - B - L * B % 8)
  int8_b16 bytes = *(const int8_b16_memory *)from;
  int8_h16 up;
  int8_b32 two;
  if (bits == 3) {
    two = __builtin_shufflevector(bytes, bytes, GD_EACH_LANE(GD_TWO, 3));
    up = (int8_h16){GD_EACH_LANE(GD_UP, 3)};
  } else if (bits == 5) {
    two = __builtin_shufflevector(bytes, bytes, GD_EACH_LANE(GD_TWO, 5));
    up = (int8_h16){GD_EACH_LANE(GD_UP, 5)};
  } else {
    two = __builtin_shufflevector(bytes, bytes, GD_EACH_LANE(GD_TWO, 6));
    up = (int8_h16){GD_EACH_LANE(GD_UP, 6)};
  }
  *(int8_b16_memory *)out = __builtin_convertvector((int8_h16)two * up >> (16 - bits), int8_b16);
#undef GD_TWO
#undef GD_UP
}

#if GD_WIDTH == 16
/* The same for any number of them, 64 at a time, where gd_cpu_has_vbmi: the bytes of eight numbers go to 64 bits of a vector, from which each lane takes its own. In
 * assembly, since the instruction set of these kernels lacks the two instructions. */
static __attribute__((noinline)) void int8_fields(const uint8_t *from, int64_t count, uint8_t *out, uint32_t bits) {
  const __m512i eighths = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7) * 0x0101010101010101, ones = _mm512_set1_epi64(0x0706050403020100);
  __m512i each = _mm512_set1_epi16((short)bits), mask = _mm512_set1_epi8((char)((1 << bits) - 1));
  __m512i shifts = _mm512_mullo_epi16(ones, each), places = _mm512_add_epi8(ones, _mm512_mullo_epi16(eighths, each));
  __mmask64 all = ((__mmask64)1 << 8 * bits) - 1;
  for (int64_t i = 0; i < count; i += 64, from += 8 * bits) {
    if (count - i < 64) all = ((__mmask64)1 << (count - i) / 8 * bits) - 1;
    __m512i numbers = _mm512_maskz_loadu_epi8(all, from);
    __asm__("vpermb %0, %1, %0" : "+v"(numbers) : "v"(places));
    __asm__("vpmultishiftqb %0, %1, %0" : "+v"(numbers) : "v"(shifts));
    _mm512_storeu_si512(out + i, _mm512_and_si512(numbers, mask));
  }
}
#endif

GD_INLINE void int8_affine(const uint8_t *row, int64_t first, int64_t count, uint8_t *out, uint32_t bits) {
  const uint8_t *from = row + first / 8 * bits;
  int64_t i = 0;
  if (bits == 8) {
    __builtin_memcpy(out, from, (size_t)count);
  } else if (bits == 4) {
    for (; i + 64 <= count; i += 64) {
      int8_h32 byte = __builtin_convertvector(*(const int8_b32_memory *)(from + i / 2), int8_h32);
      *(int8_h32_memory *)(out + i) = (byte | byte << 4) & 0x0f0f;
    }
    for (; i < count; i += 32) {
      int8_b16 bytes = {0};
      if (count - i >= 32) bytes = *(const int8_b16_memory *)(from + i / 2);
      else __builtin_memcpy(&bytes, from + i / 2, 8);
      int8_h16 byte = __builtin_convertvector(bytes, int8_h16);
      *(int8_h16_memory *)(out + i) = (byte | byte << 4) & 0x0f0f;
    }
  } else if (bits == 2) {
    for (; i < count; i += 64) {
      int8_b16 bytes;
      if (count - i >= 64) bytes = *(const int8_b16_memory *)(from + i / 4);
      else __builtin_memcpy(&bytes, from + i / 4, 8);
      int8_w16 byte = __builtin_convertvector(bytes, int8_w16);
      *(int8_w16_memory *)(out + i) = (byte | byte << 6 | byte << 12 | byte << 18) & 0x03030303;
    }
  } else {
#if GD_WIDTH == 16
    if (gd_cpu_has_vbmi) return int8_fields(from, count, out, bits);
#endif
    for (; i + 32 < count; i += 16) int8_sixteen(from + i / 8 * bits, out + i, bits);
    uint8_t last[32 + 16] = {0};
    __builtin_memcpy(last, from + i / 8 * bits, (size_t)((count - i) / 8 * bits));
    for (int64_t k = 0; k < count - i; k += 16) int8_sixteen(last + k / 8 * bits, out + i + k, bits);
  }
}

/* The entries of a table at `numbers`, in place. */
GD_INLINE void int8_entries(ggml_many_memory *numbers, uint32_t type) {
  const int8_t *table = type == GGML_MXFP4 ? ggml_e2m1_bytes : ggml_iq4_bytes;
#if GD_WIDTH >= 8
  __m256i both = _mm256_broadcastsi128_si256(*(const __m128i *)table);
  ggml_many entries = (ggml_many)_mm256_shuffle_epi8(both, (__m256i)*numbers);
#elif defined(__aarch64__)
  uint8x16_t all = vld1q_u8((const uint8_t *)table), halves[2];
  ggml_many entries;
  __builtin_memcpy(halves, numbers, sizeof halves);
  GD_UNROLL for (int h = 0; h < 2; h++) halves[h] = vqtbl1q_u8(all, halves[h]);
  __builtin_memcpy(&entries, halves, sizeof entries);
#else
  ggml_many entries;
  for (int l = 0; l < 32; l++) entries[l] = (uint8_t)table[(*numbers)[l]];
#endif
  *numbers = entries + (uint8_t)int8_ggml_middle(type);
}

#if GD_WIDTH >= 8
GD_INLINE __m128i int8_load_16(const uint8_t *from) { return _mm_loadu_si128((const __m128i *)from); }
GD_INLINE __m256i int8_load_32(const uint8_t *from) { return _mm256_loadu_si256((const __m256i *)from); }
GD_INLINE vi int8_low(vi bytes) { return bytes & 0x0f0f0f0f; }
GD_INLINE vi int8_high(vi bytes) { return (vi)((vu)bytes >> 4) & 0x0f0f0f0f; }
GD_INLINE vi int8_repeat_4(uint32_t byte) { return (vi)((vu){0} + byte * 0x01010101u); }
/* Of each byte the bits from number `from` on, where `mask` has those from number 4 on. */
GD_INLINE vi int8_above(vi bytes, int from, uint32_t mask) {
  vu moved = from < 4 ? (vu)bytes << (4 - from) : (vu)bytes >> (from - 4);
  return (vi)moved & int8_repeat_4(mask);
}
#endif
#if GD_WIDTH == 16

/* The numbers of a half of a block of Q6_K: of 64 columns, and of the 64 after them. Each byte has four bits of two numbers,
 * and one of 32 further bytes the upper two bits of four. */
GD_INLINE void int8_six(const uint8_t *block, int half, vi out[2]) {
  vi four = load_vi(block + 64 * half);
  __m512i two = _mm512_broadcast_i64x4(int8_load_32(block + 128 + 32 * half));
  const __m512i up = _mm512_inserti64x4(_mm512_set1_epi16(4), _mm256_set1_epi16(2), 1);
  const __m512i down = _mm512_inserti64x4(_mm512_set1_epi16(0), _mm256_set1_epi16(2), 1);
  out[0] = int8_low(four) | ((vi)_mm512_sllv_epi16(two, up) & int8_repeat_4(0x30));
  out[1] = int8_high(four) | ((vi)_mm512_srlv_epi16(two, down) & int8_repeat_4(0x30));
}

/* Numbers 64 k to 64 k + 63 of a block of Q5_K: 32 from the low halves of 32 bytes, then 32 from the high ones. Their fifth bits are bits 2 k and 2 k + 1 of the
 * 32 bytes before all these. */
GD_INLINE vi int8_five(const uint8_t *block, int k) {
  __m512i four = _mm512_broadcast_i64x4(int8_load_32(block + 48 + 32 * k)), fifth = _mm512_broadcast_i64x4(int8_load_32(block + 16));
  const __m512i down = _mm512_inserti64x4(_mm512_set1_epi16(0), _mm256_set1_epi16(4), 1);
  const __m512i turn = _mm512_inserti64x4(_mm512_set1_epi32((4 - 2 * k) & 31), _mm256_set1_epi32((3 - 2 * k) & 31), 1);
  return int8_low((vi)_mm512_srlv_epi16(four, down)) | ((vi)_mm512_rolv_epi32(fifth, turn) & int8_repeat_4(0x10));
}
#endif

GD_INLINE void int8_ggml(
  const uint8_t *row, int64_t first, int64_t count, uint8_t *out, uint32_t type, int elements, int bytes
) {
  const uint8_t *block = row + first / elements * bytes;
  for (int64_t i = 0; i < count; i += elements, block += bytes) {
#if GD_WIDTH == 16
    if (type == GGML_Q6_K) {
      GD_UNROLL for (int half = 0; half < 2; half++) {
        vi numbers[2];
        int8_six(block, half, numbers);
        GD_UNROLL for (int k = 0; k < 2; k++) store_vi(out + i + 128 * half + 64 * k, numbers[k]);
      }
      continue;
    } else if (type == GGML_Q5_K) {
      GD_UNROLL for (int k = 0; k < 4; k++) store_vi(out + i + 64 * k, int8_five(block, k));
      continue;
    }
#endif
    for (int k = 0; k < elements; k += 32) {
      ggml_many numbers;
      if (type == GGML_Q8_0) numbers = *(const ggml_many_memory *)(block + 2) ^ 128;
      else if (ggml_is_large(type)) ggml_two_runs(block, k / GD_LANES, &numbers, type);
      else ggml_small(block, &numbers, type);
      if (ggml_has_table(type)) int8_entries(&numbers, type);
      *(ggml_many_memory *)(out + i + k) = numbers;
    }
  }
}

/* MLX's micro-scaled numbers of four bits. Up to 32 are written beyond the last one. */
static void int8_micro(const uint8_t *row, int64_t first, int64_t count, uint8_t *out) {
  int8_affine(row, first, count, out, 4);
  for (int64_t i = 0; i < count; i += 32) int8_entries((ggml_many_memory *)(out + i), GGML_MXFP4);
}
