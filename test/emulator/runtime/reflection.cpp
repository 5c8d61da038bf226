// The library's description as JSON: emulator.h says what is in it.
#include <mutex>

#include "dispatch.h"
#include "fault.h"
#include "library.h"

namespace emu {

static std::string quoted(const std::string &text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      out += format("\\u%04x", c);
    else
      out += c;
  }
  return out + "\"";
}

/// One JSON array of what `row` makes of the parameters of a kind.
template <class Row> static std::string rows(const emu_kernel_info &info, emu_parameter_kind kind, Row row) {
  std::string out;
  for (unsigned i = 0; i < info.parameter_count; ++i) {
    if (info.parameters[i].kind != kind) continue;
    out += (out.empty() ? "" : ", ") + row(info.parameters[i]);
  }
  return "[" + out + "]";
}

static std::string describe(const Kernel &kernel) {
  const emu_kernel_info &info = *kernel.info;
  std::string out =
      "{\"name\": " + quoted(info.name) + ", \"file\": " + quoted(info.file) + format(", \"line\": %u", info.line);
  out += ", \"buffers\": " + rows(info, EMU_BUFFER, [](const emu_parameter_info &p) {
           return format("{\"index\": %u, \"name\": ", p.index) + quoted(p.name) + ", \"space\": " + quoted(p.space) +
                  format(", \"const\": %s, \"reference\": %s, \"type\": ", p.is_const ? "true" : "false",
                         p.is_reference ? "true" : "false") +
                  quoted(pretty_type(p.type)) +
                  format(", \"bytes\": %u, \"align\": %u, \"optional\": ", p.bytes, p.align) +
                  (p.optional != nullptr ? quoted(p.optional) : "null") + "}";
         });
  out += ", \"threadgroups\": " + rows(info, EMU_THREADGROUP, [](const emu_parameter_info &p) {
           return format("{\"index\": %u, \"name\": ", p.index) + quoted(p.name) +
                  ", \"type\": " + quoted(pretty_type(p.type)) +
                  format(", \"bytes\": %u, \"align\": %u}", p.bytes, p.align);
         });
  out += ", \"builtins\": " + rows(info, EMU_BUILTIN, [](const emu_parameter_info &p) {
           return "{\"name\": " + quoted(p.name) + ", \"attribute\": " + quoted(p.space) +
                  ", \"type\": " + quoted(pretty_type(p.type)) + "}";
         });
  std::string constants;
  for (unsigned u = 0; u < info.use_count; ++u) {
    const emu_constant_info &c = kernel.unit->constants[info.uses[u] / 2];
    constants += (constants.empty() ? "" : ", ") + format("{\"index\": %u, \"name\": ", c.index) + quoted(c.name) +
                 ", \"type\": " + quoted(pretty_type(c.type)) +
                 format(", \"bytes\": %u, \"required\": %s}", c.bytes, info.uses[u] & 1 ? "true" : "false");
  }
  return out + ", \"constants\": [" + constants + "]" +
         format(", \"staticThreadgroupBytes\": %lu, \"maxTotalThreads\": %u}", kernel.static_bytes(),
                kernel.max_total_threads());
}

}  // namespace emu

extern "C" __attribute__((visibility("default"))) const char *emu_reflection(void) {
  static std::string text;
  const std::lock_guard<std::mutex> lock(emu::library_lock());
  if (text.empty()) {
    emu::find_kernel("");
    std::string all;
    for (const emu::Kernel &k : emu::kernels()) all += (all.empty() ? "" : ",\n  ") + emu::describe(k);
    text = "{\"kernels\": [\n  " + all + "\n]}\n";
  }
  return text.c_str();
}
