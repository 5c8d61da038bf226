// Runs recorded dispatches on an NVIDIA GPU: the same kernels, the same inputs, compared byte by byte with the
// emulator's results. Built by itself, without nvcc's front end:
//
//   g++ -std=c++17 -O2 runner.cpp -o runner -I$CUDA/include -L$CUDA/lib64 -lnvrtc -lcuda
//   runner [--repeat N] FOLDER RECORD EXPECTED [RECORD EXPECTED]...
//
// FOLDER holds NAME.cu and NAME.kernels as `main.ts cuda` writes them. "-" for EXPECTED compares nothing. One line of
// JSON a record on standard output; status 1 if any failed to run or differs.
#include <algorithm>
#include <cmath>

#include "compile.h"

using namespace emu;

namespace {

struct Outcome {
  double microseconds = 0;
  std::string differences;
  bool same = true;
};

bool launch(CUfunction function, const Kernel &kernel, const emu::Recorded &record,
            const std::vector<CUdeviceptr> &memory, CUstream stream) {
  Arguments arguments;
  unsigned shared, groups[3];
  if (!lay_out(kernel, record, memory, arguments, shared, groups)) return false;
  if (groups[0] == 0 || groups[1] == 0 || groups[2] == 0) return true;
  void *pointers[] = {&arguments};
  return ok(cuLaunchKernel(function, groups[0], groups[1], groups[2], record.threads[0], record.threads[1],
                           record.threads[2], shared, stream, pointers, nullptr),
            "cuLaunchKernel");
}

/// The contents of the buffers after a run, against the file that the emulator's runner wrote.
void compare(const char *expected, const emu::Recorded &record, const std::vector<std::vector<unsigned char>> &results,
             Outcome &outcome) {
  std::vector<unsigned char> file;
  if (!emu::read_file(expected, file) || file.size() < 12) {
    outcome.same = false;
    outcome.differences = "\"no expected output\"";
    return;
  }
  size_t at = 12;
  for (size_t i = 0; i < record.buffers.size() && at + 12 <= file.size(); ++i) {
    uint32_t index;
    uint64_t bytes;
    memcpy(&index, file.data() + at, 4);
    memcpy(&bytes, file.data() + at + 4, 8);
    at += 12;
    if (at + bytes > file.size() || bytes != (record.buffers[i].memory ? results[i].size() : 0)) {
      outcome.same = false;
      return;
    }
    size_t differing = 0;
    double error = 0, size = 0;
    for (size_t k = 0; k < bytes; ++k) differing += file[at + k] != results[i][k];
    for (size_t k = 0; k + 4 <= bytes; k += 4) {
      float a, b;
      memcpy(&a, file.data() + at + k, 4);
      memcpy(&b, results[i].data() + k, 4);
      if (std::isfinite(a) && std::isfinite(b)) {
        error += (double(a) - b) * (double(a) - b);
        size += double(a) * a;
      }
    }
    if (differing > 0) {
      char text[160];
      snprintf(text, sizeof text, "%s{\"buffer\": %u, \"differingBytes\": %zu, \"of\": %llu, \"relRmsAsFloat\": %.3g}",
               outcome.differences.empty() ? "" : ", ", index, differing, (unsigned long long)bytes,
               size > 0 ? std::sqrt(error / size) : 0.0);
      outcome.differences += text;
      outcome.same = false;
    }
    at += bytes;
  }
}

bool run(const char *path, const char *expected, int repeat, const std::string &architecture, Outcome &outcome,
         std::string &name) {
  emu::Recorded record;
  if (!emu::read_record(path, record)) {
    problem = "not a record";
    return false;
  }
  name = record.kernel;
  const auto found = kernels.find(record.kernel);
  if (found == kernels.end()) {
    problem = "no such kernel in the folder";
    return false;
  }
  const CUfunction function = compile(found->second, record, architecture);
  if (function == nullptr) return false;
  std::vector<CUdeviceptr> memory;
  bool good = true;
  for (const emu::RecordedBuffer &b : record.buffers) {
    CUdeviceptr p = 0;
    if (!b.memory) {
      for (size_t k = 0; k < memory.size(); ++k)
        if (record.buffers[k].data == b.data) p = memory[k];
    } else {
      good = good && ok(cuMemAlloc(&p, b.bytes + 256), "cuMemAlloc") &&
             ok(cuMemsetD8(p, 0x7f, b.bytes + 256), "cuMemsetD8") &&
             (b.bytes == 0 || ok(cuMemcpyHtoD(p, b.data, b.bytes), "cuMemcpyHtoD"));
    }
    memory.push_back(p);
  }
  good = good && launch(function, found->second, record, memory, nullptr) && ok(cuCtxSynchronize(), "the kernel");
  std::vector<std::vector<unsigned char>> results;
  for (size_t i = 0; good && i < memory.size(); ++i) {
    results.emplace_back(record.buffers[i].bytes);
    if (record.buffers[i].bytes > 0)
      good = ok(cuMemcpyDtoH(results.back().data(), memory[i], record.buffers[i].bytes), "cuMemcpyDtoH");
  }
  if (good && strcmp(expected, "-") != 0) compare(expected, record, results, outcome);
  if (good && repeat > 0) {
    std::vector<float> times;
    CUevent start, end;
    cuEventCreate(&start, CU_EVENT_DEFAULT);
    cuEventCreate(&end, CU_EVENT_DEFAULT);
    for (int i = 0; i < repeat && good; ++i) {
      cuEventRecord(start, nullptr);
      for (int k = 0; k < 10; ++k) good = good && launch(function, found->second, record, memory, nullptr);
      cuEventRecord(end, nullptr);
      cuEventSynchronize(end);
      float ms = 0;
      cuEventElapsedTime(&ms, start, end);
      times.push_back(ms * 100);
    }
    std::sort(times.begin(), times.end());
    if (!times.empty()) outcome.microseconds = times[times.size() / 2];
    cuEventDestroy(start);
    cuEventDestroy(end);
  }
  for (size_t i = 0; i < memory.size(); ++i)
    if (record.buffers[i].memory) cuMemFree(memory[i]);
  return good;
}

}  // namespace

