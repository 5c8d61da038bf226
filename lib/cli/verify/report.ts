/** The rows that `verify` collects for a file, and how they are printed. */

import { encode, toFloat32, type FloatDType } from "../../tensor/dtype.ts";
import { distance, sameBytes } from "./compare.ts";

/** One tensor of one way to run one file: a line of `--json`. A number that is not finite is printed as null. */
export interface Row {
  readonly file: string;
  readonly op: string;
  readonly backend: string;
  readonly way: string;
  readonly tensor: string;
  readonly relRms: number;
  readonly maxAbs: number;
  readonly tolerance: number;
  readonly pass: boolean;
}

/** What every row of a file shares. */
export interface Subject {
  readonly file: string;
  readonly op: string;
  readonly backend: string;
}

/** Largest relRms by what is compared: a float32 result, a chunked one, a layer's, or one rounded to 16 bits. */
export const tolerances = { f32: 2e-6, chunked: 5e-6, layer: 5e-6, bf16: 2e-3, f16: 3e-4, bytes: 0 } as const;

/**
 * Largest relRms of an output that is stored as `dtype`. The bounds of 16-bit dtypes are those of many numbers: of a few,
 * rounding alone may take more. So where the reference itself loses more by being rounded, its own loss counts, with
 * what float32 arithmetic may add.
 */
export function outputTolerance(dtype: FloatDType, reference: ArrayLike<number>): number {
  if (dtype === "f32") return tolerances.f32;
  const loss = distance(toFloat32(dtype, encode(dtype, reference)), reference).relRms;
  return Number.isFinite(loss) ? Math.max(tolerances[dtype], loss + tolerances.f32) : tolerances[dtype];
}

/** How much worse than transformers' own float32 path an output may be. */
export const peerFactor = 1.25;

/** Collects the rows of one file. */
export class Report {
  readonly rows: Row[] = [];
  readonly #subject: Subject;

  constructor(subject: Subject) {
    this.#subject = subject;
  }

  /** Compares numbers with a reference. Nothing passes with a NaN in it. */
  near(way: string, tensor: string, actual: ArrayLike<number>, reference: ArrayLike<number>, tolerance: number): void {
    const { relRms, maxAbs } = distance(actual, reference);
    this.#add(way, tensor, relRms, maxAbs, tolerance, relRms <= tolerance);
  }

  /**
   * Compares bytes. `numbers` turns either side into numbers for the distances that the row shows; the verdict is
   * about the bytes alone, apart from NaN, which never passes.
   */
  equal<A extends ArrayBufferView>(
    way: string,
    tensor: string,
    actual: A,
    expected: A,
    numbers: (array: A) => ArrayLike<number>,
  ): void {
    const { relRms, maxAbs } = distance(numbers(actual), numbers(expected));
    this.#add(way, tensor, relRms, maxAbs, tolerances.bytes, relRms === 0 && sameBytes(actual, expected));
  }

  /** Compares our distance from the reference with that of another implementation. */
  asGoodAs(
    way: string,
    tensor: string,
    actual: ArrayLike<number>,
    peer: ArrayLike<number>,
    reference: ArrayLike<number>,
  ): void {
    const { relRms, maxAbs } = distance(actual, reference);
    const tolerance = peerFactor * distance(peer, reference).relRms;
    this.#add(way, tensor, relRms, maxAbs, tolerance, relRms <= tolerance);
  }

  #add(way: string, tensor: string, relRms: number, maxAbs: number, tolerance: number, pass: boolean): void {
    this.rows.push({ ...this.#subject, way, tensor, relRms, maxAbs, tolerance, pass });
  }
}

/** How many failed checks a line names. */
const mostNamed = 3;

/** One line a file: the worst row against its bound, or what failed. */
export function summary(path: string, rows: readonly Row[]): string {
  const ways = new Set(rows.map((row) => row.way)).size;
  const failed = rows.filter((row) => !row.pass);
  if (failed.length > 0) {
    const named = failed.slice(0, mostNamed).map(rowText).join("; ") + (failed.length > mostNamed ? "; …" : "");
    return `FAIL ${path}: ${ways} ways, ${failed.length} of ${rows.length} checks failed: ${named}`;
  }
  const worst = rows.reduce<Row | undefined>((a, b) => (a && !(share(b) > share(a)) ? a : b), undefined);
  return `ok   ${path}: ${ways} ways, ${rows.length} checks${worst ? `; worst ${rowText(worst)}` : ""}`;
}

/** How much of its bound a passing row takes. */
function share({ relRms, tolerance }: Row): number {
  return tolerance > 0 ? relRms / tolerance : 0;
}

function rowText({ tensor, way, relRms, tolerance }: Row): string {
  return `${tensor} (${way}) relRms ${numberText(relRms)}, bound ${numberText(tolerance)}`;
}

function numberText(value: number): string {
  return value === 0 || !Number.isFinite(value) ? String(value) : value.toExponential(1);
}
