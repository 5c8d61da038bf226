#include "dispatch.h"

#include <ctime>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "fault.h"
#include "library.h"
#include "matrix.h"
#include "memory.h"
#include "ranges.h"
#include "record.h"
#include "scheduler.h"

namespace emu {

std::mutex &library_lock() {
  static std::mutex lock;
  return lock;
}

static double deadline;

static double seconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

bool dispatch_overdue() { return seconds() > deadline; }

namespace {

struct Plan {
  uint64_t groups[3], count;
  uint32_t size[3];
  emu_group group;
  std::vector<Binding> bindings;
  std::vector<Range> ranges;
  std::vector<Variable> variables;
};

struct Options {
  Order order = Order::forward;
  uint64_t seed = 1;
  uint32_t checks = EMU_CHECK_ALL;
  bool flush = false;  // subnormal numbers count as zero, as operands and as results
};

std::string read_options(const emu_dispatch_info &d, Options &options) {
  options.order = Order(d.order);
  options.seed = d.seed;
  if (d.order == EMU_ORDER_ENVIRONMENT) {
    const char *text = getenv("GATED_DELTA_EMULATOR_ORDER");
    const std::string order = text != nullptr ? text : "";
    if (order.empty() || order == "forward")
      options.order = Order::forward;
    else if (order == "reverse")
      options.order = Order::reverse;
    else if (order.compare(0, 7, "random:") == 0 && order.size() > 7) {
      options.order = Order::random;
      options.seed = 0;
      for (const char c : order.substr(7)) {
        if (c < '0' || c > '9') return "GATED_DELTA_EMULATOR_ORDER: the seed in \"" + order + "\" is not a number";
        options.seed = options.seed * 10 + uint64_t(c - '0');
      }
    } else
      return "GATED_DELTA_EMULATOR_ORDER is \"" + order + "\"; it must be forward, reverse or random:SEED";
  } else if (d.order > EMU_ORDER_RANDOM)
    return format("order %u is not one of EMU_ORDER_*", d.order);
  options.checks = d.checks;
  if (d.checks & EMU_CHECK_ENVIRONMENT) {
    const char *text = getenv("GATED_DELTA_EMULATOR_CHECKS");
    const std::string checks = text != nullptr ? text : "all";
    options.checks = 0;
    if (checks == "all" || checks.empty())
      options.checks = EMU_CHECK_ALL;
    else if (checks != "none") {
      for (size_t at = 0; at <= checks.size();) {
        const size_t comma = checks.find(',', at), end = comma == std::string::npos ? checks.size() : comma;
        const std::string name = checks.substr(at, end - at);
        if (name == "races")
          options.checks |= EMU_CHECK_RACES;
        else if (name == "uninitialised")
          options.checks |= EMU_CHECK_UNINITIALISED;
        else
          return "GATED_DELTA_EMULATOR_CHECKS: \"" + name + "\" is not all, none, races or uninitialised";
        at = end + 1;
      }
    }
  }
  const char *sum = getenv("GATED_DELTA_EMULATOR_MATRIX");
  const std::string name = sum != nullptr ? sum : "";
  if (name.empty() || name == "fused")
    matrix_sum = MatrixSum::fused;
  else if (name == "pairwise")
    matrix_sum = MatrixSum::pairwise;
  else if (name == "exact")
    matrix_sum = MatrixSum::exact;
  else
    return "GATED_DELTA_EMULATOR_MATRIX is \"" + name + "\"; it must be fused, pairwise or exact";
  const char *subnormals = getenv("GATED_DELTA_EMULATOR_SUBNORMALS");
  const std::string kept = subnormals != nullptr ? subnormals : "";
  if (kept == "flush")
    options.flush = true;
  else if (!kept.empty() && kept != "keep")
    return "GATED_DELTA_EMULATOR_SUBNORMALS is \"" + kept + "\"; it must be keep or flush";
  const char *limit = getenv("GATED_DELTA_EMULATOR_TIMEOUT");
  double allowed = 300;
  if (limit != nullptr && limit[0] != 0) {
    allowed = 0;
    for (const char *c = limit; *c != 0; ++c) {
      if (*c < '0' || *c > '9')
        return format("GATED_DELTA_EMULATOR_TIMEOUT is \"%s\"; it must be a whole number of seconds", limit);
      allowed = allowed * 10 + (*c - '0');
    }
  }
  deadline = seconds() + allowed;
  return "";
}

/// Lays out threadgroup memory: the kernel's own variables where its code expects them, then the arguments.
std::string plan_memory(const emu_pipeline &pipeline, const emu_dispatch_info &d, Plan &plan) {
  const Kernel &kernel = *pipeline.kernel;
  unsigned long end = 0, total = kernel.static_bytes();
  for (const ThreadgroupVariable &v : kernel.variables) {
    plan.variables.push_back({uint32_t(v.offset), uint32_t(v.bytes), v.name,
                              v.element_bytes % 4 == 0   ? 2u
                              : v.element_bytes % 2 == 0 ? 1u
                                                         : 0u});
    if (v.offset + v.bytes > end) end = v.offset + v.bytes;
  }
  for (unsigned i = 0; i < kernel.info->parameter_count; ++i) {
    const emu_parameter_info &p = kernel.info->parameters[i];
    if (p.kind != EMU_THREADGROUP) continue;
    const uint32_t bytes = p.index < d.threadgroup_count ? d.threadgroup_bytes[p.index] : 0;
    if (bytes == 0) return format("threadgroup memory %u \"%s\" has no length", p.index, p.name);
    if (bytes % 16 != 0)
      return format("threadgroup memory %u \"%s\": its length %u is not a multiple of 16", p.index, p.name, bytes);
    total += bytes;
    if (total > 32768) break;
    const unsigned long at = (end + 64 + 63) / 64 * 64;
    plan.variables.push_back({uint32_t(at), bytes, p.name, p.bytes % 4 == 0 ? 2u : p.bytes % 2 == 0 ? 1u : 0u});
    plan.group.threadgroups[p.index] = reinterpret_cast<void *>(at);
    end = at + bytes;
  }
  if (total > 32768) return format("threadgroup memory: %lu bytes are needed, 32768 is the most", total);
  if (plan.variables.size() > 250 || end > arena_bytes) return "threadgroup memory: too many variables";
  return "";
}

std::string make_plan(const emu_pipeline &pipeline, const emu_dispatch_info &d, Plan &plan) {
  const unsigned limit = pipeline.kernel->max_total_threads();
  uint64_t threads = 1;
  plan.count = 1;
  for (int i = 0; i < 3; ++i) {
    if (d.threads_per_threadgroup[i] == 0 || d.threads_per_threadgroup[i] > 1024) {
      return format("threads per threadgroup: %u in dimension %d; 1 to 1024 are possible", d.threads_per_threadgroup[i],
                    i);
    }
    if (d.threads_per_grid[i] > 0xffffffffull)
      return format("threads per grid: %llu in dimension %d exceeds 32 bits", (unsigned long long)d.threads_per_grid[i],
                    i);
    threads *= d.threads_per_threadgroup[i];
    plan.size[i] = d.threads_per_threadgroup[i];
    plan.groups[i] = (d.threads_per_grid[i] + plan.size[i] - 1) / plan.size[i];
    if (plan.groups[i] != 0 && plan.count > 0xffffffffull / plan.groups[i])
      return "the grid has more than 2^32 threadgroups";
    plan.count *= plan.groups[i];
  }
  if (threads > limit)
    return format("%llu threads per threadgroup; this kernel takes at most %u", (unsigned long long)threads, limit);
  memset(&plan.group, 0, sizeof plan.group);
  std::string problem = bind_buffers(pipeline, d, plan.group.buffers, plan.bindings);
  if (problem.empty()) problem = plan_memory(pipeline, d, plan);
  if (problem.empty()) plan.ranges = segments(plan.bindings);
  return problem;
}

/// Fills in the threads of one threadgroup; returns how many there are (fewer at the grid's edge).
unsigned fill_lanes(const emu_dispatch_info &d, const Plan &plan, const uint64_t (&position)[3]) {
  uint32_t size[3];
  for (int i = 0; i < 3; ++i) {
    const uint64_t left = d.threads_per_grid[i] - position[i] * plan.size[i];
    size[i] = left < plan.size[i] ? uint32_t(left) : plan.size[i];
  }
  const unsigned count = size[0] * size[1] * size[2], nominal = plan.size[0] * plan.size[1] * plan.size[2];
  emu_lane lane;
  memset(&lane, 0, sizeof lane);
  lane.group = &plan.group;
  lane.threads_per_grid = lane.grid_size = {unsigned(d.threads_per_grid[0]), unsigned(d.threads_per_grid[1]),
                                            unsigned(d.threads_per_grid[2])};
  lane.threads_per_threadgroup = {size[0], size[1], size[2]};
  lane.dispatch_threads_per_threadgroup = {plan.size[0], plan.size[1], plan.size[2]};
  lane.threadgroup_position_in_grid = {unsigned(position[0]), unsigned(position[1]), unsigned(position[2])};
  lane.threadgroups_per_grid = {unsigned(plan.groups[0]), unsigned(plan.groups[1]), unsigned(plan.groups[2])};
  lane.threads_per_simdgroup = lane.thread_execution_width = 32;
  lane.simdgroups_per_threadgroup = (count + 31) / 32;
  lane.dispatch_simdgroups_per_threadgroup = (nominal + 31) / 32;
  lane.quadgroups_per_threadgroup = (count + 3) / 4;
  lane.dispatch_quadgroups_per_threadgroup = (nominal + 3) / 4;
  unsigned index = 0;
  for (uint32_t z = 0; z < size[2]; ++z) {
    for (uint32_t y = 0; y < size[1]; ++y) {
      for (uint32_t x = 0; x < size[0]; ++x, ++index) {
        emu_lane &out = scheduler.lanes[index].info;
        out = lane;
        out.thread_position_in_threadgroup = {x, y, z};
        out.thread_position_in_grid = {unsigned(position[0] * plan.size[0] + x),
                                       unsigned(position[1] * plan.size[1] + y),
                                       unsigned(position[2] * plan.size[2] + z)};
        out.thread_index_in_threadgroup = index;
        out.thread_index_in_simdgroup = index % 32;
        out.simdgroup_index_in_threadgroup = index / 32;
        out.thread_index_in_quadgroup = index % 4;
        out.quadgroup_index_in_threadgroup = index / 4;
      }
    }
  }
  return count;
}

void run_groups(const emu_pipeline &pipeline, const emu_dispatch_info &d, Plan &plan, const Options &options) {
  scheduler.order = options.order;
  scheduler.random = options.seed * 0x9e3779b97f4a7c15ull + 0x853c49e6748fea9bull;
  if (scheduler.random == 0) scheduler.random = 1;
  memory_begin_dispatch(plan.ranges.data(), unsigned(plan.ranges.size()), plan.variables.data(),
                        unsigned(plan.variables.size()), options.checks & EMU_CHECK_RACES,
                        options.checks & EMU_CHECK_UNINITIALISED, d.together);
  // Arguments in threadgroup memory were planned as offsets.
  for (void *&p : plan.group.threadgroups)
    if (p != nullptr) p = arena + uintptr_t(p);
  std::vector<uint32_t> shuffled;
  if (options.order == Order::random && plan.count <= 1u << 22) {
    shuffled.resize(plan.count);
    std::iota(shuffled.begin(), shuffled.end(), 0u);
    for (size_t i = shuffled.size(); i > 1; --i) std::swap(shuffled[i - 1], shuffled[next_random() % i]);
  }
  for (uint64_t n = 0; n < plan.count; ++n) {
    const uint64_t index = !shuffled.empty() ? shuffled[n] : options.order == Order::reverse ? plan.count - 1 - n : n;
    const uint64_t position[3] = {index % plan.groups[0], index / plan.groups[0] % plan.groups[1],
                                  index / plan.groups[0] / plan.groups[1]};
    const unsigned count = fill_lanes(d, plan, position);
    memory_begin_group();
    if (!run_threadgroup(count, pipeline.kernel->info->entry)) break;
  }
  memory_end_dispatch();
}

}  // namespace

}  // namespace emu

