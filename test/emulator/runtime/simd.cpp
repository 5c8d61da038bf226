// Simdgroup and quadgroup functions.
#include <cstring>

#include "fault.h"
#include "matrix.h"
#include "memory.h"
#include "scheduler.h"

namespace emu {

static const char *const permute_names[] = {"shuffle",
                                            "shuffle_xor",
                                            "shuffle_up",
                                            "shuffle_down",
                                            "shuffle_rotate_up",
                                            "shuffle_rotate_down",
                                            "broadcast",
                                            "broadcast_first",
                                            "shuffle_and_fill_up",
                                            "shuffle_and_fill_down"};
static const char *const reduce_names[] = {"sum",
                                           "product",
                                           "min",
                                           "max",
                                           "and",
                                           "or",
                                           "xor",
                                           "prefix_inclusive_sum",
                                           "prefix_exclusive_sum",
                                           "prefix_inclusive_product",
                                           "prefix_exclusive_product"};
static const char *const vote_names[] = {"ballot", "all", "any", "is_first", "active_threads_mask"};

const char *operation_name(unsigned operation) {
  static char text[64];
  const unsigned kind = operation & 0xff;
  const char *group = operation & EMU_QUAD ? "quad_" : "simd_";
  const char *name = "?";
  switch (Operation(operation >> 16)) {
    case Operation::barrier: return "simdgroup_barrier";
    case Operation::matrix_load: return "simdgroup_load";
    case Operation::matrix_store: return "simdgroup_store";
    case Operation::matrix_multiply: return "simdgroup_multiply_accumulate";
    case Operation::permute:
    case Operation::fill: name = permute_names[kind]; break;
    case Operation::reduce: name = reduce_names[kind]; break;
    case Operation::vote: name = vote_names[kind]; break;
  }
  strcpy(text, group);
  strncat(text, name, sizeof text - 6);
  return text;
}

namespace {

template <class T> T load(const emu_bits &bits, unsigned component) {
  T value;
  memcpy(&value, reinterpret_cast<const char *>(&bits) + component * sizeof(T), sizeof value);
  return value;
}
template <class T> void store(emu_bits &bits, unsigned component, T value) {
  memcpy(reinterpret_cast<char *>(&bits) + component * sizeof(T), &value, sizeof value);
}

template <class T> constexpr bool is_float = false;
template <> constexpr bool is_float<float> = true;
template <> constexpr bool is_float<_Float16> = true;
template <> constexpr bool is_float<__bf16> = true;

template <class T> T combine(unsigned kind, T a, T b) {
  switch (kind) {
    case EMU_SUM:
    case EMU_INCLUSIVE_SUM:
    case EMU_EXCLUSIVE_SUM:
      if constexpr (is_float<T>)
        return T(a + b);
      else
        return T(uint64_t(a) + uint64_t(b));
    case EMU_PRODUCT:
    case EMU_INCLUSIVE_PRODUCT:
    case EMU_EXCLUSIVE_PRODUCT:
      if constexpr (is_float<T>)
        return T(a * b);
      else
        return T(uint64_t(a) * uint64_t(b));
    case EMU_MIN:
      if constexpr (is_float<T>)
        return T(__builtin_fminf(float(a), float(b)));
      else
        return b < a ? b : a;
    case EMU_MAX:
      if constexpr (is_float<T>)
        return T(__builtin_fmaxf(float(a), float(b)));
      else
        return a < b ? b : a;
    default: break;
  }
  if constexpr (!is_float<T>) {
    if (kind == EMU_AND) return T(a & b);
    if (kind == EMU_OR) return T(a | b);
    if (kind == EMU_XOR) return T(a ^ b);
  }
  return a;
}

/// Lanes first .. first + width - 1 of one component. A reduction is a tree by lane distance 1, 2, 4, ... over the
/// active lanes; Metal leaves the order open. A prefix goes lane by lane.
template <class T> void reduce(Exchange &e, unsigned kind, unsigned component, unsigned first, unsigned width) {
  if (kind >= EMU_INCLUSIVE_SUM) {
    const bool inclusive = kind == EMU_INCLUSIVE_SUM || kind == EMU_INCLUSIVE_PRODUCT;
    T total = kind == EMU_INCLUSIVE_SUM || kind == EMU_EXCLUSIVE_SUM ? T(0) : T(1);
    for (unsigned lane = first; lane < first + width; ++lane) {
      if ((e.active >> lane & 1) == 0) continue;
      const T own = load<T>(e.value[lane], component), next = combine(kind, total, own);
      store(e.second[lane], component, inclusive ? next : total);
      total = next;
    }
    return;
  }
  T value[lanes_per_simdgroup];
  bool there[lanes_per_simdgroup];
  for (unsigned i = 0; i < width; ++i) {
    there[i] = e.active >> (first + i) & 1;
    if (there[i]) value[i] = load<T>(e.value[first + i], component);
  }
  for (unsigned step = 1; step < width; step *= 2) {
    for (unsigned i = 0; i < width; i += 2 * step) {
      if (there[i] && there[i + step])
        value[i] = combine(kind, value[i], value[i + step]);
      else if (there[i + step]) {
        value[i] = value[i + step];
        there[i] = true;
      }
    }
  }
  if (!there[0]) return;
  for (unsigned i = 0; i < width; ++i) store(e.second[first + i], component, value[0]);
}

template <class T> void reduce_all(Exchange &e, unsigned kind, unsigned components, unsigned width) {
  for (unsigned first = 0; first < lanes_per_simdgroup; first += width) {
    for (unsigned c = 0; c < components; ++c) reduce<T>(e, kind, c, first, width);
  }
}

void complete_reduce(const Simdgroup &g, Exchange &e) {
  const unsigned kind = g.rendezvous.operation & 0xff, width = g.rendezvous.operation & EMU_QUAD ? 4 : 32;
  const unsigned components = g.rendezvous.control >> 8;
  switch (g.rendezvous.control & 0xff) {
    case EMU_FLOAT: return reduce_all<float>(e, kind, components, width);
    case EMU_HALF: return reduce_all<_Float16>(e, kind, components, width);
    case EMU_BFLOAT: return reduce_all<__bf16>(e, kind, components, width);
    case EMU_CHAR: return reduce_all<int8_t>(e, kind, components, width);
    case EMU_UCHAR: return reduce_all<uint8_t>(e, kind, components, width);
    case EMU_SHORT: return reduce_all<int16_t>(e, kind, components, width);
    case EMU_USHORT: return reduce_all<uint16_t>(e, kind, components, width);
    case EMU_INT: return reduce_all<int32_t>(e, kind, components, width);
    case EMU_UINT: return reduce_all<uint32_t>(e, kind, components, width);
    case EMU_LONG: return reduce_all<int64_t>(e, kind, components, width);
    default: return reduce_all<uint64_t>(e, kind, components, width);
  }
}

/// Which functions demand one argument for a whole group: all but shuffle.
bool needs_uniform(unsigned kind) { return kind != EMU_SHUFFLE && kind != EMU_BROADCAST_FIRST; }

void check_uniform(const Simdgroup &g, const Exchange &e) {
  const unsigned kind = g.rendezvous.operation & 0xff, width = g.rendezvous.operation & EMU_QUAD ? 4 : 32;
  if (!needs_uniform(kind)) return;
  for (unsigned first = 0; first < lanes_per_simdgroup; first += width) {
    int seen = -1;
    for (unsigned lane = first; lane < first + width; ++lane) {
      if ((e.active >> lane & 1) == 0) continue;
      if (seen >= 0 && e.argument[seen] != e.argument[lane]) {
        fault_at(g.rendezvous.site,
                 format("%s: %s is %u in lane %d and %u in lane %u; it must be the same in all lanes",
                        operation_name(g.rendezvous.operation),
                        kind == EMU_BROADCAST     ? "the lane"
                        : kind == EMU_SHUFFLE_XOR ? "the mask"
                                                  : "delta",
                        e.argument[seen] & 0xffff, seen, e.argument[lane] & 0xffff, lane));
      }
      seen = int(lane);
    }
  }
}

[[noreturn]] void inactive(emu_site at, unsigned operation, unsigned lane, unsigned source) {
  fault_at(at,
           format("%s: lane %u reads lane %u, which %s", operation_name(operation), lane, source,
                  source >= 32 ? "does not exist" : "is not active (it has returned, or the simdgroup is not full)"));
}

}  // namespace

void complete_operation(Simdgroup &g, Exchange &e) {
  switch (Operation(g.rendezvous.operation >> 16)) {
    case Operation::barrier:
      if (g.rendezvous.control & 1) ++g.device_epoch;
      if (g.rendezvous.control & 2) ++g.threadgroup_epoch;
      break;
    case Operation::permute:
    case Operation::fill: check_uniform(g, e); break;
    case Operation::reduce: complete_reduce(g, e); break;
    case Operation::vote: break;
    case Operation::matrix_load:
    case Operation::matrix_store:
    case Operation::matrix_multiply:
      if (e.active != ~0u) {
        fault_at(g.rendezvous.site, format("%s with %u active lanes of 32", operation_name(g.rendezvous.operation),
                                           unsigned(__builtin_popcount(e.active))));
      }
      complete_matrix(g, e);
      break;
  }
}

}  // namespace emu

