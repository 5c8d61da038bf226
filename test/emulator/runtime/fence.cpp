#include "fence.h"

#include <unordered_map>
#include <vector>

#include "scheduler.h"

namespace emu {

namespace {

struct Interval {
  uint32_t first, last;
};
using Intervals = std::vector<Interval>;

std::unordered_map<uintptr_t, Intervals> released;  // by atomic object
Intervals acquired;                                 // by this group
Intervals observed[max_threads];                    // read from atomics by a thread since its last fence
bool any_observed;
Interval fenced[max_threads];  // what a thread's last fence covers
bool any_fenced;
bool used;  // by this dispatch
// Reads of a cell by groups before the last one that read it, in a dispatch that fences.
std::unordered_map<const Cell *, std::vector<uint32_t>> foreign_reads;

void add(Intervals &to, const Intervals &from) {
  for (const Interval &i : from) {
    bool known = false;
    for (Interval &j : to) {
      if (j.first == i.first) {
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
    for (Interval &f : fenced) f = {0, 0};
  any_observed = any_fenced = false;
}

void fence_device(uint32_t first, uint32_t now) {
  const unsigned thread = scheduler.thread;
  used = true;
  if (!observed[thread].empty()) {
    add(acquired, observed[thread]);
    observed[thread].clear();
  }
  fenced[thread] = {first, now};
  any_fenced = true;
}

void fence_atomic(uintptr_t address, bool reads, bool writes) {
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
    // What was acquired before is passed on.
    if (!acquired.empty()) add(to, acquired);
  }
}

bool fence_acquired(uint32_t serial) {
  for (const Interval &i : acquired)
    if (serial >= i.first && serial <= i.last) return true;
  return false;
}

void note_foreign_read(const Cell &cell, uint32_t serial) {
  if (used) foreign_reads[&cell].push_back(serial);
}

bool fence_acquired_reads(const Clock &clock, const Cell &cell) {
  if (!used) return false;
  const uint32_t last = serial_of(cell.read);
  if (last < clock.group && !fence_acquired(last)) return false;
  if ((cell.read & foreign) == 0) return true;
  const auto found = foreign_reads.find(&cell);
  if (found == foreign_reads.end()) return false;
  for (const uint32_t serial : found->second)
    if (!fence_acquired(serial)) return false;
  return true;
}

void fence_forget_reads(const Cell &cell) {
  if (!foreign_reads.empty()) foreign_reads.erase(&cell);
}

}  // namespace emu
