/**
 * The element types of the safetensors format: their sizes and their conversions to numbers. Data is little-endian, like
 * every machine that Bun runs on.
 */
import { decodeBf16 } from "../tensor/dtype.ts";
import type { FloatDType } from "../tensor/dtype.ts";

/** An element type as a safetensors header spells it. */
export type SafetensorsDType =
  | "BOOL"
  | "F4"
  | "F6_E2M3"
  | "F6_E3M2"
  | "U8"
  | "I8"
  | "F8_E5M2"
  | "F8_E4M3"
  | "F8_E8M0"
  | "F8_E4M3FNUZ"
  | "F8_E5M2FNUZ"
  | "I16"
  | "U16"
  | "F16"
  | "BF16"
  | "I32"
  | "U32"
  | "F32"
  | "C64"
  | "F64"
  | "I64"
  | "U64";

/** Numbers in the narrower of the two float arrays that holds every value of the dtype (except 64-bit integers). */
export type FloatArray = Float32Array<ArrayBuffer> | Float64Array<ArrayBuffer>;

interface ElementType {
  readonly bits: 4 | 6 | 8 | 16 | 32 | 64;
  /** Elements as numbers; `bytes` must begin at offset 0 of its buffer. Absent if the format does not define the packing. */
  readonly decode?: (bytes: Uint8Array<ArrayBuffer>) => FloatArray;
}

/** Each value of an 8-bit float, computed once and then looked up. */
function minifloat(exponentBits: number, bias: number, special: (bits: number) => number | undefined): Float32Array {
  const mantissaBits = 7 - exponentBits;
  return Float32Array.from({ length: 256 }, (_, bits) => {
    const known = special(bits);
    if (known !== undefined) return known;
    const sign = bits & 0x80 ? -1 : 1;
    const exponent = (bits & 0x7f) >> mantissaBits;
    const fraction = (bits & ((1 << mantissaBits) - 1)) / (1 << mantissaBits);
    return sign * (exponent === 0 ? fraction * 2 ** (1 - bias) : (1 + fraction) * 2 ** (exponent - bias));
  });
}

/** OCP's E4M3 has no infinities: only all ones is NaN. */
const e4m3 = minifloat(4, 7, (bits) => ((bits & 0x7f) === 0x7f ? NaN : undefined));
const e5m2 = minifloat(5, 15, (bits) => {
  const magnitude = bits & 0x7f;
  if (magnitude < 0x7c) return undefined;
  return magnitude > 0x7c ? NaN : bits & 0x80 ? -Infinity : Infinity;
});
/** FNUZ: no infinities, no negative zero (its bits are the NaN), and a bias one higher. */
const e4m3fnuz = minifloat(4, 8, (bits) => (bits === 0x80 ? NaN : undefined));
const e5m2fnuz = minifloat(5, 16, (bits) => (bits === 0x80 ? NaN : undefined));
/** Only an exponent: powers of two from 2^-127, which is a subnormal in float32. */
const e8m0 = Float32Array.from({ length: 256 }, (_, bits) => (bits === 0xff ? NaN : 2 ** (bits - 127)));

const table = (values: Float32Array) => (bytes: Uint8Array) => {
  const out = new Float32Array(bytes.length);
  for (let i = 0; i < out.length; i++) out[i] = values[bytes[i]!]!;
  return out;
};

/** Every element type of the format, in the order of its specification. */
export const safetensorsDTypes: { readonly [D in SafetensorsDType]: ElementType } = {
  BOOL: { bits: 8, decode: (bytes) => new Float32Array(bytes) },
  F4: { bits: 4 },
  F6_E2M3: { bits: 6 },
  F6_E3M2: { bits: 6 },
  U8: { bits: 8, decode: (bytes) => new Float32Array(bytes) },
  I8: { bits: 8, decode: (bytes) => new Float32Array(new Int8Array(bytes.buffer)) },
  F8_E5M2: { bits: 8, decode: table(e5m2) },
  F8_E4M3: { bits: 8, decode: table(e4m3) },
  F8_E8M0: { bits: 8, decode: table(e8m0) },
  F8_E4M3FNUZ: { bits: 8, decode: table(e4m3fnuz) },
  F8_E5M2FNUZ: { bits: 8, decode: table(e5m2fnuz) },
  I16: { bits: 16, decode: (bytes) => new Float32Array(new Int16Array(bytes.buffer)) },
  U16: { bits: 16, decode: (bytes) => new Float32Array(new Uint16Array(bytes.buffer)) },
  F16: { bits: 16, decode: (bytes) => new Float32Array(new Float16Array(bytes.buffer)) },
  BF16: { bits: 16, decode: (bytes) => decodeBf16(new Uint16Array(bytes.buffer)) },
  I32: { bits: 32, decode: (bytes) => new Float64Array(new Int32Array(bytes.buffer)) },
  U32: { bits: 32, decode: (bytes) => new Float64Array(new Uint32Array(bytes.buffer)) },
  F32: { bits: 32, decode: (bytes) => new Float32Array(bytes.buffer) },
  C64: { bits: 64 },
  F64: { bits: 64, decode: (bytes) => new Float64Array(bytes.buffer) },
  I64: { bits: 64, decode: (bytes) => Float64Array.from(new BigInt64Array(bytes.buffer), Number) },
  U64: { bits: 64, decode: (bytes) => Float64Array.from(new BigUint64Array(bytes.buffer), Number) },
};

/** Whether a header's text names an element type of the format. */
export function isSafetensorsDType(text: string): text is SafetensorsDType {
  return Object.hasOwn(safetensorsDTypes, text);
}

/**
 * The size of a tensor in bytes, or the reason that it has none: sizes beyond 2^53 are refused even where a later dimension is
 * 0, as in the format's own reader, and elements of 4 or 6 bits must fill whole bytes.
 */
export function tensorBytes(dtype: SafetensorsDType, shape: readonly number[]): number | "overflow" | "partial byte" {
  let elements = 1;
  for (const size of shape) {
    elements *= size;
    if (!Number.isSafeInteger(elements)) return "overflow";
  }
  const bits = elements * safetensorsDTypes[dtype].bits;
  if (!Number.isSafeInteger(bits)) return "overflow";
  return bits % 8 === 0 ? bits / 8 : "partial byte";
}

/** How safetensors spells the dtypes of tensors that the library computes with. */
export const fileDTypes = { f32: "F32", f16: "F16", bf16: "BF16" } as const satisfies Record<FloatDType, SafetensorsDType>;

/** The reverse of {@link fileDTypes}: undefined for a dtype that the library does not compute with. */
export function floatDType(dtype: SafetensorsDType): FloatDType | undefined {
  return dtype === "F32" ? "f32" : dtype === "F16" ? "f16" : dtype === "BF16" ? "bf16" : undefined;
}
