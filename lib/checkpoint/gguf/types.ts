/**
 * The types of tensors in GGUF files, by their numbers in ggml's `enum ggml_type`. Types that the library does not compute with
 * are listed only for messages.
 */
import type { WeightFormat } from "../../native/options.ts";
import { weightLayouts } from "../../native/weight-formats.ts";
import type { SafetensorsDType } from "../dtypes.ts";

/** A type that can be read. */
export interface GgmlType {
  /** The type's name as ggml prints it, in upper case. */
  readonly name: string;
  /** Elements of a block: a row is whole blocks. */
  readonly elements: number;
  /** Bytes of a block. */
  readonly bytes: number;
  /** How tensors of the type are stored: as floats, or as rows of bytes in the weight format of this name. */
  readonly stored: { readonly dtype: SafetensorsDType } | { readonly weightFormat: WeightFormat };
}

const floats = (name: "F32" | "F16" | "BF16", bytes: number): GgmlType => ({ name, elements: 1, bytes, stored: { dtype: name } });

/** Block types are ggml's weight formats, whose `bits` are the type's number. */
const blocks = (Object.keys(weightLayouts) as WeightFormat[]).flatMap((weightFormat): [number, GgmlType][] => {
  const { family, bits, elements, bytes } = weightLayouts[weightFormat];
  if (family !== "ggml") return [];
  return [[bits!, { name: weightFormat.replace("gguf-", "").toUpperCase(), elements, bytes, stored: { weightFormat } }]];
});

/** The types that can be read, by number. */
export const ggmlTypes: ReadonlyMap<number, GgmlType> = new Map([[0, floats("F32", 4)], [1, floats("F16", 2)], [30, floats("BF16", 2)], ...blocks]);

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
  41: "Q1_0",
  42: "Q2_0",
};

/** A type's name, for messages. */
export function typeName(type: number): string {
  return ggmlTypes.get(type)?.name ?? others[type] ?? `type ${type}`;
}

/** The types that can be read, for messages. */
export const readableTypes = [...ggmlTypes.values()].map(({ name }) => name).join(", ");
