// Simdgroups are warps: barriers, shuffles, reductions, 8x8 matrices with Apple's lane map, atomics.
namespace metal {
enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };
__forceinline__ constexpr mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(int(a) | int(b)); }
enum memory_order { memory_order_relaxed, memory_order_seq_cst };
enum thread_scope { thread_scope_thread, thread_scope_simdgroup, thread_scope_threadgroup, thread_scope_device };
__forceinline__ void threadgroup_barrier(mem_flags) { __syncthreads(); }
__forceinline__ void simdgroup_barrier(mem_flags) { __syncwarp(); }
__forceinline__ void atomic_thread_fence(mem_flags, memory_order, thread_scope = thread_scope_device) {
  __threadfence();
}

// The existing lanes: the last warp of a threadgroup may be short.
__forceinline__ uint emu_lane() { return emu_thread_index() & 31; }
__forceinline__ uint emu_lanes() {
#ifdef EMU_WHOLE_WARPS
  return 0xffffffffu;
#endif
  const uint all = blockDim.x * blockDim.y * blockDim.z, first = emu_thread_index() & ~31u;
  return all - first >= 32 ? 0xffffffffu : (1u << (all - first)) - 1;
}
template <class T> __forceinline__ T emu_exchange(T v, uint lane) {
  uint words[(sizeof(T) + 3) / 4] = {};
  memcpy(words, &v, sizeof v);
  for (uint &w : words) w = __shfl_sync(emu_lanes(), w, int(lane));
  memcpy(&v, words, sizeof v);
  return v;
}
template <class T> __forceinline__ T simd_shuffle(T v, ushort lane) { return emu_exchange(v, lane); }
template <class T> __forceinline__ T simd_shuffle_xor(T v, ushort mask) { return emu_exchange(v, emu_lane() ^ mask); }
__forceinline__ float simd_shuffle_xor(float v, ushort mask) { return __shfl_xor_sync(emu_lanes(), v, mask); }
template <class T> __forceinline__ T simd_shuffle_up(T v, ushort d) {
  return emu_exchange(v, emu_lane() >= d ? emu_lane() - d : emu_lane());
}
template <class T> __forceinline__ T simd_shuffle_down(T v, ushort d) {
  return emu_exchange(v, emu_lane() + d < 32 ? emu_lane() + d : emu_lane());
}
template <class T> __forceinline__ T simd_shuffle_rotate_up(T v, ushort d) {
  return emu_exchange(v, (emu_lane() - d) & 31);
}
template <class T> __forceinline__ T simd_shuffle_rotate_down(T v, ushort d) {
  return emu_exchange(v, (emu_lane() + d) & 31);
}
template <class T> __forceinline__ T simd_broadcast(T v, ushort lane) { return emu_exchange(v, lane); }
template <class T> __forceinline__ T simd_broadcast_first(T v) { return emu_exchange(v, 0); }
// The tree by lane distance 1, 2, 4, ..., as in the emulator.
#define EMU_REDUCE(name, combined)                        \
  template <class T> __forceinline__ T simd_##name(T a) { \
    for (uint step = 1; step < 32; step *= 2) {           \
      T b = emu_exchange(a, (emu_lane() + step) & 31);    \
      a = combined;                                       \
    }                                                     \
    return emu_exchange(a, 0);                            \
  }
