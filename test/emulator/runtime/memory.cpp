#include "memory.h"

#include <sys/mman.h>

#include <cstring>

#include "dispatch.h"
#include "fault.h"
#include "fence.h"
#include "scheduler.h"
#include "tracking.h"

namespace emu {

char *arena;

namespace {

/// Which range a page belongs to: the usual answer, found without a search.
struct Cached {
  uintptr_t page;
  const Range *range;  // null: several ranges, or none
  Page *history;
};
constexpr unsigned cache_size = 4096;
Cached cache[cache_size];

const Range *ranges;
unsigned range_count;
const Variable *variables;
unsigned variable_count;
bool check_races, check_uninitialised;

constexpr size_t history_limit = size_t(1) << 30;
uint64_t forgotten = 1;  // counts the times that histories were forgotten

Clock device_clock, group_clock;
Accessor device_who, group_who;

// Threadgroup memory: which variable a 16-byte piece belongs to (0: none), and every byte's history at its variable's
// grain.
uint8_t arena_owner[arena_bytes / 16];
unsigned arena_shift[256];
Cell arena_cells[arena_bytes];
uint32_t arena_used;

/// The segment that holds an address.
const Range *find_range(uintptr_t address) {
  for (unsigned i = 0; i < range_count; ++i)
    if (address >= ranges[i].low && address < ranges[i].high) return &ranges[i];
  return nullptr;
}

std::string device_text(uintptr_t address) {
  const Range *r = find_range(address);
  if (r == nullptr) return "device memory";
  return format("buffer %u \"%s\" at byte %lu", r->index, r->name, (unsigned long)(address - r->low));
}

std::string group_text(uintptr_t address) {
  const uint32_t offset = uint32_t(address - uintptr_t(arena));
  const unsigned owner = arena_owner[offset / 16];
  if (owner == 0) return "threadgroup memory";
  const Variable &v = variables[owner - 1];
  return format("threadgroup variable \"%s\" at byte %u", v.name, offset - v.offset);
}

[[noreturn]] void out_of_bounds(uintptr_t address, unsigned bytes, bool write, const Where &at) {
  const char *verb = write ? "write" : "read";
  if (address < 4096)
    at.fault(format("out of bounds: %s of %u bytes at address %lu (a null pointer: a buffer that is not bound?)", verb,
                    bytes, (unsigned long)address));
  // The nearest argument is most likely the one meant.
  const Range *near = nullptr;
  uintptr_t best = ~uintptr_t(0);
  for (unsigned i = 0; i < range_count; ++i) {
    const Range &r = ranges[i];
    const uintptr_t distance = address < r.low            ? r.low - address
                               : address + bytes > r.high ? address + bytes - r.high
                                                          : 0;
    if (distance < best) {
      best = distance;
      near = &r;
    }
  }
  if (near == nullptr) at.fault(format("out of bounds: %s of %u bytes, and no buffer is bound", verb, bytes));
  const unsigned long size = near->high - near->low;
  const long position = long(address - near->low);
  at.fault(format("out of bounds: %s of %u bytes at byte %ld of buffer %u \"%s\", which has %lu", verb, bytes, position,
                  near->index, near->name, size));
}

void fill(Cached &entry, uintptr_t page) {
  entry.page = page;
  entry.range = nullptr;
  entry.history = nullptr;
  unsigned count = 0;
  for (unsigned i = 0; i < range_count; ++i) {
    const Range &r = ranges[i];
    if (r.low < (page + 1) << page_shift && r.high > page << page_shift) {
      entry.range = &r;
      ++count;
    }
  }
  if (count != 1) entry.range = nullptr;
}

[[gnu::always_inline]] inline void track_device(const Range *r, uintptr_t address, unsigned bytes, bool write, bool atomic, const Where &at) {
  while (bytes > 0) {
    const uintptr_t page = address >> page_shift;
    const unsigned inside = address & (page_bytes - 1),
                   part = bytes < page_bytes - inside ? bytes : page_bytes - inside;
    Cached &entry = cache[page & (cache_size - 1)];
    Page *p = entry.page == page ? entry.history : nullptr;
    if (p == nullptr) {
      p = history_of(page, r->shift);
      if (entry.page == page) entry.history = p;
    }
    const unsigned grain = 1u << p->shift;
    if (__builtin_expect((inside | part) & (grain - 1), 0)) refine(p, __builtin_ctz(inside | part));
    const unsigned cells = part >> p->shift;
    check_cells(device_clock, device_who, true, p->cells + (inside >> p->shift), cells, write, atomic, at, device_text,
                address);
    address += part;
    bytes -= part;
  }
}

[[gnu::always_inline]] inline void access_device(uintptr_t address, unsigned bytes, bool write, bool atomic, const Where &at) {
  const uintptr_t page = address >> page_shift;
  Cached &entry = cache[page & (cache_size - 1)];
  if (__builtin_expect(entry.page != page, 0)) fill(entry, page);
  const Range *r = entry.range;
  if (__builtin_expect(r == nullptr || address < r->low || address + bytes > r->high, 0)) {
    if (!write && is_own_constant(address, bytes)) return;
    // Several arguments on this page, or one past the end: every byte must belong to some argument.
    r = find_range(address);
    for (const Range *part = r;;) {
      // Constructors of a unit's tables run before the first dispatch.
      if (part == nullptr && !scheduler.running) return;
      if (part == nullptr) out_of_bounds(address, bytes, write, at);
      if (address + bytes <= part->high) break;
      part = find_range(part->high);
      if (part != nullptr && write && !part->writable) r = part;
    }
  }
  if (__builtin_expect(write && !r->writable, 0)) {
    at.fault(format("write to buffer %u \"%s\", which is read-only", r->index, r->name));
  }
  if (check_races && r->tracked) track_device(r, address, bytes, write, atomic, at);
}

[[gnu::always_inline]] inline void access_group(uintptr_t address, unsigned bytes, bool write, bool atomic, const Where &at) {
  const uint32_t offset = uint32_t(address - uintptr_t(arena));
  const unsigned owner = arena_owner[offset / 16];
  if (__builtin_expect(owner == 0, 0)) {
    at.fault(
        format("out of bounds: %s of %u bytes outside every threadgroup variable", write ? "write" : "read", bytes));
  }
  const Variable &v = variables[owner - 1];
  if (__builtin_expect(offset < v.offset || offset + bytes > v.offset + v.bytes, 0)) {
    at.fault(format("out of bounds: %s of %u bytes at byte %ld of threadgroup variable \"%s\", which has %u",
                    write ? "write" : "read", bytes, long(offset) - long(v.offset), v.name, v.bytes));
  }
  if (!check_races && !check_uninitialised) return;
  unsigned &shift = arena_shift[owner];
  const unsigned inside = offset - v.offset;
  if (__builtin_expect((inside | bytes) & ((1u << shift) - 1), 0)) {
    // Finer cells, from the end so that none is read after it was overwritten.
    const unsigned finer = __builtin_ctz(inside | bytes), ratio = 1u << (shift - finer);
    Cell *cells = arena_cells + v.offset;
    for (unsigned i = (v.bytes >> finer); i-- > 0;) cells[i] = cells[i / ratio];
    shift = finer;
  }
  Cell *cell = arena_cells + v.offset + (inside >> shift);
  const unsigned count = bytes >> shift;
  if (!write && check_uninitialised) {
    for (unsigned i = 0; i < count; ++i) {
      if (__builtin_expect(serial_of(cell[i].write) < group_clock.group, 0)) {
        at.fault("read of " + group_text(address) + ", which no thread of the group has written");
      }
    }
  }
  if (check_races)
    check_cells(group_clock, group_who, false, cell, count, write, atomic, at, group_text, address);
  else if (write)
    for (unsigned i = 0; i < count; ++i) cell[i].write = stamp(group_clock, group_who, 0);
}

/// A kernel that never ends would hang the host: now and then, is there time left?
[[gnu::noinline]] void look_at_clock(const Where &at) {
  if (dispatch_overdue()) at.fault("the dispatch has run for longer than GATED_DELTA_EMULATOR_TIMEOUT allows");
}
uint64_t accesses;

[[gnu::always_inline]] inline void access(uintptr_t address, unsigned bytes, bool write, bool atomic, const Where &at) {
  if (__builtin_expect((++accesses & 0xfffff) == 0, 0)) look_at_clock(at);
  if (address - uintptr_t(arena) < arena_bytes) return access_group(address, bytes, write, atomic, at);
  if (address - stack_region.low < stack_region.bytes) return;
  access_device(address, bytes, write, atomic, at);
}

[[noreturn]] void misaligned(uintptr_t address, unsigned bytes, bool write, const void *pc) {
  fault_pc(pc, format("misaligned %s of %u bytes: the address is a multiple of %lu only", write ? "write" : "read",
                      bytes, (unsigned long)(address & -address)));
}

}  // namespace

void memory_begin_dispatch(const Range *r, unsigned rn, const Variable *v, unsigned vn, bool races,
                           bool uninitialised, uint64_t *together) {
  ranges = r;
  range_count = rn;
  variables = v;
  variable_count = vn;
  check_races = races;
  check_uninitialised = uninitialised;
  if (arena == nullptr) {
    arena = static_cast<char *>(mmap(nullptr, arena_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  memset(cache, 0xff, sizeof cache);
  memset(arena_owner, 0, sizeof arena_owner);
  arena_used = 0;
  for (unsigned i = 0; i < vn; ++i) {
    for (uint32_t at = v[i].offset; at < v[i].offset + v[i].bytes; at += 16) arena_owner[at / 16] = uint8_t(i + 1);
    arena_shift[i + 1] = v[i].shift;
    if (v[i].offset + v[i].bytes > arena_used) arena_used = v[i].offset + v[i].bytes;
  }
  // Histories from earlier dispatches are older than `dispatch`; serials near their end start everything afresh.
  if (device_clock.now > 0xf0000000u || group_clock.now > 0xf0000000u || history_bytes() > history_limit) {
    history_clear();
    memset(arena_cells, 0, sizeof arena_cells);
    device_clock = group_clock = Clock();
    ++forgotten;
  }
  device_clock.own = device_clock.dispatch = ++device_clock.now;
  group_clock.own = group_clock.dispatch = ++group_clock.now;
  if (together != nullptr) {
    // Dispatches of other queues may have run in between: they touch other memory.
    if (*together != 0 && *together >> 32 == forgotten) device_clock.dispatch = uint32_t(*together);
    else *together = forgotten << 32 | device_clock.dispatch;
  }
  fences_begin_dispatch();
}

void memory_end_dispatch() {
  ranges = nullptr;
  range_count = 0;
}

void memory_begin_group() {
  device_clock.group = ++device_clock.now;
  // Threadgroup memory is each group's own: earlier accesses do not count.
  group_clock.group = group_clock.own = group_clock.dispatch = ++group_clock.now;
  fences_begin_group();
  // A signalling NaN as float, half and bfloat.
  for (uint32_t i = 0; i < arena_used; i += 4) {
    const uint32_t poison = 0x7fa17fa1u;
    memcpy(arena + i, &poison, 4);
  }
}

void memory_barrier(unsigned flags) {
  if (flags & 1) ++device_clock.now;
  if (flags & 2) ++group_clock.now;
}

void memory_lane_changed() {
  device_who = {scheduler.simdgroup->device_epoch, scheduler.thread};
  group_who = {scheduler.simdgroup->threadgroup_epoch, scheduler.thread};
}

void check_access(uintptr_t address, unsigned bytes, bool write, emu_site at) {
  if (address & (bytes - 1)) fault_at(at, format("misaligned access of %u bytes", bytes));
  access(address, bytes, write, false, {nullptr, &at});
}

void check_atomic(uintptr_t address, unsigned bytes, bool write, const void *pc) {
  if (address & (bytes - 1)) misaligned(address, bytes, write, pc);
  access(address, bytes, write, true, {pc, nullptr});
}

void check_unaligned(uintptr_t address, unsigned bytes, bool write, const void *pc) {
  access(address, bytes, write, false, {pc, nullptr});
}

template <unsigned bytes, bool write> void check_aligned(uintptr_t address, const void *pc) {
  if (__builtin_expect(address & (bytes - 1), 0)) misaligned(address, bytes, write, pc);
  access(address, bytes, write, false, {pc, nullptr});
}
#define CHECK_ALIGNED(N)                                              \
  template void check_aligned<N, false>(uintptr_t, const void *);     \
  template void check_aligned<N, true>(uintptr_t, const void *);
CHECK_ALIGNED(1)
CHECK_ALIGNED(2)
CHECK_ALIGNED(4)
CHECK_ALIGNED(8)
CHECK_ALIGNED(16)

void look_at_clock(const void *pc) { look_at_clock(Where{pc, nullptr}); }

uint64_t memory_accesses() { return accesses; }

void device_fence_now() { fence_device(device_clock); }
void device_atomic_now(uintptr_t address, bool reads, bool writes) { fence_atomic(device_clock, address, reads, writes); }

}  // namespace emu
