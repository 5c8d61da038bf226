/**
 * Recognises quantised modules by their tensors. MLX's have `weight` in u32 words and `scales` for each group: floats, and `biases` like
 * them, in affine modules; bytes in micro-scaled ones. GGUF's have rows of blocks, whose format the file states. Any other module without
 * `scales` is not quantised, regardless of the configuration.
 */

import { DTypeError, FileError, UnsupportedError } from "../errors.ts";
import { floatDType } from "./dtypes.ts";
import type { TensorInfo } from "./header.ts";
import { nameIn, placeIn } from "./source.ts";
import type { TensorSource } from "./source.ts";
import { storedMatrix, type StoredMatrix } from "./matrix.ts";
import { bitsOf, formOf, groupsOf, supportedWeights, type Quantization } from "./quantization.ts";

/**
 * How a module's weight `[rows, columns]` is stored, or undefined for a module that is not quantised.
 *
 * @param rows one dimension, or several: those of experts, and the rows of each.
 * @param configured the configuration of the module.
 * @throws {UnsupportedError} for tensors of another scheme; {@link FileError} for shapes that do not fit each other, the
 * weight or the configuration; {@link DTypeError} for scales that are not floats or not of the biases' dtype.
 */
export function quantizedShapes(
  source: TensorSource,
  module: string,
  rows: readonly number[],
  columns: number,
  configured: Partial<Quantization>,
  op: string,
): StoredMatrix | undefined {
  const [weightName, scalesName, biasesName] = [`${module}.weight`, `${module}.scales`, `${module}.biases`] as const;
  if (!source.has(weightName)) {
    // GPTQ and AWQ also have scales, but different names for the packed weights.
    const packed = [".qweight", ".weight_packed", ".weight_q"].map((end) => module + end).find((name) => source.has(name));
    if (packed !== undefined) throw foreign(packed, "weights of another scheme, as GPTQ and AWQ have");
  }
  if (source.has(weightName) && source.info(weightName).weightFormat !== undefined) return blockMatrix(source, weightName, rows, columns, op);
  if (!source.has(scalesName)) {
    if (source.has(weightName) && source.info(weightName).dtype === "U32") throw foreign(weightName, "U32 words without scales");
    return undefined;
  }
  const weight = source.info(weightName);
  const scales = source.info(scalesName);
  if (weight.dtype !== "U32") throw foreign(scalesName, `scales with a weight of ${weight.dtype}`);
  const isAffine = source.has(biasesName);
  if (!isAffine && scales.dtype !== "U8") throw foreign(scalesName, `scales of ${scales.dtype} without biases`);
  const words = expectRows(weightName, weight);
  const groups = expectRows(scalesName, scales);
  const bits = (32 * words) / columns;
  const group = columns / groups;
  const [allBits, allGroups] = [bitsOf(isAffine), groupsOf(isAffine)];
  if (!allBits.includes(bits)) {
    throw misfit(weightName, `[${rows.join(", ")}, ${columns} · bits / 32], bits one of ${allBits.join(", ")}`, weight);
  }
  if (!allGroups.includes(group)) {
    throw misfit(scalesName, `[${rows.join(", ")}, ${columns} / group], group one of ${allGroups.join(", ")}`, scales);
  }
  const form = formOf(isAffine, { bits, group });
  if (form === undefined) throw foreign(weightName, `${bits} bits in groups of ${group}, with scales of ${scales.dtype}`);
  const wanted = { bits, group, mode: form.mode, ...configured };
  if (wanted.bits !== bits || wanted.group !== group || wanted.mode !== form.mode) {
    const textOf = (mode: string, one: { readonly bits: number; readonly group: number }) => `${one.bits} bits in groups of ${one.group}${wanted.mode === form.mode ? "" : `, ${mode}`}`;
    throw new FileError(source.path, { op, expected: `${module} of ${textOf(wanted.mode, wanted)}, as the configuration says`, received: textOf(form.mode, { bits, group }) });
  }
  if (!isAffine) return storedMatrix(form.format, rows, columns);
  const biases = source.info(biasesName);
  if (expectRows(biasesName, biases) !== groups) throw misfit(biasesName, `as many columns as ${scalesName}, ${groups}`, biases);
  const dtype = floats(scalesName, scales);
  if (floats(biasesName, biases) !== dtype) {
    throw new DTypeError({ op, argument: placeIn(source, biasesName), expected: `${scales.dtype}, as the scales have`, received: biases.dtype });
  }
  return storedMatrix(form.format, rows, columns, dtype);

  function expectRows(name: string, info: TensorInfo): number {
    const last = info.shape.at(-1);
    if (last !== undefined && info.shape.slice(0, -1).join() === rows.join()) return last;
    throw misfit(name, `[${rows.join(", ")}, …], as the configuration says`, info);
  }

  function floats(name: string, { dtype }: TensorInfo) {
    const own = floatDType(dtype);
    if (own) return own;
    throw new DTypeError({ op, argument: placeIn(source, name), expected: "F32, F16 or BF16", received: dtype });
  }

  function misfit(name: string, expected: string, { shape }: TensorInfo): FileError {
    return new FileError(source.path, { op, expected: `${nameIn(source, name)} of shape ${expected}`, received: `[${shape.join(", ")}]` });
  }

  function foreign(name: string, received: string): UnsupportedError {
    return new UnsupportedError({ op, argument: placeIn(source, name), expected: supportedWeights, received });
  }
}

/** A weight in rows of blocks. */
function blockMatrix(source: TensorSource, name: string, rows: readonly number[], columns: number, op: string): StoredMatrix {
  const { weightFormat, shape } = source.info(name);
  const stored = storedMatrix(weightFormat!, rows, columns);
  if (stored.weight.shape.join() === shape.join()) return stored;
  const expected = `${nameIn(source, name)} of shape [${stored.weight.shape.join(", ")}], bytes of ${weightFormat}, as the configuration says`;
  throw new FileError(source.path, { op, expected, received: `[${shape.join(", ")}]` });
}
