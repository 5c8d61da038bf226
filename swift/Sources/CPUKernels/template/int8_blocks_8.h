/* The sums of int8_block_terms.h with vectors of 8 lanes, by AVX2: a vector has 32 numbers of one group, or 16 of each of two, which are its halves. */
#if GD_WIDTH == 8

/* Whether the two numbers of a byte are of one group: then the low and the high ones are vectors of their own. */
GD_INLINE int int8_has_nibbles(int8_block form) {
  uint32_t type = form.type;
  if (form.is_mlx) return !int8_is_affine8(form);
  return type == GGML_Q4_0 || type == GGML_Q4_1 || type == GGML_IQ4_NL || type == GGML_IQ4_XS || type == GGML_MXFP4;
}

/* Whether a vector has two groups. */
GD_INLINE int int8_has_two(int8_block form) { return form.group == 16 || (int8_has_nibbles(form) && form.group == 32); }

/* Neighbouring lanes of 16 bits, added. */
GD_INLINE vi int8_two_sums(vi sums) { return (vi)_mm256_madd_epi16((__m256i)sums, _mm256_set1_epi16(1)); }

/* The sums of the products of `count` vectors of numbers by x, four columns of each in a lane. Sums of small numbers stay in 16 bits. */
GD_INLINE vi int8_products(const vi *numbers, const int8_t *x, int count, int8_block form) {
  int small = int8_block_is_small(form);
#if !defined(GD_DOT_AVXVNNI)
  if (small && count * 2 * int8_most(form) * 127 < 32768) {
    __m256i sum = (__m256i)int8_byte_pairs(numbers[0], load_vi(x));
    GD_UNROLL for (int k = 1; k < count; k++) sum = _mm256_add_epi16(sum, (__m256i)int8_byte_pairs(numbers[k], load_vi(x + 32 * k)));
    return int8_two_sums((vi)sum);
  }
#endif
  vi sum = {0};
  GD_UNROLL for (int k = 0; k < count; k++) sum = int8_add(sum, int8_weights_of(numbers[k], small), load_vi(x + 32 * k), small);
  return sum;
}

/* int8_pairs_of; for sums that 16 bits hold, one operation less. */
GD_INLINE vi int8_sums_of(vi a, vi b, int fits) {
  return fits ? int8_two_sums((vi)_mm256_packs_epi32((__m256i)a, (__m256i)b)) : int8_pairs_of(a, b);
}

/* The totals of four vectors: lane 4 h + k is that of half h of vector k. */
GD_INLINE vi int8_totals(const vi own[4], int8_block form) {
  int64_t lane = form.group / (int8_has_two(form) ? 4 : 8);
  int64_t most = lane * 127 * int8_most(form);
  vi a = int8_sums_of(own[0], own[1], most < 32768), b = int8_sums_of(own[2], own[3], most < 32768);
  return int8_sums_of(a, b, 2 * most < 32768);
}

/* The numbers of vector v of a group of 32 columns or more that has its vectors for itself, number g of those from a block on. */
GD_INLINE vi int8_own_numbers(const uint8_t *block, int g, int v, int8_block form) {
  const uint8_t *own = block + g / form.groups * form.bytes;
  if (int8_is_affine8(form)) return load_vi(own + 32 * v);
  if (form.type == GGML_Q8_0) return load_vi(own + 2) ^ (vi)((vu){0} + 0x80808080u);
  ggml_many numbers;
  if (form.groups == 8) ggml_two_runs(own, 2 * g % 16, &numbers, form.type);
  else ggml_small(own, &numbers, form.type);
  return (vi)numbers;
}

/* The sums of products of eight groups from group g of a block on, in order. */
GD_INLINE vi int8_eight_sums(const uint8_t *block, int g, const int8_t *x, int8_block form) {
  vi own[4], numbers[4];
  x += g * form.group;
  if (form.is_mlx && form.group == 16) {
    /* A lane has half a group. */
    GD_UNROLL for (int k = 0; k < 2; k++) {
      int8_both(load_vi(block + g * form.bytes + 32 * k), numbers, form.type);
      own[k] = int8_products(numbers, x + 64 * k, 2, form);
    }
    return (vi)_mm256_permute4x64_epi64((__m256i)int8_sums_of(own[0], own[1], 1), 0xd8);
  }
  if (form.group == 16) {
    GD_UNROLL for (int k = 0; k < 4; k++) {
      ggml_many two;
      ggml_two_runs(block, g + 2 * k, &two, form.type);
      numbers[0] = (vi)two;
      own[k] = int8_products(numbers, x + 32 * k, 1, form);
    }
    vi sums = int8_totals(own, form);
    return __builtin_shufflevector(sums, sums, 0, 4, 1, 5, 2, 6, 3, 7);
  }
  if (int8_has_two(form)) {
    int apart = form.groups == 1 ? form.bytes : 16;
    const uint8_t *from = form.groups == 1 ? block + int8_offset(form) : block + 8;
    GD_UNROLL for (int k = 0; k < 4; k++) {
      int8_both(int8_of_two(from + k * apart, 4 * apart), numbers, form.type);
      own[k] = int8_products(numbers, x + 64 * k, 2, form);
    }
    return int8_totals(own, form);
  }
  vi four[2];
  GD_UNROLL for (int h = 0; h < 2; h++) {
    GD_UNROLL for (int k = 0; k < 4; k++) {
      int at = g + 4 * h + k, vectors = (int)form.group / 32;
      GD_UNROLL for (int v = 0; v < vectors; v++) {
        if (!int8_has_nibbles(form)) numbers[v] = int8_own_numbers(block, at, v, form);
        else if (v % 2 == 0) int8_both(load_vi(block + at * form.bytes + 16 * v), numbers + v, form.type);
      }
      own[k] = int8_products(numbers, x + (4 * h + k) * form.group, vectors, form);
    }
    four[h] = int8_totals(own, form);
  }
  return (vi)_mm256_permute2x128_si256((__m256i)four[0], (__m256i)four[1], 0x20) +
         (vi)_mm256_permute2x128_si256((__m256i)four[0], (__m256i)four[1], 0x31);
}

