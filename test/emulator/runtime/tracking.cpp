#include "tracking.h"

#include <cstdlib>
#include <unordered_map>

#include "scheduler.h"

namespace emu {

namespace {

std::unordered_map<uintptr_t, Page> pages;
size_t page_cell_bytes;

std::string earlier(uint32_t relative) {
  if (relative == 0) return "";
  const int32_t offset = int32_t(relative);
  const std::string place = source_of(reinterpret_cast<const void *>(uintptr_t(&emu_anchor) + offset));
  return place.empty() ? "" : " (at " + place + ")";
}

}  // namespace

void report_race(const Where &at, Conflict kind, bool write, bool earlier_write, Stamp other, uint32_t pc,
                 const std::string &what) {
  const std::string who = kind == Conflict::dispatch ? "another dispatch"
                          : kind == Conflict::group  ? "a thread of another threadgroup"
                                                     : thread_text(thread_of(other));
  const char *need = kind == Conflict::dispatch                ? "there is no barrier between the two dispatches"
                     : kind == Conflict::group                 ? "threadgroups of one dispatch are not ordered"
                     : what.compare(0, 11, "threadgroup") == 0 ? "no barrier with mem_threadgroup is between them"
                                                               : "no barrier with mem_device is between them";
  at.fault(format("data race: %s of %s that ", write ? "write" : "read", what.c_str()) + who +
           (earlier_write ? " wrote" : " read") + earlier(pc) + "; " + need);
}

Page *history_of(uintptr_t page, unsigned shift) {
  Page &p = pages[page];
  if (p.cells == nullptr) {
    const size_t bytes = (size_t(page_bytes) >> shift) * sizeof(Cell);
    p.shift = shift;
    p.cells = static_cast<Cell *>(calloc(1, bytes));
    page_cell_bytes += bytes;
  }
  return &p;
}

void refine(Page *p, unsigned shift) {
  const size_t old_count = page_bytes >> p->shift, ratio = size_t(1) << (p->shift - shift);
  Cell *cells = static_cast<Cell *>(calloc(old_count * ratio, sizeof(Cell)));
  for (size_t i = 0; i < old_count * ratio; ++i) cells[i] = p->cells[i / ratio];
  free(p->cells);
  page_cell_bytes += (old_count * ratio - old_count) * sizeof(Cell);
  p->cells = cells;
  p->shift = shift;
}

size_t history_bytes() { return page_cell_bytes; }

void history_clear() {
  for (auto &p : pages) free(p.second.cells);
  pages.clear();
  page_cell_bytes = 0;
}

}  // namespace emu
