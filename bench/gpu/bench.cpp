// Times the Metal kernels on an NVIDIA GPU, as the Metal backend dispatches them: outlines of its dispatches (recorded by
// the emulator) are replayed as CUDA graphs. Built by run.sh, next to the translated kernels.
//
//   bench FOLDER > RESULTS: FOLDER/cases.txt names the cases, one line of JSON a case goes to standard output.
//
// cases.txt:  case NAME BYTES GROUP   then its dispatches, "record FILE"; "rotate NAME": arguments of which each launch of
// a graph has memory of its own, so that no cache holds them. BYTES are those that the case has to move, read and written.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

#include "compile.h"

using namespace emu;

namespace {

constexpr size_t cold_bytes = size_t(640) << 20;  // more than any cache
constexpr int rounds = 9, per_round = 3;

const char *helpers = R"(
extern "C" __global__ void fill(unsigned char *p, unsigned long long n, int kind, float low, float high, unsigned seed) {
  // kind 0: float, 1: half, 2: bfloat; elements of splitmix64.
  for (unsigned long long i = blockIdx.x * 256ull + threadIdx.x; i < n; i += gridDim.x * 256ull) {
    unsigned long long z = (i + 1) * 0x9e3779b97f4a7c15ull + seed * 0xd1342543de82ef95ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull; z = (z ^ (z >> 27)) * 0x94d049bb133111ebull; z ^= z >> 31;
    float v = low + (high - low) * ((z >> 40) * 5.9604644775390625e-8f);
    if (kind == 0) ((float *)p)[i] = v;
    else if (kind == 2) ((unsigned short *)p)[i] = (unsigned short)(__float_as_uint(v) >> 16);
    else { unsigned short h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v)); ((unsigned short *)p)[i] = h; }
  }
}
extern "C" __global__ void in_place(float4 *p, unsigned long long n) {
  unsigned long long i = blockIdx.x * 256ull + threadIdx.x;
  if (i < n) { float4 v = p[i]; v.x *= 0.999f; v.y *= 0.999f; v.z *= 0.999f; v.w *= 0.999f; p[i] = v; }
}
)";
CUfunction fill_kernel, copy_kernel;

bool build_helpers(const std::string &architecture) {
  nvrtcProgram program;
  nvrtcCreateProgram(&program, helpers, "helpers.cu", 0, nullptr, nullptr);
  const std::string option = "--gpu-architecture=" + architecture;
  const char *options[] = {option.c_str()};
  if (nvrtcCompileProgram(program, 1, options) != NVRTC_SUCCESS) return false;
  size_t size = 0;
  nvrtcGetCUBINSize(program, &size);
  std::string image(size, ' ');
  nvrtcGetCUBIN(program, &image[0]);
  CUmodule module;
  return ok(cuModuleLoadData(&module, image.data()), "cuModuleLoadData") &&
         ok(cuModuleGetFunction(&fill_kernel, module, "fill"), "fill") &&
         ok(cuModuleGetFunction(&copy_kernel, module, "in_place"), "in_place");
}

struct Launch {
  CUfunction function;
  const Kernel *kernel;
  Recorded record;
  int registers, local, resident;
  unsigned threads;
};

struct Case {
  std::string name, group, error;
  double bytes = 0;
  std::vector<std::string> files;
  std::set<std::string> rotate;
  std::vector<Launch> launches;
  std::vector<CUdeviceptr> memory;
  CUgraphExec graph = nullptr;
  int count = 0;
  std::vector<float> times;
};

/// The random contents of an argument, by its name.
void fill_like(CUdeviceptr p, uint64_t bytes, const std::string &kernel, const std::string &name) {
  const auto at = kernel.find('_', 3);
  std::vector<std::string> words;
  std::istringstream in(kernel);
  for (std::string word; std::getline(in, word, '_');) words.push_back(word);
  (void)at;
  std::vector<std::string> types;
  for (const std::string &w : words)
    if (w == "f32" || w == "f16" || w == "bf16") types.push_back(w);
  std::string type = types.empty() ? "f32" : types[0];
  const std::set<std::string> stored = {"state", "staged", "snapshots", "weight"};
  if (stored.count(name) && types.size() > 1) type = types[1];
  if (name == "gate" || name == "beta" || name == "decay" || name == "scratch" || name == "convState") type = "f32";
  float low = -1, high = 1;
  if (name == "gate") low = 0.85f, high = 0.9999f;
  if (name == "beta") low = 0.1f, high = 0.95f;
  if (name == "state") low = -0.1f, high = 0.1f;
  int kind = type == "f32" ? 0 : type == "f16" ? 1 : 2;
  unsigned long long n = bytes / (kind == 0 ? 4 : 2);
  unsigned seed = 1;
  for (const char c : name) seed = seed * 31 + unsigned(c);
  void *arguments[] = {&p, &n, &kind, &low, &high, &seed};
  cuLaunchKernel(fill_kernel, 1024, 1, 1, 256, 1, 1, 0, nullptr, arguments, nullptr);
}

