#include "fault.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "scheduler.h"

namespace emu {

std::string fault_message;
const char *fault_kernel = "";

std::string format(const char *pattern, ...) {
  char text[1024];
  va_list list;
  va_start(list, pattern);
  vsnprintf(text, sizeof text, pattern, list);
  va_end(list);
  return text;
}

std::string site_text(emu_site site) { return format("%s:%u", site.file, site.line); }

std::string thread_text(unsigned thread) {
  const emu_lane &lane = scheduler.lanes[thread].info;
  const emu_uint3 t = lane.thread_position_in_threadgroup, g = lane.threadgroup_position_in_grid;
  return format("thread (%u, %u, %u) of threadgroup (%u, %u, %u)", t.x, t.y, t.z, g.x, g.y, g.z);
}

static void record(const std::string &place, const std::string &text) {
  if (!fault_message.empty()) return;
  fault_message = (place.empty() ? std::string("(unknown place)") : place) + ": " + text;
  if (fault_kernel[0] != 0) fault_message += format("; kernel %s, ", fault_kernel) + thread_text(scheduler.thread);
}

[[noreturn]] static void leave() {
  if (!scheduler.running) {
    fprintf(stderr, "emulator: %s\n", fault_message.c_str());
    abort();  // not reachable: translated code runs under run_threadgroup or run_guarded only
  }
  stack_jump(scheduler.host);
}

void fault_at(emu_site site, const std::string &text) {
  record(site_text(site), text);
  leave();
}

void fault_pc(const void *pc, const std::string &text) {
  record(source_of(pc), text);
  leave();
}

}  // namespace emu

extern "C" {
void emu_bad_component(emu_site at, long index, unsigned count) {
  emu::fault_at(at, emu::format("component %ld of a vector of %u", index, count));
}
void emu_bad_division() { emu::fault_pc(__builtin_return_address(0), "integer division by zero"); }
}
