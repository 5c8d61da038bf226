// Order between threadgroups: a fence, then an atomic write, releases what the group did before; an atomic read, then a
// fence, acquires what the writers released. (atomic_thread_fence with memory_order_seq_cst and mem_device.)
#pragma once
#include <cstdint>

#include "race.h"

namespace emu {

void fences_begin_dispatch();
void fences_begin_group();
/// The thread that runs executes a device fence; `first` .. `now` are its group's serials so far.
void fence_device(uint32_t first, uint32_t now);
/// The thread that runs reads or writes an atomic object of device memory.
void fence_atomic(uintptr_t address, bool reads, bool writes);
/// Has the running group acquired what happened at this serial of another group?
bool fence_acquired(uint32_t serial);
/// Has it acquired every read of this cell by other groups?
bool fence_acquired_reads(const Clock &clock, const Cell &cell);
/// The cell has been written: what was read before no longer matters.
void fence_forget_reads(const Cell &cell);

}  // namespace emu
