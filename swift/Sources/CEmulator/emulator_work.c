#include "emulator_work.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Swift's runtime calls its allocation and reference counting through these pointers once the flag is set: the hooks that
 * Apple's Instruments uses (stdlib/public/runtime/HeapObject.cpp). Weak, since they are not part of its interface. */
#define HOOK extern __attribute__((weak))
HOOK _Atomic(bool) _swift_enableSwizzlingOfAllocationAndRefCountingFunctions_forInstrumentsOnly;
HOOK void *(*_swift_allocObject)(const void *, size_t, size_t);
HOOK void *(*_swift_retain)(void *);
HOOK void *(*_swift_retain_n)(void *, uint32_t);
HOOK void (*_swift_release)(void *);
HOOK void (*_swift_release_n)(void *, uint32_t);

static void *(*alloc_object)(const void *, size_t, size_t);
static void *(*retain)(void *);
static void *(*retain_n)(void *, uint32_t);
static void (*release)(void *);
static void (*release_n)(void *, uint32_t);

static _Thread_local emulator_work work;
static _Thread_local uint32_t paused;

static void *counted_alloc_object(const void *type, size_t size, size_t alignment) {
  work.allocations += paused == 0;
  return alloc_object(type, size, alignment);
}

static void *counted_retain(void *object) {
  work.retains += paused == 0;
  return retain(object);
}

static void *counted_retain_n(void *object, uint32_t n) {
  work.retains += paused == 0;
  return retain_n(object, n);
}

static void counted_release(void *object) {
  work.releases += paused == 0;
  release(object);
}

static void counted_release_n(void *object, uint32_t n) {
  work.releases += paused == 0;
  release_n(object, n);
}

int emulator_work_begin(void) {
  static atomic_flag begun = ATOMIC_FLAG_INIT;
  if (&_swift_enableSwizzlingOfAllocationAndRefCountingFunctions_forInstrumentsOnly == NULL || &_swift_allocObject == NULL ||
      &_swift_retain == NULL || &_swift_retain_n == NULL || &_swift_release == NULL || &_swift_release_n == NULL)
    return 0;
  if (atomic_flag_test_and_set(&begun)) return 1;
#define TAKE(name)      \
  name = _swift_##name; \
  _swift_##name = counted_##name;
  alloc_object = _swift_allocObject;
  _swift_allocObject = counted_alloc_object;
  TAKE(retain)
  TAKE(retain_n)
  TAKE(release)
  TAKE(release_n)
#undef TAKE
  atomic_store(&_swift_enableSwizzlingOfAllocationAndRefCountingFunctions_forInstrumentsOnly, true);
  return 1;
}

emulator_work emulator_work_now(void) { return work; }
void emulator_work_pause(void) { paused += 1; }
void emulator_work_resume(void) { paused -= 1; }
