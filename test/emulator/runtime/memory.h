// Every access that a kernel makes to device or threadgroup memory comes through here (the compiler calls __tsan_read4
// and its like before each): is it inside a bound buffer or variable, aligned, allowed, and ordered with other threads'
// accesses?
#pragma once
#include <cstddef>
#include <cstdint>

#include "../shim/calls.h"

extern "C" __attribute__((visibility("hidden"))) const char __ehdr_start, _end;

namespace emu {

/// The library's own constants, with which the compiler fills a structure before it is written. No argument contains them.
inline bool is_own_constant(uintptr_t address, size_t bytes) {
  return address >= uintptr_t(&__ehdr_start) && address + bytes <= uintptr_t(&_end);
}

/// A buffer argument as the kernel may use it.
struct Range {
  uintptr_t low, high;
  unsigned index;
  const char *name;
  bool writable;   // by the argument's type and the binding
  bool tracked;    // some argument may write here: races are possible
  unsigned shift;  // log2 of the element's size, the first guess at the size of the pieces that threads share
};

/// A threadgroup variable or argument in the arena.
struct Variable {
  uint32_t offset, bytes;
  const char *name;
  unsigned shift;
};

constexpr uint32_t arena_bytes = 96 * 1024;  // Metal's 32 KiB and the gaps between variables
extern char *arena;

/// Sets up a dispatch; the arrays must outlive it. `together` is the number that emulator.h describes, or null.
void memory_begin_dispatch(const Range *ranges, unsigned range_count, const Variable *variables,
                           unsigned variable_count, bool races, bool uninitialised, uint64_t *together);
void memory_end_dispatch();
/// A new threadgroup: threadgroup memory is poisoned, and earlier accesses now belong to another group.
void memory_begin_group();
/// All threads of the group have met at a barrier with these mem_flags.
void memory_barrier(unsigned flags);
/// scheduler.thread has changed.
void memory_lane_changed();

/// An access from the runtime itself on a kernel's behalf.
void check_access(uintptr_t address, unsigned bytes, bool write, emu_site at);

/// The number of accesses so far, in all dispatches.
uint64_t memory_accesses();

/// Something is accessed atomically: no race with other atomic accesses. Also feeds fences (fence.h).
/// The running thread reads or writes an atomic object in device memory.
void device_atomic_now(uintptr_t address, bool reads, bool writes);
void check_atomic(uintptr_t address, unsigned bytes, bool write, const void *pc);

}  // namespace emu
