// From bound buffers to the segments of memory that a kernel may touch.
#pragma once
#include <string>
#include <vector>

#include "emulator.h"
#include "library.h"
#include "memory.h"

namespace emu {

struct Binding {
  const emu_parameter_info *parameter;
  uintptr_t low, high;
  bool writable;
  bool tracked;  // accesses are remembered, since others may conflict with them
};

/// Checks bindings against the arguments of the pipeline's kernel; returns the problem, or "". `pointers[i]` becomes
/// the target of [[buffer(i)]].
std::string bind_buffers(const emu_pipeline &pipeline, const emu_dispatch_info &dispatch, void *(&pointers)[31],
                         std::vector<Binding> &bindings);

/// Cuts bindings into segments that do not overlap: each byte belongs to the argument that starts closest before it. A
/// buffer that several arguments share by offset is thereby cut where the next one begins.
std::vector<Range> segments(const std::vector<Binding> &bindings);

}  // namespace emu
