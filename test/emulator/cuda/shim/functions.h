// The computing functions of Metal's library. The emulator is strict about types; these only have to give the right
// values.
namespace metal {
template <bool B, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> {
  typedef T type;
};
template <bool B, class T, class F> struct conditional {
  typedef T type;
};
template <class T, class F> struct conditional<false, T, F> {
  typedef F type;
};
template <bool B, class T, class F> using conditional_t = typename conditional<B, T, F>::type;
template <bool B, class T = void> using enable_if_t = typename enable_if<B, T>::type;
template <class A, class B> struct is_same {
  static constexpr bool value = false;
};
template <class A> struct is_same<A, A> {
  static constexpr bool value = true;
};
template <class A, class B> constexpr bool is_same_v = is_same<A, B>::value;
using ::msl::as_type;

#define EMU_EACH(name)                                                    \
  template <class T, int N> __forceinline__ vec<T, N> name(vec<T, N> x) { \
    for (int i = 0; i < N; ++i) x.e[i] = name(x.e[i]);                    \
    return x;                                                             \
  }
#define EMU_1(name, call)                                            \
  __forceinline__ float name(float x) { return call; }               \
  __forceinline__ half name(half x) { return half(name(float(x))); } \
  __forceinline__ float name(bfloat x) { return name(float(x)); }    \
  EMU_EACH(name)
EMU_1(exp, ::expf(x))
EMU_1(exp2, ::exp2f(x)) EMU_1(log, ::logf(x)) EMU_1(log2, ::log2f(x)) EMU_1(sqrt, ::sqrtf(x))
    EMU_1(rsqrt, 1.0f / ::sqrtf(x)) EMU_1(sin, ::sinf(x)) EMU_1(cos, ::cosf(x)) EMU_1(tanh, ::tanhf(x))
        EMU_1(fabs, ::fabsf(x)) EMU_1(floor, ::floorf(x)) EMU_1(ceil, ::ceilf(x)) EMU_1(trunc, ::truncf(x))
            EMU_1(round, ::roundf(x)) EMU_1(rint, ::rintf(x)) __forceinline__ float fma(float a, float b, float c) {
  return ::fmaf(a, b, c);
}
__forceinline__ half fma(half a, half b, half c) {
  return half(float(::fma(double(float(a)), double(float(b)), double(float(c)))));
}
template <class T, int N> __forceinline__ vec<T, N> fma(vec<T, N> a, vec<T, N> b, vec<T, N> c) {
  for (int i = 0; i < N; ++i) a.e[i] = fma(a.e[i], b.e[i], c.e[i]);
  return a;
}
__forceinline__ float pow(float a, float b) { return ::powf(a, b); }
__forceinline__ float fmod(float a, float b) { return ::fmodf(a, b); }
__forceinline__ float copysign(float a, float b) { return ::copysignf(a, b); }
__forceinline__ float divide(float a, float b) { return a / b; }
__forceinline__ float ldexp(float x, int k) { return ::ldexpf(x, k); }
namespace precise {
using metal::cos;
using metal::divide;
using metal::exp;
using metal::exp2;
using metal::floor;
using metal::fma;
using metal::log;
using metal::log2;
using metal::pow;
using metal::rsqrt;
using metal::sin;
using metal::sqrt;
using metal::tanh;
}  // namespace precise
namespace fast {
using metal::cos;
using metal::divide;
using metal::exp;
using metal::exp2;
using metal::floor;
using metal::fma;
using metal::log;
using metal::log2;
using metal::pow;
using metal::rsqrt;
using metal::sin;
using metal::sqrt;
using metal::tanh;
}  // namespace fast

#define EMU_WHOLES(M) M(char) M(uchar) M(short) M(ushort) M(int) M(uint) M(long) M(ulong)
#define EMU_ORDER(T)                                                   \
  __forceinline__ T max(T a, T b) { return a < b ? b : a; }            \
  __forceinline__ T min(T a, T b) { return b < a ? b : a; }            \
  __forceinline__ T clamp(T x, T a, T b) { return min(max(x, a), b); } \
  __forceinline__ T abs(T x) { return x < T(0) ? T(T(0) - x) : x; }
EMU_WHOLES(EMU_ORDER)
#undef EMU_ORDER
__forceinline__ float max(float a, float b) { return ::fmaxf(a, b); }
__forceinline__ float min(float a, float b) { return ::fminf(a, b); }
__forceinline__ half max(half a, half b) { return half(::fmaxf(a, b)); }
__forceinline__ half min(half a, half b) { return half(::fminf(a, b)); }
__forceinline__ float fmax(float a, float b) { return ::fmaxf(a, b); }
__forceinline__ float fmin(float a, float b) { return ::fminf(a, b); }
__forceinline__ float clamp(float x, float a, float b) { return min(max(x, a), b); }
__forceinline__ float abs(float x) { return ::fabsf(x); }
__forceinline__ float mix(float x, float y, float a) { return x + (y - x) * a; }
__forceinline__ float saturate(float x) { return clamp(x, 0.0f, 1.0f); }
template <class T, int N> __forceinline__ vec<T, N> max(vec<T, N> a, vec<T, N> b) {
  for (int i = 0; i < N; ++i) a.e[i] = max(a.e[i], b.e[i]);
  return a;
}
template <class T, int N> __forceinline__ vec<T, N> min(vec<T, N> a, vec<T, N> b) {
  for (int i = 0; i < N; ++i) a.e[i] = min(a.e[i], b.e[i]);
  return a;
}
__forceinline__ bool isnan(float x) { return x != x; }
__forceinline__ bool isinf(float x) { return ::fabsf(x) == INFINITY; }
__forceinline__ bool isfinite(float x) { return ::fabsf(x) < INFINITY; }
__forceinline__ uint popcount(uint x) { return __popc(x); }
__forceinline__ uint clz(uint x) { return __clz(x); }
__forceinline__ uint ctz(uint x) { return x == 0 ? 32 : __ffs(x) - 1; }
template <class T> __forceinline__ T select(T a, T b, bool c) { return c ? b : a; }
template <class T, int N> __forceinline__ vec<T, N> select(vec<T, N> a, vec<T, N> b, vec<bool, N> c) {
  for (int i = 0; i < N; ++i)
    if (c.e[i]) a.e[i] = b.e[i];
  return a;
}
template <int N> __forceinline__ bool any(vec<bool, N> x) {
  bool r = false;
  for (int i = 0; i < N; ++i) r = r || x.e[i];
  return r;
}
template <int N> __forceinline__ bool all(vec<bool, N> x) {
  bool r = true;
  for (int i = 0; i < N; ++i) r = r && x.e[i];
  return r;
}
template <class T, int N> __forceinline__ T dot(vec<T, N> a, vec<T, N> b) {
  T r = a.e[0] * b.e[0];
  for (int i = 1; i < N; ++i) r += a.e[i] * b.e[i];
  return r;
}
template <class T, int N> __forceinline__ T length(vec<T, N> a) { return sqrt(dot(a, a)); }
#undef EMU_1
#undef EMU_EACH
}  // namespace metal