int main(int argc, char **argv) {
  int repeat = 0, first = 1;
  if (argc > 2 && strcmp(argv[1], "--repeat") == 0) {
    repeat = atoi(argv[2]);
    first = 3;
  }
  if (argc < first + 3) {
    fprintf(stderr, "usage: runner [--repeat N] FOLDER RECORD EXPECTED [RECORD EXPECTED]...\n");
    return 2;
  }
  CUdevice device;
  CUcontext context;
  if (!ok(cuInit(0), "cuInit") || !ok(cuDeviceGet(&device, 0), "cuDeviceGet") ||
      !ok(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain") ||
      !ok(cuCtxSetCurrent(context), "cuCtxSetCurrent")) {
    fprintf(stderr, "%s\n", problem.c_str());
    return 2;
  }
  char card[128] = "";
  int major = 0, minor = 0, driver = 0;
  cuDeviceGetName(card, sizeof card, device);
  cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  cuDriverGetVersion(&driver);
  printf("{\"card\": \"%s\", \"computeCapability\": \"%d.%d\", \"cuda\": %d}\n", card, major, minor, driver);
  load_folder(argv[first]);
  const std::string architecture = "sm_" + std::to_string(major * 10 + minor);
  bool all = true;
  for (int i = first + 1; i + 1 < argc; i += 2) {
    Outcome outcome;
    std::string name;
    problem.clear();
    const bool good = run(argv[i], argv[i + 1], repeat, architecture, outcome, name);
    std::string text;
    for (const char c : problem)
      text += c == '"' || c == '\\' ? std::string("'") : c == '\n' ? std::string(" | ") : std::string(1, c);
    printf(
        "{\"record\": \"%s\", \"kernel\": \"%s\", \"ran\": %s, \"sameBits\": %s, \"microseconds\": %.2f, "
        "\"differences\": [%s], \"error\": \"%s\"}\n",
        argv[i], name.c_str(), good ? "true" : "false", outcome.same ? "true" : "false", outcome.microseconds,
        outcome.differences.c_str(), text.c_str());
    fflush(stdout);
    all = all && good && outcome.same;
  }
  return all ? 0 : 1;
}
