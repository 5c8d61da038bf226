#include "library.h"

#include <cstdlib>
#include <cstring>
#include <mutex>

#include "dispatch.h"
#include "fault.h"
#include "scheduler.h"

namespace emu {

namespace {

struct Registered {
  const void *function;
  ThreadgroupVariable variable;
};
std::vector<Registered> &registered_variables() {
  static std::vector<Registered> list;
  return list;
}
bool gathered;

/// Units register while the library is loaded, their kernels and variables in no particular order: put together on
/// first use.
void gather() {
  if (gathered) return;
  gathered = true;
  for (Kernel &k : kernels()) {
    for (const Registered &r : registered_variables())
      if (r.function == k.info->function) k.variables.push_back(r.variable);
  }
}

std::string replace_all(std::string text, const char *from, const char *to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + strlen(to)))
    text.replace(at, strlen(from), to);
  return text;
}

}  // namespace

std::vector<Kernel> &kernels() {
  static std::vector<Kernel> list;
  return list;
}

const Kernel *find_kernel(const char *name) {
  gather();
  for (const Kernel &k : kernels())
    if (strcmp(k.info->name, name) == 0) return &k;
  return nullptr;
}

unsigned long Kernel::static_bytes() const {
  unsigned long most = 0;
  for (const ThreadgroupVariable &v : variables)
    if (v.sum > most) most = v.sum;
  return (most + 15) / 16 * 16;
}

std::string pretty_type(const char *(*type)()) {
  std::string text = type();
  const size_t start = text.find("T = ");
  if (start == std::string::npos) return text;
  text = text.substr(start + 4);
  if (!text.empty() && text.back() == ']') text.pop_back();
  const char *const names[][2] = {{"const ", ""},
                                  {"(anonymous namespace)::", ""},
                                  {"unsigned char", "uchar"},
                                  {"unsigned short", "ushort"},
                                  {"unsigned int", "uint"},
                                  {"unsigned long", "ulong"},
                                  {"_Float16", "half"},
                                  {"__bf16", "bfloat"}};
  for (const auto &n : names) text = replace_all(text, n[0], n[1]);
  for (const char *prefix : {"metal::vec<", "metal::packed_vec<"}) {
    const size_t at = text.find(prefix);
    if (at != 0) continue;
    const size_t comma = text.find(", "), end = text.find('>');
    const std::string element = text.substr(strlen(prefix), comma - strlen(prefix));
    text =
        (prefix[7] == 'p' ? "packed_" : "") + element + text.substr(comma + 2, end - comma - 2) + text.substr(end + 1);
  }
  const char *atomic = "metal::atomic<";
  if (text.compare(0, strlen(atomic), atomic) == 0)
    text = "atomic_" + text.substr(strlen(atomic), text.find('>') - strlen(atomic));
  return text;
}

char *copy_string(const std::string &text) {
  char *copy = static_cast<char *>(malloc(text.size() + 1));
  if (copy != nullptr) memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

static void (*derive_function)();

bool install_constants(const emu_pipeline &pipeline) {
  const emu_unit_info &unit = *pipeline.kernel->unit;
  for (unsigned i = 0; i < unit.constant_count; ++i) memset(unit.constants[i].storage, 0, 48);
  for (const ConstantValue &v : pipeline.constants) {
    memcpy(unit.constants[v.position].storage, v.bytes, unit.constants[v.position].bytes);
    unit.constants[v.position].storage[32] = 1;
  }
  derive_function = unit.derive;
  return run_guarded([] { derive_function(); });
}

static std::string make_pipeline(emu_pipeline &pipeline, const emu_constant *constants, size_t count) {
  const Kernel &kernel = *pipeline.kernel;
  const emu_unit_info &unit = *kernel.unit;
  for (size_t i = 0; i < count; ++i) {
    const emu_constant &c = constants[i];
    for (unsigned p = 0; p < unit.constant_count; ++p) {
      const emu_constant_info &info = unit.constants[p];
      if (c.name != nullptr ? strcmp(c.name, info.name) != 0 : c.index != info.index) continue;
      const std::string type = pretty_type(info.type);
      if (c.type == nullptr || type != c.type) {
        return format("function constant %s (%u) is a %s, and the value given is a %s", info.name, info.index,
                      type.c_str(), c.type != nullptr ? c.type : "(nothing)");
      }
      if (c.bytes != info.bytes || c.value == nullptr) {
        return format("function constant %s (%u) is %u bytes, and the value given is %u", info.name, info.index,
                      info.bytes, c.bytes);
      }
      ConstantValue value = {};
      value.position = p;
      memcpy(value.bytes, c.value, c.bytes);
      pipeline.constants.push_back(value);
    }
  }
  for (unsigned u = 0; u < kernel.info->use_count; ++u) {
    const unsigned position = kernel.info->uses[u] / 2;
    bool given = false;
    for (const ConstantValue &v : pipeline.constants) given = given || v.position == position;
    if (!given && (kernel.info->uses[u] & 1)) {
      return format("kernel %s needs function constant %s (%u), which is not given", kernel.info->name,
                    unit.constants[position].name, unit.constants[position].index);
    }
  }
  fault_message.clear();
  fault_kernel = "";
  if (!stacks_prepare()) return "no memory for the stacks of a threadgroup";
  if (!install_constants(pipeline)) return fault_message;
  for (unsigned i = 0; i < kernel.info->parameter_count; ++i) {
    const emu_parameter_info &p = kernel.info->parameters[i];
    pipeline.present.push_back(p.present == nullptr || p.present());
  }
  return "";
}

}  // namespace emu

