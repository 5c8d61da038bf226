// Metal's vectors for CUDA. Multi-letter swizzles are written as swizzle<...>() by the translator.
namespace metal {
template <class T, int N> struct vec;

template <class T> struct emu_element {
  typedef T type;
  static constexpr int count = 1;
};
template <class T, int N> struct emu_element<vec<T, N>> {
  typedef T type;
  static constexpr int count = N;
};

template <class T, int N> struct emu_storage;
template <class T> struct alignas(2 * sizeof(T)) emu_storage<T, 2> {
  union {
    struct {
      T x, y;
    };
    struct {
      T r, g;
    };
    T e[2];
  };
};
template <class T> struct alignas(4 * sizeof(T)) emu_storage<T, 3> {
  union {
    struct {
      T x, y, z;
    };
    struct {
      T r, g, b;
    };
    T e[3];
  };
};
template <class T> struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) emu_storage<T, 4> {
  union {
    struct {
      T x, y, z, w;
    };
    struct {
      T r, g, b, a;
    };
    T e[4];
  };
};

template <class T, int N> struct vec : emu_storage<T, N> {
  using emu_storage<T, N>::e;
  vec() = default;
  __forceinline__ vec(T s) {
    for (int i = 0; i < N; ++i) e[i] = s;
  }
  template <class U> __forceinline__ explicit vec(vec<U, N> o) {
    for (int i = 0; i < N; ++i) e[i] = T(o.e[i]);
  }
  template <class A, class B, class... C> __forceinline__ vec(A a, B b, C... c) {
    int at = 0;
    append(at, a);
    append(at, b);
    (append(at, c), ...);
  }
  __forceinline__ T &operator[](int i) { return e[i]; }
  __forceinline__ const T &operator[](int i) const { return e[i]; }
  template <int... I> __forceinline__ vec<T, sizeof...(I)> swizzle() const { return vec<T, sizeof...(I)>(e[I]...); }

 private:
  template <class U> __forceinline__ void append(int &at, U s) { e[at++] = T(s); }
  template <int M> __forceinline__ void append(int &at, vec<T, M> v) {
    for (int i = 0; i < M; ++i) e[at++] = v.e[i];
  }
};

#define EMU_OPERATOR(op, R)                                                                    \
  template <class T, int N> __forceinline__ vec<R, N> operator op(vec<T, N> a, vec<T, N> b) {  \
    vec<R, N> r;                                                                               \
    for (int i = 0; i < N; ++i) r.e[i] = R(a.e[i] op b.e[i]);                                  \
    return r;                                                                                  \
  }                                                                                            \
  template <class T, int N, class S> __forceinline__ vec<R, N> operator op(vec<T, N> a, S b) { \
    return a op vec<T, N>(T(b));                                                               \
  }                                                                                            \
  template <class T, int N, class S> __forceinline__ vec<R, N> operator op(S a, vec<T, N> b) { \
    return vec<T, N>(T(a)) op b;                                                               \
  }
EMU_OPERATOR(+, T)
EMU_OPERATOR(-, T) EMU_OPERATOR(*, T) EMU_OPERATOR(/, T) EMU_OPERATOR(%, T) EMU_OPERATOR(&, T) EMU_OPERATOR(|, T)
    EMU_OPERATOR(^, T) EMU_OPERATOR(<<, T) EMU_OPERATOR(>>, T) EMU_OPERATOR(<, bool) EMU_OPERATOR(>, bool)
        EMU_OPERATOR(<=, bool) EMU_OPERATOR(>=, bool) EMU_OPERATOR(==, bool) EMU_OPERATOR(!=, bool)
#undef EMU_OPERATOR
#define EMU_ASSIGN(op)                                                                                 \
  template <class T, int N, class S> __forceinline__ vec<T, N> &operator op## = (vec<T, N> & a, S b) { \
    return a = a op b;                                                                                 \
  }
            EMU_ASSIGN(+) EMU_ASSIGN(-) EMU_ASSIGN(*) EMU_ASSIGN(/) EMU_ASSIGN(&) EMU_ASSIGN(|) EMU_ASSIGN(^)
#undef EMU_ASSIGN
                template <class T, int N>
                __forceinline__ vec<T, N> operator-(vec<T, N> a) {
  for (int i = 0; i < N; ++i) a.e[i] = -a.e[i];
  return a;
}
template <int N> __forceinline__ vec<bool, N> operator!(vec<bool, N> a) {
  for (int i = 0; i < N; ++i) a.e[i] = !a.e[i];
  return a;
}

// The same components without padding or alignment beyond an element's.
template <class T, int N> struct packed_vec {
  T e[N];
  packed_vec() = default;
  __forceinline__ packed_vec(vec<T, N> v) {
    for (int i = 0; i < N; ++i) e[i] = v.e[i];
  }
  __forceinline__ operator vec<T, N>() const {
    vec<T, N> v;
    for (int i = 0; i < N; ++i) v.e[i] = e[i];
    return v;
  }
  __forceinline__ T &operator[](int i) { return e[i]; }
  __forceinline__ const T &operator[](int i) const { return e[i]; }
};
}  // namespace metal
#define EMU_NAMES(T)                             \
  typedef metal::vec<T, 2> T##2;                 \
  typedef metal::vec<T, 3> T##3;                 \
  typedef metal::vec<T, 4> T##4;                 \
  typedef metal::packed_vec<T, 2> packed_##T##2; \
  typedef metal::packed_vec<T, 3> packed_##T##3; \
  typedef metal::packed_vec<T, 4> packed_##T##4;
EMU_NAMES(bool)
EMU_NAMES(char) EMU_NAMES(uchar) EMU_NAMES(short) EMU_NAMES(ushort) EMU_NAMES(int) EMU_NAMES(uint) EMU_NAMES(long)
    EMU_NAMES(ulong) EMU_NAMES(half) EMU_NAMES(bfloat) EMU_NAMES(float)
#undef EMU_NAMES
