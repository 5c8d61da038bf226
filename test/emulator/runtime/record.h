// A dispatch in a file, to be run again by the runner (runner.cpp), under a sanitizer for example.
#pragma once
#include <cstdint>

#include "emulator.h"

namespace emu {
/// If GATED_DELTA_EMULATOR_RECORD names a folder: writes the dispatch there before it runs. At most
/// GATED_DELTA_EMULATOR_RECORD_LIMIT of each kernel, if that is set.
void record_dispatch(const emu_pipeline &pipeline, const emu_dispatch_info &dispatch, uint32_t order, uint64_t seed,
                     uint32_t checks);
/// Whether dispatches are recorded without large contents, and not run (GATED_DELTA_EMULATOR_OUTLINES): a benchmark
/// on another machine needs no more than that.
bool outlines();

}  // namespace emu

// The file, little-endian. Texts are a u32 length and bytes; blocks are a u64 length and bytes.
//   "EMUREC02"  text kernel  u32 constants { text name, u32 index, text type, block value }
//   u32 order  u64 seed  u32 checks  u64 grid[3]  u32 threads[3]
//   u32 lengths { u32 bytes }  u32 buffers { u32 index, u32 flags, u64 offset, u32 same, block contents }
//     where `same` is the position of an earlier buffer whose memory this one is (its block is empty), or 0xffffffff
// The runner writes the buffers' contents after the run: "EMUOUT01"  u32 buffers { u32 index, block contents }.
