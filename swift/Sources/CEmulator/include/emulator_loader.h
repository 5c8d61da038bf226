/* Loads a translated shader library (see emulator.h) and looks its functions up once. */
#ifndef GATED_DELTA_EMULATOR_LOADER_H
#define GATED_DELTA_EMULATOR_LOADER_H

#include "emulator.h"
#include "emulator_work.h"

typedef struct emulator_functions {
  __typeof__(&emu_reflection) reflection;
  __typeof__(&emu_source) source;
  __typeof__(&emu_pipeline_create) pipeline_create;
  __typeof__(&emu_pipeline_destroy) pipeline_destroy;
  __typeof__(&emu_pipeline_max_total_threads) max_total_threads;
  __typeof__(&emu_pipeline_static_threadgroup_bytes) static_threadgroup_bytes;
  __typeof__(&emu_pipeline_uses_buffer) uses_buffer;
  __typeof__(&emu_pipeline_writes_buffer) writes_buffer;
  __typeof__(&emu_dispatch) dispatch;
  __typeof__(&emu_string_free) string_free;
} emulator_functions;

/* NULL, or why the library at path cannot be used; the words are valid until this thread's next call. The library is
 * never closed: pipelines and their code live as long as the process. */
const char *emulator_load(const char *path, emulator_functions *functions);

#endif
