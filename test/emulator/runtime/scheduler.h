// One threadgroup at a time: its lanes on stacks of their own, run one after the other until each waits or returns.
//
// Between two synchronisations, lanes run in the requested order: forward, reverse, or random by seed. A lane
// that does not wait never costs a switch: the next lane starts on the same stack.
#pragma once
#include <cstdint>

#include "../shim/calls.h"
#include "../shim/kernel_info.h"
#include "fiber.h"

namespace emu {

constexpr unsigned lanes_per_simdgroup = 32;
constexpr unsigned max_threads = 1024;

/// The call for which a simdgroup's lanes gather, and the values of each.
struct Rendezvous {
  emu_site site;
  unsigned operation;  // Operation << 16 | kind
  unsigned control;    // the first lane's layout, types or flags, which must be the same for all
};

enum class Operation : unsigned {
  barrier = 1,
  permute,
  fill,
  reduce,
  vote,
  matrix_load,
  matrix_store,
  matrix_multiply
};

/// The values that lanes exchange. Two sets in turn: a lane may be at the next operation while others still read the last one's.
struct Exchange {
  emu_bits value[lanes_per_simdgroup], second[lanes_per_simdgroup];
  uint32_t argument[lanes_per_simdgroup];
  uint32_t active;
};

struct Simdgroup {
  unsigned first;  // index in the threadgroup of its lane 0
  unsigned number;
  uint32_t present, live, fresh, runnable, waiting, blocked;
  Rendezvous rendezvous;
  unsigned turn;  // which exchange the gathering operation uses
  uint32_t device_epoch, threadgroup_epoch;
  Exchange exchange[2];
};

struct Lane {
  void *context;
  Stack stack;
  emu_lane info;
};

enum class Order : unsigned { forward = 1, reverse = 2, random = 3 };

struct Scheduler {
  Simdgroup *simdgroup;  // of the running lane
  unsigned lane;         // its index in the simdgroup
  unsigned thread;       // its index in the threadgroup
  bool running;          // a kernel is on one of our stacks
  Order order;
  uint64_t random;
  unsigned threads, simdgroups, live, blocked;
  uint32_t runnable_simdgroups;
  emu_site barrier_site;
  unsigned barrier_flags, barrier_thread;
  void *host;  // the dispatcher's context
  void (*entry)(const emu_lane &);
  Simdgroup simdgroup_list[max_threads / lanes_per_simdgroup];
  Lane lanes[max_threads];
};

extern Scheduler scheduler;

/// Runs a threadgroup of `threads` lanes, whose `info` is filled in. False if a fault ended it.
bool run_threadgroup(unsigned threads, void (*entry)(const emu_lane &));

/// Runs a function where faults are caught. False if one ended it.
bool run_guarded(void (*function)());

/// A lane arrives at an operation of its simdgroup; returns the exchange in which to leave its part.
Exchange &arrive(emu_site site, Operation operation, unsigned kind, unsigned control);
/// After leaving its part: waits for the others. Afterwards the exchange holds everyone's.
void gather(Exchange &exchange);

/// All of `simdgroup`'s live lanes have arrived: the part of the operation that is computed once for all.
void complete_operation(Simdgroup &simdgroup, Exchange &exchange);

uint64_t next_random();
const char *operation_name(unsigned operation);

}  // namespace emu