EMU_REDUCE(sum, a + b)
#ifdef EMU_WHOLE_WARPS
// The same tree, in every lane at once.
__forceinline__ float simd_sum(float v) {
  for (int step = 1; step < 32; step *= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
  return v;
}
#endif
EMU_REDUCE(product, a *b) EMU_REDUCE(max, max(a, b)) EMU_REDUCE(min, min(a, b)) EMU_REDUCE(and, a &b)
    EMU_REDUCE(or, a | b) EMU_REDUCE(xor, a ^ b)
#undef EMU_REDUCE
        template <class T>
        __forceinline__ T simd_prefix_exclusive_sum(T v) {
  T total = T(0), own = T(0);
  for (uint i = 0; i < 32; ++i) {
    if (emu_lane() == i) own = total;
    total = total + emu_exchange(v, i);
  }
  return own;
}
template <class T> __forceinline__ T simd_prefix_inclusive_sum(T v) { return simd_prefix_exclusive_sum(v) + v; }
__forceinline__ bool simd_all(bool x) { return __all_sync(emu_lanes(), x); }
__forceinline__ bool simd_any(bool x) { return __any_sync(emu_lanes(), x); }
__forceinline__ bool simd_is_first() { return emu_lane() == 0; }

template <class T, int Cols, int Rows = Cols> struct simdgroup_matrix {
  vec<T, 2> pair;
  simdgroup_matrix() = default;
  __forceinline__ explicit simdgroup_matrix(T diagonal) {
    pair.e[0] = emu_row() == emu_column() ? diagonal : T(0);
    pair.e[1] = emu_row() == emu_column() + 1 ? diagonal : T(0);
  }
  __forceinline__ vec<T, 2> &thread_elements() { return pair; }
  static __forceinline__ uint emu_row() { return (emu_lane() >> 4 & 1) * 4 + (emu_lane() >> 1 & 3); }
  static __forceinline__ uint emu_column() { return (emu_lane() >> 3 & 1) * 4 + (emu_lane() & 1) * 2; }
};
template <class T, int C, int R = C> __forceinline__ simdgroup_matrix<T, C, R> make_filled_simdgroup_matrix(T v) {
  simdgroup_matrix<T, C, R> m;
  m.pair = vec<T, 2>(v);
  return m;
}
template <class T>
__forceinline__ void simdgroup_load(simdgroup_matrix<T, 8, 8> &m, const T *p, ulong stride = 8,
                                    vec<ulong, 2> origin = vec<ulong, 2>(0), bool transpose = false) {
  p += origin.e[0] + origin.e[1] * stride;
  const uint r = m.emu_row(), c = m.emu_column();
  for (uint k = 0; k < 2; ++k) m.pair.e[k] = transpose ? p[(c + k) * stride + r] : p[r * stride + c + k];
}
template <class T>
__forceinline__ void simdgroup_store(simdgroup_matrix<T, 8, 8> m, T *p, ulong stride = 8,
                                     vec<ulong, 2> origin = vec<ulong, 2>(0), bool transpose = false) {
  p += origin.e[0] + origin.e[1] * stride;
  const uint r = m.emu_row(), c = m.emu_column();
  for (uint k = 0; k < 2; ++k) (transpose ? p[(c + k) * stride + r] : p[r * stride + c + k]) = m.pair.e[k];
}
// Eight fused multiply-adds in order, as by default in the emulator.
template <class D, class A, class B, class S>
__forceinline__ void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8> &d, simdgroup_matrix<A, 8, 8> a,
                                                   simdgroup_matrix<B, 8, 8> b, simdgroup_matrix<S, 8, 8> c) {
  const uint row = a.emu_row(), column = a.emu_column();
  float sum[2] = {float(c.pair.e[0]), float(c.pair.e[1])};
  for (uint k = 0; k < 8; ++k) {
    const uint left = (row & 4) << 2 | (row & 3) << 1 | (k & 4) << 1 | (k >> 1 & 1),
               right = (k & 4) << 2 | (k & 3) << 1 | (column & 4) << 1 | (column >> 1 & 1);
    const vec<A, 2> x = emu_exchange(a.pair, left);
    const vec<B, 2> y = emu_exchange(b.pair, right);
    for (uint i = 0; i < 2; ++i) sum[i] = ::fmaf(float(x.e[k & 1]), float(y.e[i]), sum[i]);
  }
  d.pair = vec<D, 2>(D(sum[0]), D(sum[1]));
}
template <class D, class A, class B>
__forceinline__ void simdgroup_multiply(simdgroup_matrix<D, 8, 8> &d, simdgroup_matrix<A, 8, 8> a,
                                        simdgroup_matrix<B, 8, 8> b) {
  simdgroup_multiply_accumulate(d, a, b, make_filled_simdgroup_matrix<D, 8, 8>(D(0)));
}
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;

template <class T> struct atomic {
  T value;
};
template <class T> __forceinline__ T atomic_load_explicit(const volatile atomic<T> *p, memory_order) {
  return p->value;
}
template <class T> __forceinline__ void atomic_store_explicit(volatile atomic<T> *p, T v, memory_order) {
  p->value = v;
}
#define EMU_ATOMIC(name, call)                                                                                       \
  template <class T, class U> __forceinline__ T atomic_##name##_explicit(volatile atomic<T> *p, U v, memory_order) { \
    return call(const_cast<T *>(&p->value), T(v));                                                                   \
  }
EMU_ATOMIC(exchange, ::atomicExch)
EMU_ATOMIC(fetch_add, ::atomicAdd) EMU_ATOMIC(fetch_max, ::atomicMax) EMU_ATOMIC(fetch_min, ::atomicMin)
    EMU_ATOMIC(fetch_and, ::atomicAnd) EMU_ATOMIC(fetch_or, ::atomicOr) EMU_ATOMIC(fetch_xor, ::atomicXor)
#undef EMU_ATOMIC
}  // namespace metal
typedef metal::atomic<int> atomic_int;
typedef metal::atomic<uint> atomic_uint;
typedef metal::atomic<float> atomic_float;