struct Buffers {
  std::map<uint64_t, std::vector<CUdeviceptr>> copies;  // by identity
};

bool prepare(Case &c, const std::string &folder, const std::string &architecture, CUstream stream) {
  c.launches.resize(c.files.size());
  size_t rotated = 0;
  std::map<uint64_t, uint64_t> sizes;
  std::set<uint64_t> turning;
  for (size_t i = 0; i < c.files.size(); ++i) {
    Launch &l = c.launches[i];
    if (!read_record((folder + "/" + c.files[i]).c_str(), l.record)) return false;
    const auto found = kernels.find(l.record.kernel);
    if (found == kernels.end()) {
      problem = "no kernel " + l.record.kernel;
      return false;
    }
    l.kernel = &found->second;
    l.function = compile(found->second, l.record, architecture);
    if (l.function == nullptr) return false;
    l.threads = l.record.threads[0] * l.record.threads[1] * l.record.threads[2];
    for (RecordedBuffer &b : l.record.buffers) {
      for (const Parameter &p : found->second.parameters) {
        if (p.kind != "buffer" || p.index != b.index || b.bytes == 0) continue;
        sizes[b.identity] = b.bytes;
        if (c.rotate.count(p.name) || c.rotate.count("*")) turning.insert(b.identity);
      }
    }
  }
  for (const uint64_t id : turning) rotated += sizes[id];
  // A launch may read only a part of what it is given, as of experts.
  rotated = std::min(rotated, size_t(c.bytes));
  c.count = rotated == 0 ? 32 : int(std::min<size_t>(256, std::max<size_t>(2, (cold_bytes + rotated - 1) / rotated)));
  Buffers buffers;
  std::vector<std::vector<CUdeviceptr>> memories(c.launches.size());
  for (int copy = 0; copy < c.count; ++copy) {
    for (size_t i = 0; i < c.launches.size(); ++i) {
      Launch &l = c.launches[i];
      for (const RecordedBuffer &b : l.record.buffers) {
        std::string name;
        for (const Parameter &p : l.kernel->parameters)
          if (p.index == b.index && p.kind == "buffer") name = p.name;
        std::vector<CUdeviceptr> &known = buffers.copies[b.identity];
        const size_t wanted = turning.count(b.identity) ? size_t(copy) : 0;
        if (name.empty()) {
          memories[i].push_back(0);
          continue;
        }
        while (known.size() <= wanted) {
          CUdeviceptr p = 0;
          if (!ok(cuMemAlloc(&p, b.bytes + 256), "cuMemAlloc")) return false;
          c.memory.push_back(p);
          if (b.data != nullptr) cuMemcpyHtoD(p, b.data, b.bytes);
          else fill_like(p, b.bytes, l.record.kernel, name);
          known.push_back(p);
        }
        memories[i].push_back(known[wanted]);
      }
    }
  }
  // memories[i] holds, copy after copy, the buffers of launch i.
  auto launch = [&](int copy) {
    bool good = true;
    for (size_t i = 0; i < c.launches.size() && good; ++i) {
      Launch &l = c.launches[i];
      const size_t each = l.record.buffers.size();
      std::vector<CUdeviceptr> memory(memories[i].begin() + long(each * size_t(copy)),
                                      memories[i].begin() + long(each * (size_t(copy) + 1)));
      Arguments arguments;
      unsigned shared, groups[3];
      good = lay_out(*l.kernel, l.record, memory, arguments, shared, groups);
      void *pointers[] = {&arguments};
      good = good && ok(cuLaunchKernel(l.function, groups[0], groups[1], groups[2], l.record.threads[0],
                                       l.record.threads[1], l.record.threads[2], shared, stream, pointers, nullptr),
                        "cuLaunchKernel");
      cuFuncGetAttribute(&l.registers, CU_FUNC_ATTRIBUTE_NUM_REGS, l.function);
      cuFuncGetAttribute(&l.local, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, l.function);
      int blocks = 0;
      cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, l.function, int(l.threads), shared);
      l.resident = blocks;
    }
    return good;
  };
  if (!launch(0) || !ok(cuStreamSynchronize(stream), "the kernel")) return false;
  cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  bool good = true;
  for (int copy = 0; copy < c.count && good; ++copy) good = launch(copy);
  CUgraph graph;
  cuStreamEndCapture(stream, &graph);
  return good && ok(cuGraphInstantiate(&c.graph, graph, 0), "cuGraphInstantiate");
}

