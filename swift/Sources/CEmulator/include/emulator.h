/* The C interface of a translated shader library.
 *
 * `bun test/emulator/main.ts build SHADERS -o LIBRARY.so` makes a shared library that plays a metallib's part:
 * kernels with their reflection, pipelines (a kernel with its function constants) and dispatches that run on the CPU.
 * It depends on libc only. A host opens it with dlopen(RTLD_NOW | RTLD_LOCAL), looks up the functions below by name and
 * compares emu_interface_version() with EMU_INTERFACE_VERSION first.
 *
 * Nothing here ends the process. An error is a message: a NUL-terminated UTF-8 string that the caller passes to
 * emu_string_free. A kernel's own fault (out of bounds, a race, a divergent barrier, ...) starts with the place:
 * "shaders/x.metal:12: ...".
 *
 * Any function may be called from any thread. Dispatches of one library run one at a time (a lock inside).
 */
#ifndef GATED_DELTA_EMULATOR_H
#define GATED_DELTA_EMULATOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EMU_INTERFACE_VERSION 3u

/** One function constant's value, by index or by name, as MTLFunctionConstantValues holds them. */
typedef struct emu_constant {
  const char *name;  /**< NULL: `index` says which. */
  uint32_t index;    /**< The number in [[function_constant(n)]]; ignored where `name` is set. */
  uint32_t bytes;    /**< The size of what `value` points at: exactly the type's. */
  const char *type;  /**< MSL's name of the type given: "bool", "short", "uint", "float", "uint2", ...; must be the declared one. */
  const void *value; /**< Copied. */
} emu_constant;

/** A buffer bound for one dispatch. A kernel may touch `pointer + offset` up to `pointer + bytes`, nothing else. */
typedef struct emu_buffer {
  void *pointer;   /**< The buffer's first byte. */
  uint64_t bytes;  /**< The buffer's length, counted from `pointer`. */
  uint64_t offset; /**< Where the argument starts. */
  uint32_t index;  /**< The number in [[buffer(n)]]. */
  uint32_t flags;  /**< EMU_BUFFER_* */
} emu_buffer;

/** A kernel's write is a fault (memory that setBytes copied, or a host buffer that must stay as it is). */
#define EMU_BUFFER_READ_ONLY 1u
/** Another dispatch of the same `together` may write this memory: reads of it are remembered, too. */
#define EMU_BUFFER_SHARED 2u

/** The order in which a simdgroup's lanes, the simdgroups and the threadgroups run between two synchronisations. */
enum {
  EMU_ORDER_ENVIRONMENT = 0, /**< GATED_DELTA_EMULATOR_ORDER: "forward" (and unset), "reverse", "random:SEED". */
  EMU_ORDER_FORWARD = 1,
  EMU_ORDER_REVERSE = 2,
  EMU_ORDER_RANDOM = 3 /**< By `seed`; equal seeds give equal runs. */
};

/** Optional checks while a kernel runs. Bounds, alignment, barriers and simdgroup convergence are always checked. */
enum {
  EMU_CHECK_RACES = 1u,         /**< Two threads, one location, a write, and no barrier or fence for that memory in between. */
  EMU_CHECK_UNINITIALISED = 2u, /**< A read of threadgroup memory that no thread of this group has written. */
  EMU_CHECK_ALL = 3u,
  EMU_CHECK_ENVIRONMENT = 0x80000000u /**< GATED_DELTA_EMULATOR_CHECKS: "all" (and unset), "none", or names joined by commas: "races,uninitialised". */
};

