#include "scheduler.h"

#include <cstring>

#include "fault.h"
#include "memory.h"

namespace emu {

Scheduler scheduler;

uint64_t next_random() {
  // xorshift64*: quality hardly matters, equal seeds giving equal runs does.
  uint64_t x = scheduler.random;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  scheduler.random = x;
  return x * 0x2545f4914f6cdd1dull;
}

static inline unsigned pick(uint32_t mask) {
  if (scheduler.order == Order::forward) return __builtin_ctz(mask);
  if (scheduler.order == Order::reverse) return 31 - __builtin_clz(mask);
  // The next one from a random place on.
  const uint32_t after = mask & ~0u << (next_random() >> 59);
  return __builtin_ctz(after != 0 ? after : mask);
}

static bool release_barrier() {
  if (scheduler.live == 0 || scheduler.blocked != scheduler.live) return false;
  scheduler.blocked = 0;
  for (unsigned i = 0; i < scheduler.simdgroups; ++i) {
    Simdgroup &g = scheduler.simdgroup_list[i];
    g.runnable = g.blocked;
    g.blocked = 0;
    if (g.runnable != 0) scheduler.runnable_simdgroups |= 1u << i;
  }
  memory_barrier(scheduler.barrier_flags);
  return true;
}

/// Makes the next lane current; false when every lane has returned.
static bool choose() {
  Simdgroup *g = scheduler.simdgroup;
  if (g == nullptr || g->runnable == 0 || (scheduler.order == Order::random && (next_random() & 7) == 0)) {
    if (scheduler.runnable_simdgroups == 0 && !release_barrier()) {
      if (scheduler.live == 0) return false;
      fault_at(scheduler.barrier_site, "deadlock: some threads wait here and no thread can run");
    }
    g = &scheduler.simdgroup_list[pick(scheduler.runnable_simdgroups)];
    scheduler.simdgroup = g;
  }
  const unsigned lane = pick(g->runnable);
  g->runnable &= ~(1u << lane);
  if (g->runnable == 0) scheduler.runnable_simdgroups &= ~(1u << g->number);
  scheduler.lane = lane;
  scheduler.thread = g->first + lane;
  memory_lane_changed();
  return true;
}

static void lane_returned() {
  Simdgroup &g = *scheduler.simdgroup;
  g.live &= ~(1u << scheduler.lane);
  --scheduler.live;
  if (scheduler.blocked != 0) {
    fault_at(scheduler.barrier_site, "divergent threadgroup_barrier: " + thread_text(scheduler.barrier_thread) +
                                         " waits here, but another thread has returned from the kernel");
  }
  // The others may have been waiting for this lane alone.
  if (g.waiting != 0 && g.waiting == g.live) {
    Exchange &exchange = g.exchange[g.turn];
    exchange.active = g.waiting;
    complete_operation(g, exchange);
    g.runnable = g.waiting;
    g.waiting = 0;
    g.turn ^= 1;
    scheduler.runnable_simdgroups |= 1u << g.number;
  }
}

static void fiber_main() {
  stack_entered();
  Stack stack = scheduler.lanes[scheduler.thread].stack;
  for (;;) {
    scheduler.entry(scheduler.lanes[scheduler.thread].info);
    lane_returned();
    if (!choose()) {
      stack_give(stack);
      stack_jump(scheduler.host);
    }
    Simdgroup &g = *scheduler.simdgroup;
    if ((g.fresh >> scheduler.lane & 1) == 0) {
      stack_give(stack);
      stack_jump(scheduler.lanes[scheduler.thread].context);
    }
    g.fresh &= ~(1u << scheduler.lane);
    scheduler.lanes[scheduler.thread].stack = stack;
  }
}

/// Leaves the current lane (which waits) for the next one, and comes back when it is this lane's turn.
static void yield_lane() {
  const unsigned self = scheduler.thread;
  if (!choose()) fault_at(scheduler.barrier_site, "deadlock: no thread can run");
  if (scheduler.thread == self) return;
  Lane &next = scheduler.lanes[scheduler.thread];
  Simdgroup &g = *scheduler.simdgroup;
  if (g.fresh >> scheduler.lane & 1) {
    g.fresh &= ~(1u << scheduler.lane);
    next.stack = stack_take();
    next.context = stack_start(next.stack, fiber_main);
  }
  stack_switch(&scheduler.lanes[self].context, next.context);
}

bool run_threadgroup(unsigned threads, void (*entry)(const emu_lane &)) {
  scheduler.threads = scheduler.live = threads;
  scheduler.simdgroups = (threads + lanes_per_simdgroup - 1) / lanes_per_simdgroup;
  scheduler.blocked = 0;
  scheduler.runnable_simdgroups = 0;
  scheduler.entry = entry;
  for (unsigned i = 0; i < scheduler.simdgroups; ++i) {
    Simdgroup &g = scheduler.simdgroup_list[i];
    const unsigned count = threads - i * 32 < 32 ? threads - i * 32 : 32;
    g.first = i * 32;
    g.number = i;
    g.present = g.live = g.fresh = g.runnable = count == 32 ? ~0u : (1u << count) - 1;
    g.waiting = g.blocked = 0;
    g.turn = 0;
    g.device_epoch = g.threadgroup_epoch = 0;
    scheduler.runnable_simdgroups |= 1u << i;
  }
  scheduler.simdgroup = nullptr;
  choose();
  scheduler.simdgroup->fresh &= ~(1u << scheduler.lane);
  Lane &first = scheduler.lanes[scheduler.thread];
  first.stack = stack_take();
  scheduler.running = true;
  stack_switch(&scheduler.host, stack_start(first.stack, fiber_main));
  scheduler.running = false;
  if (fault_message.empty()) return true;
  stacks_reset();
  return false;
}

static void (*guarded)();

static void guarded_main() {
  stack_entered();
  guarded();
  stack_jump(scheduler.host);
}

bool run_guarded(void (*function)()) {
  guarded = function;
  const Stack stack = stack_take();
  scheduler.running = true;
  stack_switch(&scheduler.host, stack_start(stack, guarded_main));
  scheduler.running = false;
  stack_give(stack);
  if (fault_message.empty()) return true;
  stacks_reset();
  return false;
}

static bool same_site(emu_site a, emu_site b) {
  return a.line == b.line && a.column == b.column && (a.file == b.file || strcmp(a.file, b.file) == 0);
}

static unsigned any_lane(const Simdgroup &g, uint32_t mask) { return g.first + __builtin_ctz(mask); }

Exchange &arrive(emu_site site, Operation operation, unsigned kind, unsigned control) {
  Simdgroup &g = *scheduler.simdgroup;
  const unsigned code = unsigned(operation) << 16 | kind;
  if (__builtin_expect(g.blocked != 0, 0)) {
    fault_at(site, std::string("divergent ") + operation_name(code) + ": " + thread_text(any_lane(g, g.blocked)) +
                       " of this simdgroup waits in threadgroup_barrier at " + site_text(scheduler.barrier_site));
  }
  if (g.waiting == 0) {
    g.rendezvous = {site, code, control};
  } else if (__builtin_expect(!same_site(g.rendezvous.site, site), 0)) {
    fault_at(site, std::string("divergent ") + operation_name(code) + ": " + thread_text(any_lane(g, g.waiting)) +
                       " of this simdgroup waits in " + operation_name(g.rendezvous.operation) + " at " +
                       site_text(g.rendezvous.site));
  } else if (__builtin_expect(g.rendezvous.control != control, 0)) {
    fault_at(site, std::string(operation_name(code)) + ": the lanes of a simdgroup disagree about its arguments (" +
                       thread_text(any_lane(g, g.waiting)) + " passes others)");
  }
  return g.exchange[g.turn];
}

void gather(Exchange &exchange) {
  Simdgroup &g = *scheduler.simdgroup;
  g.waiting |= 1u << scheduler.lane;
  if (g.waiting == g.live) {
    exchange.active = g.waiting;
    complete_operation(g, exchange);
    g.runnable = g.waiting;
    g.waiting = 0;
    g.turn ^= 1;
    scheduler.runnable_simdgroups |= 1u << g.number;
  }
  yield_lane();
}

}  // namespace emu

