// Who touched a piece of memory last, and whether a new access is ordered after it.
//
// Time is a serial number that grows with every threadgroup and with every barrier whose mem_flags cover the memory;
// groups run one after another, so a serial identifies the group and the stretch between barriers. Within a stretch only
// simdgroup_barrier orders accesses, and only within its simdgroup. Fences and atomics order groups: fence.h.
#pragma once
#include <cstdint>

namespace emu {

struct Clock {
  uint32_t now = 1;       // this stretch
  uint32_t group = 1;     // the group's first
  uint32_t own = 1;       // the dispatch's first
  uint32_t dispatch = 1;  // the first of the dispatches without a barrier between them: anything older does not matter
};

/// serial : 32 | simdgroup epoch : 16 | thread : 10 | flags : 6
using Stamp = uint64_t;
enum : unsigned { many_near = 1, many_far = 2, foreign = 4, atomic_access = 8, other_dispatch = 16 };

struct Cell {
  Stamp write, read;
  uint32_t write_pc, read_pc;  // relative to the library, for messages
};

struct Accessor {
  uint32_t epoch;  // of its simdgroup
  uint32_t thread;
};

inline Stamp stamp(const Clock &clock, Accessor who, unsigned flags) {
  return Stamp(clock.now) << 32 | Stamp(who.epoch & 0xffff) << 16 | Stamp(who.thread & 0x3ff) << 6 | flags;
}
inline uint32_t serial_of(Stamp s) { return uint32_t(s >> 32); }
inline uint32_t thread_of(Stamp s) { return s >> 6 & 0x3ff; }
inline uint32_t epoch_of(Stamp s) { return s >> 16 & 0xffff; }

enum class Conflict { none, thread, group, dispatch };

/// Is an access by `who` now unordered with the one that left `s`?
inline Conflict conflict(const Clock &clock, Accessor who, Stamp s) {
  const uint32_t serial = serial_of(s);
  if (serial < clock.dispatch || s == 0) return Conflict::none;
  if (serial < clock.own) return Conflict::dispatch;
  if (serial < clock.group) return Conflict::group;
  if (serial < clock.now || thread_of(s) == who.thread) return Conflict::none;
  const bool near = (thread_of(s) ^ who.thread) < 32 && (thread_of(s) >> 5) == (who.thread >> 5);
  return near && epoch_of(s) != (who.epoch & 0xffff) ? Conflict::none : Conflict::thread;
}

/// An earlier read of a cell by another threadgroup, of which the cell itself will soon remember only that it
/// happened: kept separately if fences may order it (fence.h).
void note_foreign_read(const Cell &cell);

/// A read that found no conflicting write: remembered for a later write.
inline void note_read(const Clock &clock, Accessor who, Cell &cell, uint32_t pc) {
  unsigned flags = 0;
  const uint32_t serial = serial_of(cell.read);
  if (serial == clock.now) {
    flags = cell.read & (7 | other_dispatch);
    if (thread_of(cell.read) == who.thread) {
      if (epoch_of(cell.read) == (who.epoch & 0xffff)) return;
      flags &= ~unsigned(many_near);
    } else if (thread_of(cell.read) >> 5 != who.thread >> 5)
      flags |= many_far;
    else if (epoch_of(cell.read) == (who.epoch & 0xffff))
      flags |= many_near;
    else
      flags &= ~unsigned(many_near);
  } else if (serial >= clock.dispatch) {
    flags = serial < clock.group ? unsigned(foreign) : unsigned(cell.read & (foreign | other_dispatch));
    if (serial < clock.own) flags |= other_dispatch;
    else if (serial < clock.group) note_foreign_read(cell);
    if (serial < clock.group) flags |= cell.read & other_dispatch;
  }
  cell.read = stamp(clock, who, flags);
  cell.read_pc = pc;
}

/// Is a write by `who` unordered with reads of its own threadgroup before it?
inline Conflict own_read_conflict(const Clock &clock, Accessor who, const Cell &cell) {
  const Stamp r = cell.read;
  const uint32_t serial = serial_of(r);
  if (r == 0 || serial < clock.group || serial < clock.now) return Conflict::none;
  if (r & many_far) return Conflict::thread;
  if (r & many_near) {
    const bool near = thread_of(r) >> 5 == who.thread >> 5;
    return near && epoch_of(r) != (who.epoch & 0xffff) ? Conflict::none : Conflict::thread;
  }
  return conflict(clock, who, r);
}

/// Is a write by `who` unordered with reads before it?
inline Conflict read_conflict(const Clock &clock, Accessor who, const Cell &cell) {
  const Stamp r = cell.read;
  const uint32_t serial = serial_of(r);
  if (r == 0 || serial < clock.dispatch) return Conflict::none;
  if (serial < clock.own || (r & other_dispatch)) return Conflict::dispatch;
  if (serial < clock.group || (r & foreign)) return Conflict::group;
  return own_read_conflict(clock, who, cell);
}

}  // namespace emu