typedef struct emu_dispatch_info {
  uint32_t size; /**< sizeof(emu_dispatch_info): what the caller was compiled with. */
  uint32_t order;
  uint64_t seed;
  uint32_t checks;
  uint32_t buffer_count;
  const emu_buffer *buffers;
  uint32_t threadgroup_count; /**< Entries of `threadgroup_bytes`. */
  uint32_t reserved;          /**< 0. */
  /** Length in bytes of the memory for [[threadgroup(n)]], at n: a multiple of 16; 0 if none was set. */
  const uint32_t *threadgroup_bytes;
  /** Threads of the whole grid. dispatchThreadgroups: threadgroups times threads; dispatchThreads: as given, so that the
   *  last threadgroup of a dimension may be smaller. */
  uint64_t threads_per_grid[3];
  uint32_t threads_per_threadgroup[3];
  uint32_t reserved_too; /**< 0. */
  /** NULL, or a number that is common to dispatches without a barrier between them: 0 for the first, which writes it. If
   *  one of them accesses memory that another has written, or writes memory that another has read, that is a fault. */
  uint64_t *together;
  /** NULL, or a counter to which the dispatch adds the number of its kernel's memory accesses: a measure of its work, equal in
   *  equal runs. Libraries built with a sanitizer do not count. */
  uint64_t *accesses;
} emu_dispatch_info;

typedef struct emu_pipeline emu_pipeline;

uint32_t emu_interface_version(void);

/** The contents of the library as JSON; the string lives as long as the library. Sizes are in bytes.
 *
 * {"kernels": [{
 *   "name": "gated_delta_decode",             as MTLLibrary.functionNames has it
 *   "file": "shaders/decode.metal", "line": 40,
 *   "buffers": [{"index": 0, "name": "query", "space": "device" | "constant", "const": true, "reference": false,
 *                "type": "float", "bytes": 4, "align": 4,  "optional": "hasBias" | null}],
 *   "threadgroups": [{"index": 0, "name": "tile", "type": "float", "bytes": 4, "align": 4}],
 *   "builtins": [{"name": "lane", "attribute": "thread_index_in_simdgroup", "type": "uint"}],
 *   "constants": [{"index": 3, "name": "hasBias", "type": "bool", "bytes": 1, "required": true}],
 *   "staticThreadgroupBytes": 0, "maxTotalThreads": 1024 }]}
 *
 * "bytes" of a buffer is its element's (pointer) or its referent's (reference); "optional" names the function constant
 * that must be true for the argument to exist; "constants" are those that the kernel's code can reach, "required" those
 * that it never passes to is_function_constant_defined. */
const char *emu_reflection(void);

/** The flattened text from which the kernels were translated, without trailing white space: Apple's compiler would get the same. */
const char *emu_source(void);

/** A kernel with its constants. NULL and `*error` (if error is not NULL) when there is no such kernel, a required constant is
 *  missing, or one has the wrong type or size. Values for constants that the kernel does not use are ignored. */
emu_pipeline *emu_pipeline_create(const char *kernel, const emu_constant *constants, size_t count, char **error);
void emu_pipeline_destroy(emu_pipeline *pipeline);

/** The value in the reflection: the attribute [[max_total_threads_per_threadgroup(n)]], or 1024. */
uint32_t emu_pipeline_max_total_threads(const emu_pipeline *pipeline);
uint32_t emu_pipeline_static_threadgroup_bytes(const emu_pipeline *pipeline);
/** 1 if the argument [[buffer(index)]] exists under this pipeline's constants, else 0. */
uint32_t emu_pipeline_uses_buffer(const emu_pipeline *pipeline, uint32_t index);
/** 1 if that argument is declared `device` without const, so that the kernel may write it, else 0. */
uint32_t emu_pipeline_writes_buffer(const emu_pipeline *pipeline, uint32_t index);

/** Runs the whole grid and returns when it is done: NULL, or the message of the first fault. After a fault the contents of
 *  writable buffers are undefined, as on a GPU. Checks: every buffer argument bound, offsets inside and aligned, no overlap of
 *  two arguments where one is written, threads and threadgroup memory within the limits. */
char *emu_dispatch(const emu_pipeline *pipeline, const emu_dispatch_info *dispatch);

void emu_string_free(char *string);

#ifdef __cplusplus
}
#endif
#endif
