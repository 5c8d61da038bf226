// The translated kernels of a folder, compiled for a card one at a time, on first use.
#pragma once
#include <cuda.h>
#include <dirent.h>
#include <nvrtc.h>

#include <map>
#include <sstream>

#include "record_file.h"

namespace emu {

struct Parameter {
  std::string kind, name;  // "buffer", "threadgroup" or "value"
  unsigned index;
  unsigned slot = 0;  // of a value
};
struct Kernel {
  std::string file, entry;
  int number;
  std::vector<Parameter> parameters;
  std::vector<std::pair<std::string, std::string>> constants;  // name, type
  bool fast = false;  // with Metal's default math mode, which contracts and approximates
};
struct Arguments {
  void *buffers[31];
  unsigned threadgroups[31];
  alignas(16) unsigned char constants[4][256];
};

inline std::map<std::string, Kernel> kernels;
inline std::map<std::string, std::string> sources;
inline std::map<std::string, CUfunction> compiled;
/// The last failure.
inline std::string problem;

inline bool ok(CUresult result, const char *what) {
  if (result == CUDA_SUCCESS) return true;
  const char *text = nullptr;
  cuGetErrorString(result, &text);
  problem = std::string(what) + ": " + (text != nullptr ? text : "unknown error");
  return false;
}

inline std::string text_of(const std::string &path) {
  std::vector<unsigned char> data;
  read_file(path.c_str(), data);
  return std::string(data.begin(), data.end());
}

inline void load_folder(const std::string &folder) {
  DIR *dir = opendir(folder.c_str());
  if (dir == nullptr) return;
  while (const dirent *entry = readdir(dir)) {
    const std::string name = entry->d_name;
    if (name.size() < 8 || name.substr(name.size() - 8) != ".kernels") continue;
    const std::string base = folder + "/" + name.substr(0, name.size() - 8);
    sources[base] = text_of(base + ".cu");
    std::istringstream lines(text_of(base + ".kernels"));
    Kernel *kernel = nullptr;
    bool fast = false;
    std::string line, word;
    while (std::getline(lines, line)) {
      std::istringstream in(line);
      in >> word;
      if (word == "fast") {
        fast = true;
      } else if (word == "kernel") {
        std::string host;
        in >> host;
        kernel = &kernels[host];
        kernel->file = base;
        kernel->fast = fast;
        in >> kernel->entry >> kernel->number;
      } else if (word == "constant" && kernel != nullptr) {
        std::string constant, type;
        in >> constant >> type;
        kernel->constants.push_back({constant, type});
      } else if (kernel != nullptr) {
        Parameter p;
        p.kind = word;
        in >> p.index >> p.name;
        if (word == "value") in >> p.slot;
        kernel->parameters.push_back(p);
      }
    }
  }
  closedir(dir);
}

/// A constant's value as a C++ literal.
inline std::string literal(const RecordedConstant &c) {
  char text[64];
  long whole = 0;
  if (c.type == "float") {
    float value;
    memcpy(&value, c.value.data(), 4);
    snprintf(text, sizeof text, "%af", double(value));
    return text;
  }
  if (c.value.size() <= sizeof whole) memcpy(&whole, c.value.data(), c.value.size());
  if (c.type == "int" || c.type == "short" || c.type == "char") {
    const unsigned shift = 64 - 8 * unsigned(c.value.size());
    whole = long(uint64_t(whole) << shift) >> shift;
  }
  snprintf(text, sizeof text, "%ld", whole);
  return text;
}

/// Lays out a kernel's arguments: buffers at `memory`, constants from the record itself. `shared` becomes the bytes of
/// threadgroup memory, `groups` the grid; false if it is not a whole number of threadgroups.
inline bool lay_out(const Kernel &kernel, const Recorded &record, const std::vector<CUdeviceptr> &memory,
                    Arguments &arguments, unsigned &shared, unsigned (&groups)[3]) {
  memset(&arguments, 0, sizeof arguments);
  for (size_t i = 0; i < record.buffers.size(); ++i) {
    const RecordedBuffer &b = record.buffers[i];
    if (b.index < 31) arguments.buffers[b.index] = reinterpret_cast<void *>(memory[i] + b.offset);
    for (const Parameter &p : kernel.parameters) {
      if (p.kind != "value" || p.index != b.index || b.data == nullptr || b.offset > b.bytes || p.slot > 3) continue;
      memcpy(arguments.constants[p.slot], b.data + b.offset, b.bytes - b.offset < 256 ? b.bytes - b.offset : 256);
    }
  }
  shared = 0;
  for (const Parameter &p : kernel.parameters) {
    if (p.kind != "threadgroup") continue;
    arguments.threadgroups[p.index] = shared;
    shared += p.index < record.lengths.size() ? (record.lengths[p.index] + 15) / 16 * 16 : 0;
  }
  for (int i = 0; i < 3; ++i) {
    if (record.grid[i] % record.threads[i] != 0) {
      problem = "the grid is not a whole number of threadgroups";
      return false;
    }
    groups[i] = unsigned(record.grid[i] / record.threads[i]);
  }
  return true;
}

inline CUfunction compile(const Kernel &kernel, const Recorded &record, const std::string &architecture) {
  std::vector<std::string> options = {"--std=c++17",
                                      kernel.fast ? "--use_fast_math" : "--fmad=false",
                                      "--device-as-default-execution-space",
                                      "--gpu-architecture=" + architecture,
                                      "--device-int128",
                                      "-DEMU_ENTRY=" + std::to_string(kernel.number)};
  // Threadgroups that consist of whole simdgroups need no mask of the existing lanes.
  if (record.threads[0] * record.threads[1] * record.threads[2] % 32 == 0) options.push_back("-DEMU_WHOLE_WARPS");
  for (const RecordedConstant &c : record.constants) {
    // By name, or by the position under which the emulator recorded it.
    for (const auto &known : kernel.constants)
      if (known.first == c.name) options.push_back("-DEMU_FC_" + c.name + "=" + literal(c));
  }
  std::string key = kernel.file;
  for (const std::string &o : options) key += " " + o;
  const auto found = compiled.find(key);
  if (found != compiled.end()) return found->second;
  nvrtcProgram program;
  nvrtcCreateProgram(&program, sources[kernel.file].c_str(), (kernel.file + ".cu").c_str(), 0, nullptr, nullptr);
  std::vector<const char *> arguments;
  for (const std::string &o : options) arguments.push_back(o.c_str());
  const nvrtcResult result = nvrtcCompileProgram(program, int(arguments.size()), arguments.data());
  CUfunction function = nullptr;
  if (result != NVRTC_SUCCESS) {
    size_t size = 0;
    nvrtcGetProgramLogSize(program, &size);
    std::string log(size, ' ');
    nvrtcGetProgramLog(program, &log[0]);
    problem = "does not compile: " + log.substr(0, 2000);
  } else {
    size_t size = 0;
    nvrtcGetCUBINSize(program, &size);
    std::string image(size, ' ');
    nvrtcGetCUBIN(program, &image[0]);
    CUmodule module;
    if (ok(cuModuleLoadData(&module, image.data()), "cuModuleLoadData"))
      ok(cuModuleGetFunction(&function, module, kernel.entry.c_str()), "cuModuleGetFunction");
  }
  nvrtcDestroyProgram(&program);
  compiled[key] = function;
  return function;
}

}  // namespace emu
