#include "fence.h"

#include <unordered_map>
#include <vector>

#include "scheduler.h"

namespace emu {

namespace {

/// Accesses of one group: those before the stretch `last`, and those of `thread` within it.
struct Interval {
  uint32_t first, last;
  uint32_t thread;
  bool covers(Stamp s) const {
    const uint32_t serial = serial_of(s);
    if (serial < first || serial > last) return false;
    return serial < last || (thread_of(s) == thread && (s & (many_near | many_far)) == 0);
  }
};
/// Writes that a fence of `by` acquired in the stretch `since`: the other threads of its group see them after the next barrier.
struct Acquired {
  Interval interval;
  uint32_t since, by;
  bool visible(const Clock &clock, uint32_t thread) const { return since < clock.now || by == thread; }
};
using Intervals = std::vector<Interval>;

std::unordered_map<uintptr_t, Intervals> released;  // by atomic object
std::vector<Acquired> acquired;                     // by this group
Intervals observed[max_threads];                    // read from atomics by a thread since its last fence
bool any_observed;
Interval fenced[max_threads];  // the memory that a thread's last fence covers
bool any_fenced;
bool used;  // by this dispatch
// Reads of a cell by groups before the last one that read it, in a dispatch that fences.
std::unordered_map<const Cell *, std::vector<Stamp>> foreign_reads;

void add(Intervals &to, const Intervals &from) {
  for (const Interval &i : from) {
    bool known = false;
    for (Interval &j : to) {
      if (j.first == i.first && j.thread == i.thread) {
        if (j.last < i.last) j.last = i.last;
        known = true;
        break;
      }
    }
    if (!known) to.push_back(i);
  }
}

}  // namespace

void fences_begin_dispatch() {
  released.clear();
  foreign_reads.clear();
  used = false;
  fences_begin_group();
}

void fences_begin_group() {
  acquired.clear();
  if (any_observed)
    for (Intervals &o : observed) o.clear();
  if (any_fenced)
    for (Interval &f : fenced) f = {0, 0, 0};
  any_observed = any_fenced = false;
}

void fence_device(const Clock &clock) {
  const unsigned thread = scheduler.thread;
  used = true;
  for (const Interval &i : observed[thread]) acquired.push_back({i, clock.now, thread});
  observed[thread].clear();
  fenced[thread] = {clock.group, clock.now, thread};
  any_fenced = true;
}

void fence_atomic(const Clock &clock, uintptr_t address, bool reads, bool writes) {
  const unsigned thread = scheduler.thread;
  if (reads) {
    const auto found = released.find(address);
    if (found != released.end()) {
      add(observed[thread], found->second);
      any_observed = true;
    }
  }
  if (writes && fenced[thread].last != 0) {
    Intervals &to = released[address];
    add(to, {fenced[thread]});
    // Writes acquired before are passed on.
    for (const Acquired &a : acquired)
      if (a.visible(clock, thread)) add(to, {a.interval});
  }
}

bool fence_acquired(const Clock &clock, Accessor who, Stamp access) {
  for (const Acquired &a : acquired)
    if (a.interval.covers(access) && a.visible(clock, who.thread)) return true;
  return false;
}

void note_foreign_read(const Cell &cell) {
  if (used) foreign_reads[&cell].push_back(cell.read);
}

bool fence_acquired_reads(const Clock &clock, Accessor who, const Cell &cell) {
  if (!used) return false;
  if (serial_of(cell.read) < clock.group && !fence_acquired(clock, who, cell.read)) return false;
  if ((cell.read & foreign) == 0) return true;
  const auto found = foreign_reads.find(&cell);
  if (found == foreign_reads.end()) return false;
  for (const Stamp read : found->second)
    if (!fence_acquired(clock, who, read)) return false;
  return true;
}

void fence_forget_reads(const Cell &cell) {
  if (!foreign_reads.empty()) foreign_reads.erase(&cell);
}

}  // namespace emu
