#include "emulator_loader.h"

#include <dlfcn.h>
#include <stdio.h>

static _Thread_local char problem[1024];

static const char *describe(const char *path, const char *what) {
  snprintf(problem, sizeof problem, "%s: %s", path, what != NULL ? what : "unknown error");
  return problem;
}

const char *emulator_load(const char *path, emulator_functions *functions) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return describe(path, dlerror());

  __typeof__(&emu_interface_version) version =
      (__typeof__(&emu_interface_version))dlsym(library, "emu_interface_version");
  if (version == NULL) return describe(path, "not a translated shader library");
  if (version() != EMU_INTERFACE_VERSION) return describe(path, "made by another version of the translator: build it anew");

#define LOOK_UP(field, name)                                                 \
  functions->field = (__typeof__(functions->field))dlsym(library, name);     \
  if (functions->field == NULL) return describe(path, "lacks the function " name)
  LOOK_UP(reflection, "emu_reflection");
  LOOK_UP(source, "emu_source");
  LOOK_UP(pipeline_create, "emu_pipeline_create");
  LOOK_UP(pipeline_destroy, "emu_pipeline_destroy");
  LOOK_UP(max_total_threads, "emu_pipeline_max_total_threads");
  LOOK_UP(static_threadgroup_bytes, "emu_pipeline_static_threadgroup_bytes");
  LOOK_UP(uses_buffer, "emu_pipeline_uses_buffer");
  LOOK_UP(writes_buffer, "emu_pipeline_writes_buffer");
  LOOK_UP(dispatch, "emu_dispatch");
  LOOK_UP(string_free, "emu_string_free");
#undef LOOK_UP
  return NULL;
}