/* Pairs of numbers: the first of each, and the second of each. */
GD_INLINE void int8_apart(const float *pairs, vf *first, vf *second) {
  vf a = load(pairs, 0, GD_CPU_F32), b = load(pairs, 8, GD_CPU_F32);
  *first = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
  *second = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
}

/* The scales that the blocks of a step's groups hold, and what is added. */
GD_INLINE void int8_block_factors(const uint8_t *block, vf *scales, vf *offsets, int8_block form) {
  uint32_t type = form.type;
  float halves[2], numbers[32];
  if (form.groups == 8) {
    float minima[8];
    if (ggml_is_in_eights(type)) int8_eights(block, numbers, minima, type);
    else ggml_sixes(block, ggml_half(block), numbers);
    *offsets = load(minima, 0, GD_CPU_F32);
  } else if (form.groups == 16) {
    ggml_halves_of(block, 0, 1, halves, type);
    ggml_products_of(block, halves, numbers, type);
  } else if (type == GGML_MXFP4) {
    GD_UNROLL for (int i = 0; i < 8; i++) numbers[i] = __builtin_bit_cast(float, ggml_half_of_power(block[i * form.bytes]));
  } else {
    GD_UNROLL for (int k = 0; k < 8; k += 4) ggml_halves_of(block + k * form.bytes, form.bytes, 4, numbers + k * ggml_halves(type), type);
  }
  GD_UNROLL for (int p = 0; p < int8_step(form) / 8; p++) {
    if (type == GGML_Q2_K || ggml_has_offset(type)) int8_apart(numbers + 16 * p, &scales[p], &offsets[p]);
    else scales[p] = load(numbers, 8 * p, GD_CPU_F32);
    if (type == GGML_Q2_K) offsets[p] = -offsets[p];
  }
}

/* Only whole steps are read where they are. */
GD_INLINE int int8_reads_part(int8_block form, int64_t left) { return (void)form, (void)left, 0; }

/* The sums of products of a step's groups from a block on, in order; and if the blocks hold them, their scales and what is added. */
GD_INLINE void int8_step_of(
  const uint8_t *block, const int8_t *x, int64_t left, const uint8_t *near, int8_block form, vi *sums, vf *scales, vf *offsets
) {
  (void)left;
  (void)near;
  if (!form.is_mlx) int8_block_factors(block, scales, offsets, form);
  GD_UNROLL for (int p = 0; p < int8_step(form) / 8; p++) sums[p] = int8_eight_sums(block, 8 * p, x, form);
}

/* Factors of up to eight groups, in a tensor of their own; those of bytes are halved (int8_micro_factors). */
GD_INLINE vf int8_step_factors(const void *factors, int64_t at, int64_t left, uint32_t dtype, int64_t group) {
  if (dtype == GD_CPU_U8) {
    vb bytes = {0};
    if (left >= 8) bytes = *(const vb_memory *)((const uint8_t *)factors + at);
    else __builtin_memcpy(&bytes, (const uint8_t *)factors + at, (size_t)left);
    if (group == MICRO_FLOAT_GROUP) return micro_e4m3(__builtin_convertvector((vsb)bytes, vsh)) * splat(0.5f);
    vu exponents = __builtin_convertvector(bytes, vu);
    return (vf)(exponents << 23 | ((vu)(exponents == 0) & 0x00400000u)) * splat(0.5f);
  }
  return left >= 8 ? load(factors, at, dtype) : load_first(factors, at, dtype, left);
}

/* Numbers of four bits of `columns` columns, up to sixteen groups: x in the order in which int8_eight_sums takes them. */
GD_INLINE void int8_arrange(const int8_t *x, int64_t columns, int8_t *out, int8_block form) {
  if (!int8_has_nibbles(form)) {
    __builtin_memcpy(out, x, (size_t)columns);
    return;
  }
  for (int64_t i = 0; i < columns; i += 32) {
    ggml_many own = *(const ggml_many_memory *)(x + i);
    /* MLX's eight columns are the four even ones and then the odd ones (int8_pair), except in groups of 16. */
    if (form.is_mlx && form.group > 16) {
      own = __builtin_shufflevector(
        own, own, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
    } else if (form.is_mlx) {
      own = __builtin_shufflevector(
        own, own, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    }
    /* Low halves of 16 bytes, and 32 further on high ones, side by side: of groups k and k + 4 of eight, or of neighbours. */
    int64_t step = i / 32, place = i / 64 * 64 + step % 2 * 16;
    if (int8_has_two(form) && form.group == 32) place = step / 8 * 256 + step % 4 * 64 + step / 4 % 2 * 16;
    __builtin_memcpy(out + place, &own, 16);
    __builtin_memcpy(out + place + 32, (const uint8_t *)&own + 16, 16);
  }
}
#endif
