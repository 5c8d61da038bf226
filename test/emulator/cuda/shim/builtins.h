// Built-in arguments: three numbers, or one.
struct emu_position {
  uint x, y, z;
  __forceinline__ operator uint() const { return x; }
  __forceinline__ operator ushort() const { return ushort(x); }
  template <class T> __forceinline__ operator metal::vec<T, 2>() const { return metal::vec<T, 2>(T(x), T(y)); }
  template <class T> __forceinline__ operator metal::vec<T, 3>() const { return metal::vec<T, 3>(T(x), T(y), T(z)); }
};
struct emu_number {
  uint x;
  __forceinline__ operator uint() const { return x; }
  __forceinline__ operator ushort() const { return ushort(x); }
};
#define emu_thread_position_in_threadgroup \
  emu_position { threadIdx.x, threadIdx.y, threadIdx.z }
#define emu_threads_per_threadgroup \
  emu_position { blockDim.x, blockDim.y, blockDim.z }
#define emu_dispatch_threads_per_threadgroup emu_threads_per_threadgroup
#define emu_threadgroup_position_in_grid \
  emu_position { blockIdx.x, blockIdx.y, blockIdx.z }
#define emu_threadgroups_per_grid \
  emu_position { gridDim.x, gridDim.y, gridDim.z }
#define emu_thread_position_in_grid                                                                                  \
  emu_position {                                                                                                     \
    blockIdx.x *blockDim.x + threadIdx.x, blockIdx.y *blockDim.y + threadIdx.y, blockIdx.z *blockDim.z + threadIdx.z \
  }
#define emu_threads_per_grid \
  emu_position { gridDim.x *blockDim.x, gridDim.y *blockDim.y, gridDim.z *blockDim.z }
#define emu_grid_size emu_threads_per_grid
#define emu_grid_origin emu_position{0, 0, 0}
#define emu_thread_index_in_threadgroup \
  emu_number { emu_thread_index() }
#define emu_thread_index_in_simdgroup emu_number{emu_thread_index() % 32}
#define emu_simdgroup_index_in_threadgroup emu_number{emu_thread_index() / 32}
#define emu_simdgroups_per_threadgroup emu_number{(blockDim.x * blockDim.y * blockDim.z + 31) / 32}
#define emu_dispatch_simdgroups_per_threadgroup emu_simdgroups_per_threadgroup
#define emu_threads_per_simdgroup emu_number{32}
#define emu_thread_execution_width emu_number{32}
#define emu_thread_index_in_quadgroup emu_number{emu_thread_index() % 4}
#define emu_quadgroup_index_in_threadgroup emu_number{emu_thread_index() / 4}
#define emu_quadgroups_per_threadgroup emu_number{(blockDim.x * blockDim.y * blockDim.z + 3) / 4}
#define emu_dispatch_quadgroups_per_threadgroup emu_quadgroups_per_threadgroup
