// The race check proper: a new access against a cell's history.
#pragma once
#include <cstdint>
#include <string>

#include "fault.h"
#include "fence.h"
#include "race.h"

extern "C" const char emu_anchor;

namespace emu {

/// The place of an access: an address in translated code, or a site that a call passed.
struct Where {
  const void *pc;
  const emu_site *site;
  [[noreturn]] void fault(const std::string &text) const {
    if (site != nullptr) fault_at(*site, text);
    fault_pc(pc, text);
  }
  uint32_t relative() const { return site != nullptr ? 0 : uint32_t(uintptr_t(pc) - uintptr_t(&emu_anchor)); }
};

/// Reports that an access is unordered with an earlier one. `what` names the memory.
[[noreturn]] void report_race(const Where &at, Conflict kind, bool write, bool earlier_write, Stamp other, uint32_t pc,
                              const std::string &what);

/// Checks and remembers an access to `count` cells. `what(address)` names the memory if there is a race.
[[gnu::always_inline]] inline void check_cells(const Clock &clock, Accessor who, bool device, Cell *cell, unsigned count, bool write,
                        bool atomic, const Where &at, std::string (*what)(uintptr_t), uintptr_t address) {
  const uint32_t pc = at.relative();
  for (unsigned i = 0; i < count; ++i, ++cell) {
    Conflict c = conflict(clock, who, cell->write);
    if (__builtin_expect(c != Conflict::none, 0)) {
      const bool both_atomic = atomic && (cell->write & atomic_access);
      if (!both_atomic && !(device && c == Conflict::group && fence_acquired(clock, who, cell->write))) {
        report_race(at, c, write, true, cell->write, cell->write_pc, what(address));
      }
    }
    if (write) {
      c = read_conflict(clock, who, *cell);
      if (__builtin_expect(c == Conflict::group && device, 0) && fence_acquired_reads(clock, who, *cell)) {
        c = own_read_conflict(clock, who, *cell);
        fence_forget_reads(*cell);
      }
      if (__builtin_expect(c != Conflict::none, 0)) {
        report_race(at, c, true, false, cell->read, cell->read_pc, what(address));
      }
      cell->write = stamp(clock, who, atomic ? unsigned(atomic_access) : 0u);
      cell->write_pc = pc;
      cell->read = 0;
    } else if (!atomic) {
      note_read(clock, who, *cell, pc);
    }
  }
}

/// The history of device memory, page by page, made when a page is first touched.
constexpr unsigned page_shift = 12, page_bytes = 1u << page_shift;

struct Page {
  unsigned shift;  // log2 of the bytes of a cell
  Cell *cells;
};

/// A page's history; `shift` is the first guess at its grain.
Page *history_of(uintptr_t page, unsigned shift);
/// Threads share a page in smaller pieces than assumed: every cell becomes several.
void refine(Page *page, unsigned shift);
/// The bytes that histories occupy, and a way to discard them all.
size_t history_bytes();
void history_clear();

}  // namespace emu
