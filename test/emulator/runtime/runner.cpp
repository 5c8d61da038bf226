// Runs one recorded dispatch (record.h) against a library, in a process of its own: a sanitizer's report or a crash ends this
// process and nothing else.
//
//   runner LIBRARY RECORD OUTPUT [RECORD OUTPUT]...   runs each; "-" for an output writes none. The last one's status: 0 it ran;
//                                                     1 a fault, its message on standard error; 2 bad usage or a bad file
//   runner LIBRARY --reflect                          prints the library's reflection
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "emulator.h"

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

struct Reader {
  const std::vector<unsigned char> &data;
  size_t at = 0;
  bool good = true;
  template <class T> T number() {
    T value{};
    if (data.size() - at < sizeof value) { good = false; return value; }
    memcpy(&value, data.data() + at, sizeof value);
    at += sizeof value;
    return value;
  }
  std::vector<unsigned char> bytes(uint64_t count) {
    if (count > data.size() - at) { good = false; return {}; }
    std::vector<unsigned char> out(data.begin() + long(at), data.begin() + long(at + count));
    at += count;
    return out;
  }
  std::string text() {
    const std::vector<unsigned char> raw = bytes(number<uint32_t>());
    return std::string(raw.begin(), raw.end());
  }
};

bool read_file(const char *path, std::vector<unsigned char> &out) {
  FILE *file = fopen(path, "rb");
  if (file == nullptr) return false;
  unsigned char part[65536];
  for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;) out.insert(out.end(), part, part + n);
  fclose(file);
  return true;
}

struct Constant {
  std::string name, type;
  uint32_t index;
  std::vector<unsigned char> value;
};
/// The contents in a heap block of exactly their size (but aligned), so that AddressSanitizer sees its end.
struct Buffer {
  uint32_t index, flags;
  uint64_t offset, bytes;
  std::unique_ptr<unsigned char, decltype(&free)> memory{nullptr, free};
};

int run(const Library &lib, const char *record, const char *output) {
  std::vector<unsigned char> file;
  if (!read_file(record, file) || file.size() < 8 || memcmp(file.data(), "EMUREC02", 8) != 0) {
    fprintf(stderr, "%s is not a recorded dispatch\n", record);
    return 2;
  }
  Reader in{file, 8};
  const std::string kernel = in.text();
  std::vector<Constant> constants(in.number<uint32_t>() & 0xffff);
  std::vector<emu_constant> given;
  for (Constant &c : constants) {
    c.name = in.text();
    c.index = in.number<uint32_t>();
    c.type = in.text();
    c.value = in.bytes(in.number<uint64_t>());
    given.push_back({c.name.empty() ? nullptr : c.name.c_str(), c.index, uint32_t(c.value.size()), c.type.c_str(), c.value.data()});
  }
  emu_dispatch_info info = {};
  info.size = sizeof info;
  info.order = in.number<uint32_t>();
  info.seed = in.number<uint64_t>();
  info.checks = in.number<uint32_t>();
  for (uint64_t &n : info.threads_per_grid) n = in.number<uint64_t>();
  for (uint32_t &n : info.threads_per_threadgroup) n = in.number<uint32_t>();
  std::vector<uint32_t> lengths(in.number<uint32_t>() & 0xff);
  for (uint32_t &n : lengths) n = in.number<uint32_t>();
  std::vector<Buffer> buffers(in.number<uint32_t>() & 0xff);
  std::vector<emu_buffer> bound;
  for (Buffer &b : buffers) {
    b.index = in.number<uint32_t>();
    b.flags = in.number<uint32_t>();
    b.offset = in.number<uint64_t>();
    const uint32_t same = in.number<uint32_t>();
    const std::vector<unsigned char> data = in.bytes(in.number<uint64_t>());
    b.bytes = data.size();
    if (same < bound.size()) {
      bound.push_back({bound[same].pointer, bound[same].bytes, b.offset, b.index, b.flags});
      continue;
    }
    void *memory = nullptr;
    if (posix_memalign(&memory, 64, data.empty() ? 1 : data.size()) != 0) return 2;
    b.memory.reset(static_cast<unsigned char *>(memory));
    if (!data.empty()) memcpy(memory, data.data(), data.size());
    bound.push_back({memory, b.bytes, b.offset, b.index, b.flags});
  }
  if (!in.good) {
    fprintf(stderr, "%s ends too early\n", record);
    return 2;
  }
  info.threadgroup_count = uint32_t(lengths.size());
  info.threadgroup_bytes = lengths.data();
  info.buffer_count = uint32_t(bound.size());
  info.buffers = bound.data();
  char *error = nullptr;
  emu_pipeline *pipeline = lib.create(kernel.c_str(), given.data(), given.size(), &error);
  if (pipeline != nullptr) {
    error = lib.dispatch(pipeline, &info);
    lib.destroy(pipeline);
  }
  if (error != nullptr) {
    fprintf(stderr, "%s\n", error);
    lib.free_string(error);
    return 1;
  }
  if (strcmp(output, "-") != 0) {
    FILE *out = fopen(output, "wb");
    if (out == nullptr) return 2;
    const uint32_t count = uint32_t(buffers.size());
    fwrite("EMUOUT01", 1, 8, out);
    fwrite(&count, sizeof count, 1, out);
    for (const Buffer &b : buffers) {
      fwrite(&b.index, sizeof b.index, 1, out);
      fwrite(&b.bytes, sizeof b.bytes, 1, out);
      fwrite(b.memory.get(), 1, b.bytes, out);
    }
    fclose(out);
  }
  return 0;
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
      !look_up(handle, "emu_dispatch", lib.dispatch) || !look_up(handle, "emu_string_free", lib.free_string)) return 2;
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
