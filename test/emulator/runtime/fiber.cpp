#include "fiber.h"

#include <sys/mman.h>

#include <vector>

#ifdef EMU_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__)
// A jump, not a return, whose target the processor would take from the calls of the stack that is left.
// The callee-saved registers of the System V ABI; the floating-point control words are the same on every stack.
__asm__(R"(
  .text
  .p2align 4
  .globl emu_switch
  .hidden emu_switch
  .type emu_switch, @function
emu_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmpq *%rcx
  .size emu_switch, .-emu_switch
  .p2align 4
  .globl emu_jump
  .hidden emu_jump
  .type emu_jump, @function
emu_jump:
  movq %rdi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmpq *%rcx
  .size emu_jump, .-emu_jump
)");
#elif defined(__aarch64__)
__asm__(R"(
  .text
  .p2align 4
  .globl emu_switch
  .hidden emu_switch
  .type emu_switch, %function
emu_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov x0, x1
  b emu_jump
  .size emu_switch, .-emu_switch
  .p2align 4
  .globl emu_jump
  .hidden emu_jump
  .type emu_jump, %function
emu_jump:
  mov sp, x0
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
  .size emu_jump, .-emu_jump
)");
#else
#error "a context switch for this processor is needed: see emu_switch"
#endif

namespace emu {

StackRegion stack_region;

static std::vector<Stack> free_stacks;

bool stacks_prepare() {
  if (stack_region.low != 0) return true;
  const size_t bytes = stack_bytes * stack_count;
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  char *base = static_cast<char *>(memory);
  for (unsigned i = 0; i < stack_count; ++i) mprotect(base + i * stack_bytes, 4096, PROT_NONE);
  stack_region.low = reinterpret_cast<uintptr_t>(base);
  stack_region.bytes = bytes;
  free_stacks.reserve(stack_count);
  stacks_reset();
  return true;
}

void stacks_reset() {
  free_stacks.clear();
  for (unsigned i = stack_count; i-- > 0;) {
    free_stacks.push_back({reinterpret_cast<char *>(stack_region.low) + i * stack_bytes, i});
  }
}

Stack stack_take() {
  const Stack stack = free_stacks.back();
  free_stacks.pop_back();
  return stack;
}

void stack_give(Stack stack) { free_stacks.push_back(stack); }

#ifdef EMU_ASAN
static const void *host_bottom;
static size_t host_size;

/// Announces a switch to the stack that `to` lies on.
static void announce(void **fake, void *to) {
  const uintptr_t offset = uintptr_t(to) - stack_region.low;
  if (offset < stack_region.bytes) {
    const uintptr_t base = stack_region.low + offset / stack_bytes * stack_bytes;
    __sanitizer_start_switch_fiber(fake, reinterpret_cast<void *>(base + 4096), stack_bytes - 4096);
  } else {
    __sanitizer_start_switch_fiber(fake, host_bottom, host_size);
  }
}

/// Where a switch came from, remembered if that was the host's stack.
static void arrived(void *fake) {
  const void *bottom = nullptr;
  size_t size = 0;
  __sanitizer_finish_switch_fiber(fake, &bottom, &size);
  if (uintptr_t(bottom) - stack_region.low >= stack_region.bytes) {
    host_bottom = bottom;
    host_size = size;
  }
}

void stack_switch(void **save, void *to) {
  void *fake = nullptr;
  announce(&fake, to);
  emu_switch(save, to);
  arrived(fake);
}

void stack_jump(void *to) {
  announce(nullptr, to);
  emu_jump(to);
}

void stack_entered() { arrived(nullptr); }
#endif

void *stack_start(Stack stack, void (*entry)()) {
#ifdef EMU_ASAN
  __asan_unpoison_memory_region(stack.base + 4096, stack_bytes - 4096);
#endif
  // Stacks a power of two apart would share the same few cache lines: each starts a little lower than the last.
  const size_t colour = stack.number * size_t(4096 + 320) % 65536;
  void **top = reinterpret_cast<void **>(stack.base + stack_bytes - 64 - colour);
#if defined(__x86_64__)
  // Six registers, the address that "ret" takes, and the alignment that a call would have left.
  void **frame = top - 8;
  for (int i = 0; i < 6; ++i) frame[i] = nullptr;
  frame[6] = reinterpret_cast<void *>(entry);
  frame[7] = nullptr;
#else
  void **frame = top - 20;
  for (int i = 0; i < 20; ++i) frame[i] = nullptr;
  frame[11] = reinterpret_cast<void *>(entry);
#endif
  return frame;
}

}  // namespace emu
