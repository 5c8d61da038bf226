/**
 * The types of tensors in GGUF files, by their numbers in ggml's `enum ggml_type`. A type that the library does not compute with
 * is in the list only for messages.
 */
import type { SafetensorsDType } from "../dtypes.ts";

/** A type that can be read. */
export interface GgmlType {
  /** Its name as ggml prints it, in upper case. */
  readonly name: string;
  /** Elements of a block: a row is whole blocks. */
  readonly elements: number;
  /** Bytes of a block. */
  readonly bytes: number;
  /** How its tensors are stored: as floats, or as rows of bytes in the weight format of this name. */
  readonly stored: { readonly dtype: SafetensorsDType } | { readonly weightFormat: string };
}

const floats = (name: "F32" | "F16" | "BF16", bytes: number): GgmlType => ({ name, elements: 1, bytes, stored: { dtype: name } });

const blocks = (name: string, elements: 32 | 256, bytes: number, weightFormat = name.toLowerCase()): GgmlType => ({
  name,
  elements,
  bytes,
  stored: { weightFormat },
});

/** The types that can be read, by number. */
export const ggmlTypes: ReadonlyMap<number, GgmlType> = new Map([
  [0, floats("F32", 4)],
  [1, floats("F16", 2)],
  [30, floats("BF16", 2)],
  [2, blocks("Q4_0", 32, 18)],
  [3, blocks("Q4_1", 32, 20)],
  [6, blocks("Q5_0", 32, 22)],
  [7, blocks("Q5_1", 32, 24)],
  [8, blocks("Q8_0", 32, 34)],
  [10, blocks("Q2_K", 256, 84)],
  [11, blocks("Q3_K", 256, 110)],
  [12, blocks("Q4_K", 256, 144)],
  [13, blocks("Q5_K", 256, 176)],
  [14, blocks("Q6_K", 256, 210)],
  [20, blocks("IQ4_NL", 32, 18)],
  [23, blocks("IQ4_XS", 256, 136)],
  [39, blocks("MXFP4", 32, 17, "gguf-mxfp4")],
]);

/** The names of the other types that ggml has or had. */
const others: Readonly<Record<number, string>> = {
  4: "Q4_2",
  5: "Q4_3",
  9: "Q8_1",
  15: "Q8_K",
  16: "IQ2_XXS",
  17: "IQ2_XS",
  18: "IQ3_XXS",
  19: "IQ1_S",
  21: "IQ3_S",
  22: "IQ2_S",
  24: "I8",
  25: "I16",
  26: "I32",
  27: "I64",
  28: "F64",
  29: "IQ1_M",
  34: "TQ1_0",
  35: "TQ2_0",
  40: "NVFP4",
};

/** A type's name, for messages. */
export function typeName(type: number): string {
  return ggmlTypes.get(type)?.name ?? others[type] ?? `type ${type}`;
}

/** The types that can be read, for messages. */
export const readableTypes = [...ggmlTypes.values()].map(({ name }) => name).join(", ");