extern "C" void emu_threadgroup_barrier(emu_site at, unsigned flags) {
  using namespace emu;
  Simdgroup &g = *scheduler.simdgroup;
  if (g.waiting != 0) {
    fault_at(at, "divergent threadgroup_barrier: " + thread_text(any_lane(g, g.waiting)) +
                     " of this simdgroup waits in " + operation_name(g.rendezvous.operation) + " at " +
                     site_text(g.rendezvous.site));
  }
  if (scheduler.live != scheduler.threads) {
    fault_at(at, "divergent threadgroup_barrier: another thread of the group has already returned from the kernel");
  }
  if (scheduler.blocked == 0) {
    scheduler.barrier_site = at;
    scheduler.barrier_flags = flags;
    scheduler.barrier_thread = scheduler.thread;
  } else if (!same_site(scheduler.barrier_site, at)) {
    fault_at(at, "divergent threadgroup_barrier: " + thread_text(scheduler.barrier_thread) +
                     " waits in another one, at " + site_text(scheduler.barrier_site));
  } else if (scheduler.barrier_flags != flags) {
    fault_at(at, "threadgroup_barrier: threads disagree about its mem_flags");
  }
  g.blocked |= 1u << scheduler.lane;
  ++scheduler.blocked;
  yield_lane();
}

extern "C" unsigned emu_lane_index() { return emu::scheduler.lane; }
