// Order between threadgroups: a fence, then an atomic write, releases what the group did before; an atomic read, then a
// fence, acquires what the writers released. (atomic_thread_fence with memory_order_seq_cst and mem_device.)
#pragma once
#include <cstdint>

#include "race.h"

namespace emu {

void fences_begin_dispatch();
void fences_begin_group();
/// The running thread executes a device fence. It covers its group's accesses before the last barrier, and the thread's
/// own accesses since then.
void fence_device(const Clock &clock);
/// The running thread reads or writes an atomic object in device memory.
void fence_atomic(const Clock &clock, uintptr_t address, bool reads, bool writes);
/// Has the running thread acquired this access of another group? Either by its own fence or by one that another
/// thread of its group executed before the last barrier.
bool fence_acquired(const Clock &clock, Accessor who, Stamp access);
/// Has it acquired every read of this cell by other groups?
bool fence_acquired_reads(const Clock &clock, Accessor who, const Cell &cell);
/// The cell has been written: earlier reads no longer matter.
void fence_forget_reads(const Cell &cell);

}  // namespace emu
