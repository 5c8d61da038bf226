/** Expectations of results: near a float64 reference, or equal to the bit. */
import { round } from "../reference/rounding.ts";
import type { Format } from "../reference/rounding.ts";
import { relRms } from "../../lib/cli/verify/compare.ts";
import { firstDifference } from "./difference.ts";

/** The worst error of each subject as a share of its bound. */
const worst = new Map<string, number>();

/** Fails unless numbers are within a bound of the reference, in relRms. */
export function expectNear(
  subject: string,
  numbers: ArrayLike<number>,
  reference: ArrayLike<number>,
  bound: number,
): void {
  const error = relRms(numbers, reference);
  worst.set(subject, Math.max(worst.get(subject) ?? 0, error / bound));
  if (!(error <= bound)) throw new Error(`${subject}: relRms ${error}, allowed ${bound}`);
}

/** Fails unless two results have the same bits. */
export function expectSameBits(subject: string, numbers: Float32Array, same: Float32Array): void {
  const at = firstDifference(numbers, same);
  if (at === undefined) return;
  const i = Math.floor(at / 4);
  const [got, wanted] = [numbers, same].map(
    (array) => `${Object.is(array[i], -0) ? "-0" : array[i]} of ${array.length}`,
  );
  throw new Error(`${subject}[${i}]: got ${got}, expected the bits of ${wanted}`);
}

/** Fails unless a narrow result equals the float32 one with each number rounded once. */
export function expectRounded(subject: string, format: Format, narrow: Float32Array, wide: Float32Array): void {
  const expected = new Float32Array(wide.length);
  for (let i = 0; i < wide.length; i++) expected[i] = round(format, wide[i]!);
  expectSameBits(`${subject} in ${format}`, narrow, expected);
}

/** Prints how close to their bounds the results have come since the last report, if GATED_DELTA_TEST_ERRORS is 1. */
export function reportErrors(): void {
  const subjects = [...worst].sort();
  worst.clear();
  if (process.env["GATED_DELTA_TEST_ERRORS"] !== "1") return;
  for (const [subject, ratio] of subjects) console.log(`${subject}: worst error ${ratio.toFixed(3)} of its bound`);
}
