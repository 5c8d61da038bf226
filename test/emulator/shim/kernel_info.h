// A translated unit's description of its kernels for the runtime. Plain structs: the unit is compiled without the C
// library.
#ifndef EMU_KERNEL_INFO_H
#define EMU_KERNEL_INFO_H

struct emu_uint3 {
  unsigned x, y, z;
};

struct emu_group {
  void *buffers[31];
  void *threadgroups[31];
};

// One thread's built-in arguments, by the names of their attributes.
struct emu_lane {
  const emu_group *group;
  emu_uint3 thread_position_in_grid, threads_per_grid;
  emu_uint3 thread_position_in_threadgroup, threads_per_threadgroup, dispatch_threads_per_threadgroup;
  emu_uint3 threadgroup_position_in_grid, threadgroups_per_grid;
  emu_uint3 grid_origin, grid_size;
  unsigned thread_index_in_threadgroup;
  unsigned thread_index_in_simdgroup, simdgroup_index_in_threadgroup, simdgroups_per_threadgroup;
  unsigned dispatch_simdgroups_per_threadgroup, threads_per_simdgroup, thread_execution_width;
  unsigned thread_index_in_quadgroup, quadgroup_index_in_threadgroup, quadgroups_per_threadgroup;
  unsigned dispatch_quadgroups_per_threadgroup;
};

enum emu_parameter_kind { EMU_BUFFER, EMU_THREADGROUP, EMU_BUILTIN };

struct emu_parameter_info {
  emu_parameter_kind kind;
  unsigned index;
  const char *name;
  const char *space;  // a builtin's attribute
  bool is_const;
  bool is_reference;
  unsigned bytes, align;
  const char *(*type)();
  const char *optional;  // the function constant that it depends on, or null
  bool (*present)();
};

struct emu_constant_info {
  const char *name;
  unsigned index;
  unsigned bytes;
  const char *(*type)();
  // The value; the byte at 32 says whether it is defined.
  unsigned char *storage;
};

struct emu_unit_info {
  const char *file;
  const emu_constant_info *constants;
  unsigned constant_count;
  void (*derive)();  // constants whose values follow from others
};

struct emu_kernel_info {
  const char *name;
  const char *file;
  unsigned line;
  void (*entry)(const emu_lane &);
  const void *function;  // identifies the kernel to emu_register_threadgroup_variable
  const emu_parameter_info *parameters;
  unsigned parameter_count;
  const unsigned *uses;  // constants: 2 * position in the unit's table + required
  unsigned use_count;
  unsigned max_total_threads;  // 0: unknown
};

extern "C" {
void emu_register_kernels(const emu_unit_info *unit, const emu_kernel_info *kernels, unsigned count);
// The n-th threadgroup variable of a kernel: its place in the arena, and the sum of sizes as Metal counts them.
void emu_register_threadgroup_variable(const void *function, unsigned n, unsigned long offset, unsigned long bytes,
                                       unsigned element_bytes, unsigned long sum, const char *name);
}

#endif
