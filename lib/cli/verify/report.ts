/** The rows that `verify` collects for a file, and how they are printed. */

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
  equal<A extends ArrayBufferView>(way: string, tensor: string, actual: A, expected: A, numbers: (a: A) => ArrayLike<number>): void {
    const { relRms, maxAbs } = distance(numbers(actual), numbers(expected));
    this.#add(way, tensor, relRms, maxAbs, tolerances.bytes, relRms === 0 && sameBytes(actual, expected));
  }

  /** Compares our distance from the reference with that of another implementation. */
  asGoodAs(way: string, tensor: string, actual: ArrayLike<number>, peer: ArrayLike<number>, reference: ArrayLike<number>): void {
    const { relRms, maxAbs } = distance(actual, reference);
    const tolerance = peerFactor * distance(peer, reference).relRms;
    this.#add(way, tensor, relRms, maxAbs, tolerance, relRms <= tolerance);
  }

  #add(way: string, tensor: string, relRms: number, maxAbs: number, tolerance: number, pass: boolean): void {
    this.rows.push({ ...this.#subject, way, tensor, relRms, maxAbs, tolerance, pass });
  }
}

/** One line a file: the worst row against its bound, and what failed. */
export function summary(path: string, rows: readonly Row[]): string {
  const failed = rows.filter((row) => !row.pass);
  const ways = new Set(rows.map((row) => row.way)).size;
  const verdict = failed.length === 0 ? "ok  " : "FAIL";
  const shown = worst(failed.length === 0 ? rows.filter((row) => row.tolerance > 0) : failed);
  const detail = shown ? `; ${failed.length === 0 ? "worst" : "first"} ${shown.tensor} (${shown.way}): relRms ${text(shown.relRms)}, bound ${text(shown.tolerance)}` : "";
  const count = failed.length === 0 ? `${rows.length} checks` : `${failed.length} of ${rows.length} checks failed`;
  return `${verdict} ${path}: ${ways} ways, ${count}${detail}`;
}

function worst(rows: readonly Row[]): Row | undefined {
  const share = (row: Row) => (row.tolerance > 0 ? row.relRms / row.tolerance : Infinity);
  return rows.reduce<Row | undefined>((a, b) => (a && !(share(b) > share(a)) ? a : b), undefined);
}

function text(value: number): string {
  return value === 0 ? "0" : Number.isFinite(value) ? value.toExponential(1) : String(value);
}
