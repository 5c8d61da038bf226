import type { Tensor } from "../tensor/tensor.ts";
import type { Indices } from "./indices.ts";
import { makeOp } from "./op.ts";
import type { Op } from "./op.ts";

/** Arguments of {@link copySlots}. */
export interface CopySlotsArguments {
  /** Read and written in place: `[slots, …]`, f32, f16 or bf16, contiguous. */
  readonly pool: Tensor;
  /** The slot that each copy reads; −1 stands for zeros. */
  readonly readSlots: Indices;
  /** The slot that each copy writes, as many as `readSlots`, each at most once; −1 skips the copy. */
  readonly writeSlots: Indices;
}

/**
 * Copies or zeroes whole slots of a pool, without rounding. Every slot is read as it was before the op:
 *
 * ```math
 * pool_{writeSlots_i} \leftarrow pool_{readSlots_i}
 * ```
 *
 * Zeros are stored, not multiplied, so a NaN in the slot does not survive.
 *
 * @throws {GatedDeltaError} that names the argument: at this call if one is missing, unknown or of the wrong type; when the
 *   op is encoded if shapes, dtypes, memory or index data do not fit. Nothing is written then.
 * @example
 * device.run(copySlots({ pool: state, readSlots: [0, 1], writeSlots: [1, 0] })); // swap
 * @see `s_copy` (llama.cpp, `src/llama-memory-recurrent.cpp`), a gather of recurrent states, here in place
 */
export function copySlots(args: CopySlotsArguments): Op {
  return makeOp("copySlots", args);
}
