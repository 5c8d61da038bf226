// Runs recorded dispatches (record.h) against a library, in a process of its own: a sanitizer's report or a crash ends
// this process and nothing else.
//
//   runner LIBRARY RECORD OUTPUT [RECORD OUTPUT]...   runs each; "-" for an output writes none. The last one's status:
//   0 it ran;
//                                                     1 a fault, its message on standard error; 2 bad usage or a bad
//                                                     file
//   runner LIBRARY --reflect                          prints the library's reflection
#include <dlfcn.h>

#include "emulator.h"
#include "record_file.h"

namespace {

struct Library {
  decltype(&emu_interface_version) version;
  decltype(&emu_reflection) reflection;
  decltype(&emu_pipeline_create) create;
  decltype(&emu_pipeline_destroy) destroy;
  decltype(&emu_dispatch) dispatch;
  decltype(&emu_string_free) free_string;
};

template <class F> bool look_up(void *handle, const char *name, F &function) {
  function = reinterpret_cast<F>(dlsym(handle, name));
  if (function == nullptr) fprintf(stderr, "the library has no %s\n", name);
  return function != nullptr;
}

int run(const Library &lib, const char *path, const char *output) {
  emu::Recorded record;
  if (!emu::read_record(path, record)) return 2;
  std::vector<emu_constant> constants;
  for (const emu::RecordedConstant &c : record.constants) {
    constants.push_back(
        {c.name.empty() ? nullptr : c.name.c_str(), c.index, uint32_t(c.value.size()), c.type.c_str(), c.value.data()});
  }
  std::vector<emu_buffer> buffers;
  for (const emu::RecordedBuffer &b : record.buffers) buffers.push_back({b.data, b.bytes, b.offset, b.index, b.flags});
  emu_dispatch_info info = {};
  info.size = sizeof info;
  info.order = record.order;
  info.seed = record.seed;
  info.checks = record.checks;
  for (int i = 0; i < 3; ++i) {
    info.threads_per_grid[i] = record.grid[i];
    info.threads_per_threadgroup[i] = record.threads[i];
  }
  info.threadgroup_count = uint32_t(record.lengths.size());
  info.threadgroup_bytes = record.lengths.data();
  info.buffer_count = uint32_t(buffers.size());
  info.buffers = buffers.data();
  char *error = nullptr;
  emu_pipeline *pipeline = lib.create(record.kernel.c_str(), constants.data(), constants.size(), &error);
  if (pipeline != nullptr) {
    error = lib.dispatch(pipeline, &info);
    lib.destroy(pipeline);
  }
  if (error != nullptr) {
    fprintf(stderr, "%s\n", error);
    lib.free_string(error);
    return 1;
  }
  return strcmp(output, "-") == 0 || emu::write_output(output, record) ? 0 : 2;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: runner LIBRARY RECORD OUTPUT [RECORD OUTPUT]... | runner LIBRARY --reflect\n");
    return 2;
  }
  void *handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  Library lib;
  if (!look_up(handle, "emu_interface_version", lib.version) || !look_up(handle, "emu_reflection", lib.reflection) ||
      !look_up(handle, "emu_pipeline_create", lib.create) || !look_up(handle, "emu_pipeline_destroy", lib.destroy) ||
      !look_up(handle, "emu_dispatch", lib.dispatch) || !look_up(handle, "emu_string_free", lib.free_string))
    return 2;
  if (lib.version() != EMU_INTERFACE_VERSION) {
    fprintf(stderr, "the library's interface is version %u, not %u\n", lib.version(), EMU_INTERFACE_VERSION);
    return 2;
  }
  if (strcmp(argv[2], "--reflect") == 0) {
    fputs(lib.reflection(), stdout);
    return 0;
  }
  int status = 2;
  for (int i = 2; i + 1 < argc; i += 2) status = run(lib, argv[i], argv[i + 1]);
  return status;
}
