// Reporting: the first fault of a dispatch becomes its message, and its threadgroup is abandoned.
#pragma once
#include <cstdint>
#include <string>

#include "../shim/calls.h"

namespace emu {

/// The message of the fault that ended the dispatch; empty while there is none.
extern std::string fault_message;
/// The running kernel, for messages.
extern const char *fault_kernel;

/// Ends the threadgroup with a message that names a place in the .metal source and the thread.
[[noreturn]] void fault_at(emu_site site, const std::string &text);
/// The same from a return address inside a kernel.
[[noreturn]] void fault_pc(const void *pc, const std::string &text);

std::string format(const char *pattern, ...) __attribute__((format(printf, 1, 2)));
std::string site_text(emu_site site);
/// "thread (3, 0, 0) of threadgroup (1, 2, 0)" for a thread of the running group.
std::string thread_text(unsigned thread);

/// "shaders/x.metal:12" for an address in translated code, or "" if the line table does not give it.
std::string source_of(const void *pc);

}  // namespace emu
