// The kernels that translated units registered, and pipelines made from them.
#pragma once
#include <string>
#include <vector>

#include "../shim/kernel_info.h"
#include "emulator.h"

namespace emu {

struct ThreadgroupVariable {
  unsigned number;
  unsigned long offset, bytes, sum;
  unsigned element_bytes;
  const char *name;
};

struct Kernel {
  const emu_unit_info *unit;
  const emu_kernel_info *info;
  std::vector<ThreadgroupVariable> variables;
  unsigned long static_bytes() const;
  unsigned max_total_threads() const { return info->max_total_threads != 0 ? info->max_total_threads : 1024; }
};

/// All kernels, in order of registration.
std::vector<Kernel> &kernels();
const Kernel *find_kernel(const char *name);

struct ConstantValue {
  unsigned position;  // in the unit's table
  unsigned char bytes[32];
};

/// A template argument's name in Metal: "metal::vec<float, 4>" is float4, "_Float16" half.
std::string pretty_type(const char *(*type)());

char *copy_string(const std::string &text);

}  // namespace emu

struct emu_pipeline {
  const emu::Kernel *kernel;
  std::vector<emu::ConstantValue> constants;
  std::vector<bool> present;  // by parameter
};

namespace emu {
/// Stores a pipeline's constants where its unit reads them. False (with fault_message) if deriving others faulted.
bool install_constants(const emu_pipeline &pipeline);
}  // namespace emu
