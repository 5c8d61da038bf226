/* Counts the work of Swift's runtime on each thread: heap objects, retains, releases. For the numbers of bench/gpu.md,
 * which separate a host's work for a dispatch from the emulation's own. */
#ifndef GATED_DELTA_EMULATOR_WORK_H
#define GATED_DELTA_EMULATOR_WORK_H

#include <stdint.h>

typedef struct emulator_work {
  uint64_t allocations; /* swift_allocObject: instances, boxes, closures' contexts, arrays' and strings' storage */
  uint64_t retains;
  uint64_t releases;
} emulator_work;

/* Begins to count on every thread, and never ends. 0 if this Swift's runtime has no such hooks. */
int emulator_work_begin(void);

/* The counts of the calling thread since emulator_work_begin, without the work between pause and resume. */
emulator_work emulator_work_now(void);

/* They nest. */
void emulator_work_pause(void);
void emulator_work_resume(void);

#endif