using namespace emu;

extern "C" __attribute__((visibility("default"))) char *emu_dispatch(const emu_pipeline *pipeline,
                                                                     const emu_dispatch_info *d) {
  const std::lock_guard<std::mutex> lock(library_lock());
  if (pipeline == nullptr || d == nullptr) return copy_string("no pipeline");
  if (d->size != sizeof(emu_dispatch_info))
    return copy_string(format("emu_dispatch_info of %u bytes, %zu expected", d->size, sizeof(emu_dispatch_info)));
  const char *name = pipeline->kernel->info->name;
  Options options;
  Plan plan;
  std::string problem = read_options(*d, options);
  if (problem.empty()) problem = make_plan(*pipeline, *d, plan);
  if (!problem.empty()) return copy_string(format("kernel %s: ", name) + problem);
  record_dispatch(*pipeline, *d, unsigned(options.order), options.seed, options.checks);
  if (outlines()) return nullptr;
  fault_message.clear();
  fault_kernel = "";
#if defined(__x86_64__)
  // Denormals count, unless they are to be flushed, and nothing traps, whatever the host's thread has set.
  const unsigned control = _mm_getcsr();
  _mm_setcsr(options.flush ? 0x9fc0 : 0x1f80);
#endif
#if defined(__aarch64__)
  uint64_t control;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  __asm__ volatile("msr fpcr, %0" ::"r"(options.flush ? control | (1ull << 24) : control & ~(1ull << 24)));
#endif
  if (plan.count > 0 && install_constants(*pipeline)) {
    fault_kernel = name;
    const uint64_t before = memory_accesses();
    run_groups(*pipeline, *d, plan, options);
    if (d->accesses != nullptr) *d->accesses += memory_accesses() - before;
  }
#if defined(__x86_64__)
  _mm_setcsr(control);
#elif defined(__aarch64__)
  __asm__ volatile("msr fpcr, %0" ::"r"(control));
#endif
  return fault_message.empty() ? nullptr : copy_string(fault_message);
}
