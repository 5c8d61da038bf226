#include "record.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "fault.h"
#include "library.h"

namespace emu {

namespace {

constexpr uint64_t outline_bytes = 512 << 10;  // as record_file.h has it

struct File {
  FILE *file;
  template <class T> void number(T value) { fwrite(&value, sizeof value, 1, file); }
  void text(const std::string &s) {
    number(uint32_t(s.size()));
    fwrite(s.data(), 1, s.size(), file);
  }
  void block(const void *data, uint64_t bytes) {
    number(bytes);
    if (bytes > 0) fwrite(data, 1, bytes, file);
  }
};

}  // namespace

bool outlines() {
  const char *wanted = getenv("GATED_DELTA_EMULATOR_OUTLINES");
  return wanted != nullptr && wanted[0] != 0;
}

void record_dispatch(const emu_pipeline &pipeline, const emu_dispatch_info &d, uint32_t order, uint64_t seed,
                     uint32_t checks) {
  const char *folder = getenv("GATED_DELTA_EMULATOR_RECORD");
  if (folder == nullptr || folder[0] == 0) return;
  static unsigned number;
  static std::map<std::string, unsigned> recorded;
  const char *limit = getenv("GATED_DELTA_EMULATOR_RECORD_LIMIT");
  if (limit != nullptr && ++recorded[pipeline.kernel->info->name] > unsigned(atoi(limit))) return;
  const std::string path = format("%s/%06u-%s.emurec", folder, number++, pipeline.kernel->info->name);
  File out = {fopen(path.c_str(), "wb")};
  if (out.file == nullptr) return;
  fwrite(outlines() ? "EMUOUTL1" : "EMUREC02", 1, 8, out.file);
  out.text(pipeline.kernel->info->name);
  out.number(uint32_t(pipeline.constants.size()));
  for (const ConstantValue &v : pipeline.constants) {
    const emu_constant_info &info = pipeline.kernel->unit->constants[v.position];
    out.text(info.name);
    out.number(info.index);
    out.text(pretty_type(info.type));
    out.block(v.bytes, info.bytes);
  }
  out.number(order);
  out.number(seed);
  out.number(checks);
  for (const uint64_t n : d.threads_per_grid) out.number(n);
  for (const uint32_t n : d.threads_per_threadgroup) out.number(n);
  out.number(d.threadgroup_count);
  for (unsigned i = 0; i < d.threadgroup_count; ++i) out.number(d.threadgroup_bytes[i]);
  out.number(d.buffer_count);
  for (unsigned i = 0; i < d.buffer_count; ++i) {
    const emu_buffer &b = d.buffers[i];
    out.number(b.index);
    out.number(b.flags);
    out.number(b.offset);
    uint32_t same = ~0u;
    for (unsigned k = 0; k < i; ++k)
      if (d.buffers[k].pointer == b.pointer && d.buffers[k].bytes == b.bytes) {
        same = k;
        break;
      }
    out.number(same);
    const bool left = outlines() && b.bytes > outline_bytes && same == ~0u;
    if (left)
      out.number(b.bytes);
    else
      out.block(b.pointer, b.pointer != nullptr && same == ~0u ? b.bytes : 0);
    if (outlines()) out.number(uint64_t(uintptr_t(b.pointer)));
  }
  fclose(out.file);
}

}  // namespace emu
