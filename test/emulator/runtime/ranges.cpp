#include "ranges.h"

#include <algorithm>

#include "fault.h"

namespace emu {

static std::string argument_text(const emu_parameter_info &p) { return format("buffer %u \"%s\"", p.index, p.name); }

std::string bind_buffers(const emu_pipeline &pipeline, const emu_dispatch_info &dispatch, void *(&pointers)[31],
                         std::vector<Binding> &bindings) {
  const emu_kernel_info &info = *pipeline.kernel->info;
  for (void *&p : pointers) p = nullptr;
  for (unsigned i = 0; i < info.parameter_count; ++i) {
    const emu_parameter_info &p = info.parameters[i];
    if (p.kind != EMU_BUFFER || !pipeline.present[i]) continue;
    const emu_buffer *bound = nullptr;
    for (unsigned b = 0; b < dispatch.buffer_count; ++b)
      if (dispatch.buffers[b].index == p.index) bound = &dispatch.buffers[b];
    if (p.index > 30) return argument_text(p) + ": the highest index is 30";
    if (bound == nullptr) return argument_text(p) + " is not bound";
    if (bound->offset > bound->bytes)
      return argument_text(p) + format(": offset %lu is beyond the buffer's %lu bytes", (unsigned long)bound->offset,
                                       (unsigned long)bound->bytes);
    const uintptr_t low = uintptr_t(bound->pointer) + bound->offset, high = uintptr_t(bound->pointer) + bound->bytes;
    // A device pointer's element alignment; constant buffers are at multiples of 4 on Apple's GPUs.
    const unsigned align = p.space[0] == 'c' && p.align < 4 ? 4 : p.align > 16 ? 16 : p.align;
    if (low % align != 0)
      return argument_text(p) + format(": offset %lu leaves it misaligned; it must be a multiple of %u",
                                       (unsigned long)bound->offset, align);
    if (p.is_reference && high - low < p.bytes)
      return argument_text(p) + format(" needs %u bytes and has %lu", p.bytes, (unsigned long)(high - low));
    pointers[p.index] = reinterpret_cast<void *>(low);
    const bool writable = !p.is_const && (bound->flags & EMU_BUFFER_READ_ONLY) == 0;
    for (const Binding &other : bindings) {
      // Arguments at different offsets of one buffer overlap only if the kernel goes that far; the same place is
      // certain.
      const bool same = other.low == low && low != high && other.low != other.high;
      const bool nested = other.low != low && low < other.high && other.low < high && other.high != high &&
                          !(p.is_const && other.parameter->is_const);
      if ((same || nested) && !(p.is_const && other.parameter->is_const)) {
        return argument_text(p) + " overlaps " + argument_text(*other.parameter) +
               format(": kernel arguments must not, where one is written");
      }
    }
    bindings.push_back({&p, low, high, writable, writable || (bound->flags & EMU_BUFFER_SHARED) != 0});
  }
  return "";
}

std::vector<Range> segments(const std::vector<Binding> &bindings) {
  std::vector<uintptr_t> cuts;
  for (const Binding &b : bindings) {
    cuts.push_back(b.low);
    cuts.push_back(b.high);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<Range> out;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    const Binding *owner = nullptr;
    for (const Binding &b : bindings) {
      if (b.low <= cuts[i] && b.high >= cuts[i + 1] && (owner == nullptr || b.low > owner->low)) owner = &b;
    }
    if (owner == nullptr) continue;
    const unsigned bytes = owner->parameter->bytes;
    const unsigned shift = bytes % 4 == 0 ? 2 : bytes % 2 == 0 ? 1 : 0;
    const unsigned aligned =
        shift > unsigned(__builtin_ctzl(cuts[i] | 4)) ? unsigned(__builtin_ctzl(cuts[i] | 4)) : shift;
    if (!out.empty() && out.back().high == cuts[i] && out.back().name == owner->parameter->name &&
        out.back().index == owner->parameter->index) {
      out.back().high = cuts[i + 1];
      continue;
    }
    out.push_back({cuts[i], cuts[i + 1], owner->parameter->index, owner->parameter->name, owner->writable,
                   owner->tracked, aligned});
  }
  return out;
}

}  // namespace emu
