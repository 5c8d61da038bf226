/** Collects and prints the rows of `verify` for a file. */

import { bitsEqual, maxAbs, relRms } from "./compare.ts";

/** One tensor of one way to run a file: a line of `--json`. Numbers that are not finite are printed as null. */
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

/** The columns that are equal in every row of a file. */
export interface Subject {
  readonly file: string;
  readonly op: string;
  readonly backend: string;
}

/** Collects the rows of one file. */
export class Report {
  readonly rows: Row[] = [];
  readonly #subject: Subject;

  constructor(subject: Subject) {
    this.#subject = subject;
  }

  /** Compares numbers with a reference. Numbers with a NaN never pass. */
  near(way: string, tensor: string, actual: ArrayLike<number>, reference: ArrayLike<number>, tolerance: number): void {
    this.#add(way, tensor, distance(actual, reference), tolerance);
  }

  /**
   * Compares bytes. `numbers` converts either side to numbers for the distances in the row. The verdict depends only on the
   * bytes, except that NaN never passes.
   */
  equal<A extends ArrayBufferView>(
    way: string,
    tensor: string,
    actual: A,
    expected: A,
    numbers: (array: A) => ArrayLike<number>,
  ): void {
    this.#add(way, tensor, distance(numbers(actual), numbers(expected)), 0, bitsEqual(actual, expected));
  }

  /** @param also another condition of passing. */
  #add(way: string, tensor: string, { relRms, maxAbs }: Distance, tolerance: number, also = true): void {
    this.rows.push({ ...this.#subject, way, tensor, relRms, maxAbs, tolerance, pass: relRms <= tolerance && also });
  }
}

/** The two distances in a row. */
type Distance = Pick<Row, "relRms" | "maxAbs">;

function distance(actual: ArrayLike<number>, reference: ArrayLike<number>): Distance {
  return { relRms: relRms(actual, reference), maxAbs: maxAbs(actual, reference) };
}

/** The most failed checks named in a line. */
const mostNamed = 3;

/** One line for a file: the row closest to its bound, or the failed checks. */
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

/** The share of its bound that a passing row takes. */
function share({ relRms, tolerance }: Row): number {
  return tolerance > 0 ? relRms / tolerance : 0;
}

function rowText({ tensor, way, relRms, tolerance }: Row): string {
  return `${tensor} (${way}) relRms ${numberText(relRms)}, bound ${numberText(tolerance)}`;
}

function numberText(value: number): string {
  return value === 0 || !Number.isFinite(value) ? String(value) : value.toExponential(1);
}