using namespace emu;

/// The buffer argument of that index, null where it is not declared or an option switches it off.
static const emu_parameter_info *present_buffer(const emu_pipeline *p, uint32_t index) {
  const emu_kernel_info &info = *p->kernel->info;
  for (unsigned i = 0; i < info.parameter_count; ++i) {
    if (info.parameters[i].kind == EMU_BUFFER && info.parameters[i].index == index && p->present[i]) {
      return &info.parameters[i];
    }
  }
  return nullptr;
}

extern "C" {

void emu_register_kernels(const emu_unit_info *unit, const emu_kernel_info *list, unsigned count) {
  for (unsigned i = 0; i < count; ++i) kernels().push_back({unit, &list[i], {}});
}

void emu_register_threadgroup_variable(const void *function, unsigned n, unsigned long offset, unsigned long bytes,
                                       unsigned element_bytes, unsigned long sum, const char *name) {
  registered_variables().push_back({function, {n, offset, bytes, sum, element_bytes, name}});
}

#define EXPORT __attribute__((visibility("default")))

EXPORT uint32_t emu_interface_version(void) { return EMU_INTERFACE_VERSION; }

EXPORT emu_pipeline *emu_pipeline_create(const char *name, const emu_constant *constants, size_t count, char **error) {
  const std::lock_guard<std::mutex> lock(library_lock());
  const Kernel *kernel = name != nullptr ? find_kernel(name) : nullptr;
  std::string problem;
  emu_pipeline *pipeline = nullptr;
  if (kernel == nullptr) {
    problem = format("the library has no kernel \"%s\"", name != nullptr ? name : "");
  } else {
    pipeline = new emu_pipeline{kernel, {}, {}};
    problem = make_pipeline(*pipeline, constants, count);
    if (!problem.empty()) {
      delete pipeline;
      pipeline = nullptr;
    }
  }
  if (error != nullptr) *error = problem.empty() ? nullptr : copy_string(problem);
  return pipeline;
}

EXPORT void emu_pipeline_destroy(emu_pipeline *pipeline) { delete pipeline; }
EXPORT uint32_t emu_pipeline_max_total_threads(const emu_pipeline *p) { return p->kernel->max_total_threads(); }
EXPORT uint32_t emu_pipeline_static_threadgroup_bytes(const emu_pipeline *p) {
  return uint32_t(p->kernel->static_bytes());
}

EXPORT uint32_t emu_pipeline_uses_buffer(const emu_pipeline *p, uint32_t index) {
  return present_buffer(p, index) != nullptr;
}

EXPORT uint32_t emu_pipeline_writes_buffer(const emu_pipeline *p, uint32_t index) {
  const emu_parameter_info *parameter = present_buffer(p, index);
  return parameter != nullptr && !parameter->is_const;
}

EXPORT void emu_string_free(char *string) { free(string); }

}  // extern "C"
