// Running a grid.
#pragma once
#include <mutex>

namespace emu {
/// Held while the library's state is read or a kernel runs.
std::mutex &library_lock();
}
