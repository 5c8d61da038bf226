// Stacks that are switched by hand: a waiting lane keeps its stack, and switching costs a few instructions.
#pragma once
#include <cstddef>
#include <cstdint>

namespace emu {

constexpr size_t stack_bytes = 256 * 1024;  // one lane's, guard page included
constexpr size_t stack_margin = 48 * 1024;  // free bytes needed to enter a function
constexpr unsigned stack_count = 1024;      // the maximum of threads per threadgroup

struct Stack {
  char *base;  // lowest address; the first page is not accessible
  unsigned number;
};

/// All stacks are in one region, so that "is this address on a stack" is a single comparison.
struct StackRegion {
  uintptr_t low = 0, bytes = 0;
};
extern StackRegion stack_region;

/// Reserves the region on first use; false (with errno) if the system refuses.
bool stacks_prepare();
/// Takes an unused stack, and returns one.
Stack stack_take();
void stack_give(Stack stack);
/// Takes every stack back after a fault, whatever is on it.
void stacks_reset();

/// A stack on which `entry` will start when it is first switched to. `entry` must not return.
void *stack_start(Stack stack, void (*entry)());

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMU_ASAN 1
#endif
#endif

extern "C" {
/// Saves the caller's registers and stack pointer to *save and continues where `to` was saved.
void emu_switch(void **save, void *to);
/// Continues where `to` was saved; the caller is abandoned.
[[noreturn]] void emu_jump(void *to);
}

// The same for callers: AddressSanitizer wants to know which stack is in use.
#ifdef EMU_ASAN
void stack_switch(void **save, void *to);
[[noreturn]] void stack_jump(void *to);
/// The first thing on a new stack.
void stack_entered();
#else
inline void stack_switch(void **save, void *to) { emu_switch(save, to); }
[[noreturn]] inline void stack_jump(void *to) { emu_jump(to); }
inline void stack_entered() {}
#endif

}  // namespace emu