/// A copy in place of as many bytes, rotated too.
bool prepare_copy(Case &c, CUstream stream) {
  unsigned long long n = (unsigned long long)(c.bytes / 2) / 16;
  const size_t bytes = size_t(n) * 16;
  c.count = int(std::min<size_t>(256, std::max<size_t>(2, (cold_bytes + bytes - 1) / bytes)));
  for (int i = 0; i < c.count; ++i) {
    CUdeviceptr p = 0;
    if (!ok(cuMemAlloc(&p, bytes + 256), "cuMemAlloc")) return false;
    cuMemsetD8(p, 0x3c, bytes);
    c.memory.push_back(p);
  }
  cuStreamSynchronize(stream);
  cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  for (int i = 0; i < c.count; ++i) {
    void *arguments[] = {&c.memory[size_t(i)], &n};
    cuLaunchKernel(copy_kernel, unsigned((n + 255) / 256), 1, 1, 256, 1, 1, 0, stream, arguments, nullptr);
  }
  CUgraph graph;
  cuStreamEndCapture(stream, &graph);
  return ok(cuGraphInstantiate(&c.graph, graph, 0), "cuGraphInstantiate");
}

float once(Case &c, CUstream stream, CUevent start, CUevent end) {
  cuEventRecord(start, stream);
  cuGraphLaunch(c.graph, stream);
  cuEventRecord(end, stream);
  cuEventSynchronize(end);
  float ms = 0;
  cuEventElapsedTime(&ms, start, end);
  return ms * 1000 / float(c.count);
}

/// The cases of one group side by side: every round times each of them.
void measure(std::vector<Case> &group, CUstream stream) {
  CUevent start, end;
  cuEventCreate(&start, CU_EVENT_DEFAULT);
  cuEventCreate(&end, CU_EVENT_DEFAULT);
  for (Case &c : group)
    if (c.graph != nullptr) once(c, stream, start, end), once(c, stream, start, end);
  for (int round = 0; round < rounds; ++round)
    for (Case &c : group)
      for (int i = 0; c.graph != nullptr && i < per_round; ++i) c.times.push_back(once(c, stream, start, end));
  cuEventDestroy(start);
  cuEventDestroy(end);
}

void report(Case &c) {
  std::sort(c.times.begin(), c.times.end());
  const float median = c.times.empty() ? 0 : c.times[c.times.size() / 2];
  printf("{\"case\": \"%s\", \"group\": \"%s\", \"bytes\": %.0f, \"microseconds\": %.3f, \"least\": %.3f, \"launches\": %d, "
         "\"error\": \"%s\", \"kernels\": [",
         c.name.c_str(), c.group.c_str(), c.bytes, double(median), c.times.empty() ? 0.0 : double(c.times[0]), c.count,
         c.error.c_str());
  for (size_t i = 0; i < c.launches.size(); ++i) {
    const Launch &l = c.launches[i];
    printf("%s{\"name\": \"%s\", \"registers\": %d, \"spilled\": %d, \"threads\": %u, \"resident\": %d}", i > 0 ? ", " : "",
           l.record.kernel.c_str(), l.registers, l.local, l.threads, l.resident);
  }
  printf("]}\n");
  fflush(stdout);
}

}  // namespace

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  const std::string folder = argv[1], only = argc > 2 ? argv[2] : "";
  CUdevice device;
  CUcontext context;
  if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS) return 1;
  cuDevicePrimaryCtxRetain(&context, device);
  cuCtxSetCurrent(context);
  char name[128];
  int major = 0, minor = 0, driver = 0;
  cuDeviceGetName(name, sizeof name, device);
  cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  cuDriverGetVersion(&driver);
  printf("{\"card\": \"%s\", \"computeCapability\": \"%d.%d\", \"cuda\": %d}\n", name, major, minor, driver);
  const std::string architecture = "sm_" + std::to_string(major) + std::to_string(minor);
  CUstream stream;
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  load_folder(folder);
  if (!build_helpers(architecture)) return 1;

  std::vector<Case> cases;
  std::istringstream lines(text_of(folder + "/cases.txt"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream in(line);
    std::string word, value;
    in >> word;
    if (word == "case") {
      cases.emplace_back();
      in >> cases.back().name >> cases.back().bytes >> cases.back().group;
    } else if (word == "record" && in >> value) cases.back().files.push_back(value);
    else if (word == "rotate" && in >> value) cases.back().rotate.insert(value);
  }
  for (size_t at = 0; at < cases.size();) {
    std::vector<Case> group;
    const std::string which = cases[at].group;
    for (; at < cases.size() && cases[at].group == which; ++at) group.push_back(std::move(cases[at]));
    if (!only.empty() && which.find(only) == std::string::npos) continue;
    Case copy;
    copy.name = "copy";
    copy.group = which;
    copy.bytes = group[0].bytes;
    group.push_back(std::move(copy));
    for (Case &c : group) {
      const bool good = c.name == "copy" ? prepare_copy(c, stream) : prepare(c, folder, architecture, stream);
      if (good) continue;
      for (const char ch : problem) c.error += ch == '"' || ch == '\\' || ch < 32 ? ' ' : ch;
      c.graph = nullptr;
    }
    measure(group, stream);
    for (Case &c : group) {
      report(c);
      for (const CUdeviceptr p : c.memory) cuMemFree(p);
      if (c.graph != nullptr) cuGraphExecDestroy(c.graph);
    }
  }
  return 0;
}
