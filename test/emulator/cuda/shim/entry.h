// The arguments of a kernel's entry point.
struct emu_arguments {
  void *buffers[31];
  uint threadgroups[31];  // offsets into dynamic shared memory
  // Constant references are passed by value: a kernel has them at once, as with Metal's setBytes.
  __align__(16) unsigned char constants[4][256];
};
__forceinline__ uint emu_thread_index() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }

/// A pointer or reference of the type that the kernel takes.
struct emu_pointer {
  void *p;
  template <class T> __forceinline__ operator T *() const { return static_cast<T *>(p); }
};
struct emu_reference {
  void *p;
  template <class T> __forceinline__ operator const T &() const { return *static_cast<const T *>(p); }
  template <class T> __forceinline__ operator T &() const { return *static_cast<T *>(p); }
};
struct emu_constant {
  const unsigned char *p;
  template <class T> __forceinline__ operator const T &() const {
    static_assert(sizeof(T) <= 256, "a constant argument is larger than its place");
    return *reinterpret_cast<const T *>(p);
  }
};
