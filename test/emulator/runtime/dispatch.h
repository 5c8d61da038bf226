// Running a grid.
#pragma once
#include <mutex>

namespace emu {
/// Held while the library's state is read or a kernel runs.
std::mutex &library_lock();
/// Has the running dispatch taken longer than allowed? GATED_DELTA_EMULATOR_TIMEOUT, in seconds; 300 if that is unset.
bool dispatch_overdue();
}  // namespace emu
