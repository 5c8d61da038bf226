// The functions that -fsanitize=bounds,integer-divide-by-zero,... calls in translated code. Their arguments hold file and line.
#include <cstdint>

#include "fault.h"

namespace {

struct Location {
  const char *file;
  uint32_t line, column;
};

[[noreturn]] void report(const Location &at, const char *text) {
  emu::fault_at({at.file != nullptr ? at.file : "(unknown)", at.line, at.column}, text);
}

struct TypeDescriptor;

}  // namespace

// Every handler's first argument starts with the location.
#define HANDLER(name, text, ...)                                                             \
  void __ubsan_handle_##name##_abort(Location *data, ##__VA_ARGS__) { report(*data, text); } \
  void __ubsan_handle_##name(Location *data, ##__VA_ARGS__) { report(*data, text); }

extern "C" {
HANDLER(out_of_bounds, "index out of bounds of a local array", uintptr_t)
HANDLER(divrem_overflow, "integer division by zero, or of the smallest number by -1", uintptr_t, uintptr_t)
HANDLER(builtin_unreachable, "code that cannot be reached was reached")
HANDLER(missing_return, "a function that returns a value ended without a return")
HANDLER(vla_bound_not_positive, "an array of no elements", uintptr_t)
HANDLER(shift_out_of_bounds, "shift by a negative count or one as large as the type", uintptr_t, uintptr_t)
HANDLER(add_overflow, "signed integer overflow", uintptr_t, uintptr_t)
HANDLER(sub_overflow, "signed integer overflow", uintptr_t, uintptr_t)
HANDLER(mul_overflow, "signed integer overflow", uintptr_t, uintptr_t)
HANDLER(negate_overflow, "signed integer overflow", uintptr_t)
}
