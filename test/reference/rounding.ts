/**
 * The rounding of a number that is stored in a narrow format. Written with arithmetic on values, whereas the library works on
 * bits, so that the two are unlikely to share a mistake.
 */
import { map } from "./tensor.ts";
import type { Reference } from "./tensor.ts";

/** The formats that the library stores numbers in. */
export type Format = "f32" | "f16" | "bf16";

const formats: { readonly [F in Format]: { readonly fractionBits: number; readonly least: number; readonly most: number } } = {
  f32: { fractionBits: 23, least: -126, most: 127 },
  f16: { fractionBits: 10, least: -14, most: 15 },
  bf16: { fractionBits: 7, least: -126, most: 127 },
};

/** The powers of two from 2^-200, for formats' exponents and steps: a table, since computing them would take most of the time. */
const powers = Float64Array.from({ length: 400 }, (_, i) => 2 ** (i - 200));
const power = (exponent: number): number => powers[exponent + 200]!;

/** The value nearest to `x` in a format, ties to the even neighbour; infinite if that is out of range. */
export function round(format: Format, x: number): number {
  if (x === 0 || !Number.isFinite(x)) return x;
  const { fractionBits, least, most } = formats[format];
  const magnitude = Math.abs(x);
  let exponent = Math.min(Math.max(Math.floor(Math.log2(magnitude)), least), most);
  // The computed logarithm of a number just below a power of two can be that of the power itself.
  if (exponent > least && power(exponent) > magnitude) exponent--;
  if (exponent < most && power(exponent + 1) <= magnitude) exponent++;
  const step = power(exponent - fractionBits);
  const steps = magnitude / step; // exact: a power of two
  const below = Math.floor(steps);
  const rest = steps - below;
  const whole = rest > 0.5 || (rest === 0.5 && below % 2 === 1) ? below + 1 : below;
  const value = whole * step >= power(most + 1) ? Infinity : whole * step;
  return x < 0 ? -value : value;
}

/** Every number of a tensor {@link round}ed. */
export function rounded(format: Format, tensor: Reference): Reference {
  return map(tensor, (x) => round(format, x));
}