using namespace emu;

extern "C" {

void emu_simdgroup_barrier(emu_site at, unsigned flags) { gather(arrive(at, Operation::barrier, 0, flags)); }

emu_bits emu_simd_permute(emu_site at, unsigned kind, emu_bits value, unsigned argument) {
  Exchange &e = arrive(at, Operation::permute, kind, 0);
  const unsigned lane = scheduler.lane, width = kind & EMU_QUAD ? 4 : 32, base = lane & ~(width - 1), own = lane - base;
  e.value[lane] = value;
  e.argument[lane] = argument;
  gather(e);
  unsigned source = own;
  switch (kind & 0xff) {
    case EMU_SHUFFLE:
    case EMU_BROADCAST: source = argument; break;
    case EMU_SHUFFLE_XOR: source = own ^ argument; break;
    case EMU_SHUFFLE_UP: source = own >= argument ? own - argument : own; break;
    case EMU_SHUFFLE_DOWN: source = own + argument < width ? own + argument : own; break;
    case EMU_ROTATE_UP: source = (own - argument) & (width - 1); break;
    case EMU_ROTATE_DOWN: source = (own + argument) & (width - 1); break;
    default: {
      const uint32_t group = e.active >> base & (width == 32 ? ~0u : 15u);
      source = __builtin_ctz(group);
    }
  }
  if (__builtin_expect(source >= width || (e.active >> (base + source) & 1) == 0, 0)) {
    inactive(at, unsigned(Operation::permute) << 16 | kind, lane, source >= width ? 32 : base + source);
  }
  return e.value[base + source];
}

emu_bits emu_simd_fill(emu_site at, unsigned kind, emu_bits value, unsigned control, unsigned bytes, emu_bits filling) {
  (void)bytes;
  Exchange &e = arrive(at, Operation::fill, kind, 0);
  const unsigned lane = scheduler.lane, delta = control & 0xffff, modulo = control >> 16,
                 limit = kind & EMU_QUAD ? 4 : 32;
  if (modulo < 2 || modulo > limit || (modulo & (modulo - 1)) != 0) {
    fault_at(at, format("%s: modulo is %u, not a power of two up to %u",
                        operation_name(unsigned(Operation::fill) << 16 | kind), modulo, limit));
  }
  e.value[lane] = value;
  e.second[lane] = filling;
  e.argument[lane] = control;
  gather(e);
  const unsigned base = lane & ~(modulo - 1), own = lane - base;
  const bool up = (kind & 0xff) == EMU_FILL_UP;
  const bool fills = up ? own < delta : own + delta >= modulo;
  const unsigned source = base + ((up ? own - delta : own + delta) & (modulo - 1));
  if ((e.active >> source & 1) == 0) inactive(at, unsigned(Operation::fill) << 16 | kind, lane, source);
  return fills ? e.second[source] : e.value[source];
}

emu_bits emu_simd_reduce(emu_site at, unsigned kind, emu_bits value, unsigned layout) {
  Exchange &e = arrive(at, Operation::reduce, kind, layout);
  e.value[scheduler.lane] = value;
  gather(e);
  return e.second[scheduler.lane];
}

unsigned long emu_simd_vote(emu_site at, unsigned kind, bool value) {
  Exchange &e = arrive(at, Operation::vote, kind, 0);
  const unsigned lane = scheduler.lane, width = kind & EMU_QUAD ? 4 : 32, base = lane & ~(width - 1);
  e.argument[lane] = value;
  gather(e);
  uint32_t yes = 0;
  for (unsigned i = 0; i < lanes_per_simdgroup; ++i) yes |= (e.active >> i & 1 & e.argument[i]) << i;
  const uint32_t group = width == 32 ? ~0u : 15u;
  const uint32_t active = e.active >> base & group;
  yes = yes >> base & group;
  switch (kind & 0xff) {
    case EMU_ALL: return yes == active;
    case EMU_ANY: return yes != 0;
    case EMU_IS_FIRST: return unsigned(__builtin_ctz(active)) == lane - base;
    case EMU_ACTIVE: return active;
    default: return yes;
  }
}

}  // extern "C"
