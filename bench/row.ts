/** A line of the results, measured now or read from an earlier file. */
import { readFileSync } from "node:fs";

export interface Row {
  readonly name: string;
  /** The median time of a call. */
  readonly us: number;
  readonly usMin: number;
  /** The share of the limit that was reached, in percent; null if there is none. */
  readonly limitPercent: number | null;
  /** The probed limit; null if there was none. */
  readonly limit: string | null;
  readonly rate: number | null;
  readonly unit: "GB/s" | "GFLOP/s" | null;
  readonly heapBytesPerCall?: number;
}

/** The times of an earlier `--json` run, by name. A line that is not a result is an error. */
export function readTimes(path: string): Map<string, number> {
  const times = new Map<string, number>();
  for (const [i, line] of readFileSync(path, "utf8").split("\n").entries()) {
    if (line.trim() === "" || line.startsWith("> ")) continue; // npm prints the command that it runs
    let row: unknown;
    try {
      row = JSON.parse(line);
    } catch {
      row = null;
    }
    if (!isTime(row)) throw new Error(`${path}, line ${i + 1}: not a result of \`npm run bench -- --json\``);
    times.set(row.name, row.us);
  }
  return times;
}

function isTime(value: unknown): value is { name: string; us: number } {
  return (
    typeof value === "object" &&
    value !== null &&
    "name" in value &&
    typeof value.name === "string" &&
    "us" in value &&
    typeof value.us === "number" &&
    value.us > 0
  );
}

const nameWidth = 52;

/** The head of the table. */
export function heading(compared: boolean): string {
  return `${"benchmark".padEnd(nameWidth)} ${"µs".padStart(11)} ${"rate".padStart(15)} ${"of limit".padStart(9)}  ${compared ? "earlier/now  " : ""}limit`;
}

/** A row of the printed table; `earlier` is the time that it is compared with. */
export function text(row: Row, earlier: number | undefined, compared: boolean): string {
  const rate = row.rate === null ? "" : `${row.rate.toFixed(1)} ${row.unit}`;
  const percent = row.limitPercent === null ? "" : `${row.limitPercent.toFixed(0)} %`;
  const ratio = compared ? (earlier === undefined ? "new" : `${(earlier / row.us).toFixed(2)}×`).padEnd(13) : "";
  const heap = row.heapBytesPerCall === undefined ? "" : `heap grew by ${row.heapBytesPerCall.toFixed(2)} bytes a call`;
  return `${row.name.padEnd(nameWidth)} ${timeText(row.us).padStart(11)} ${rate.padStart(15)} ${percent.padStart(9)}  ${ratio}${row.limit ?? heap}`;
}

function timeText(us: number): string {
  return us < 10 ? us.toFixed(3) : us < 1000 ? us.toFixed(1) : us.toFixed(0);
}

/** Rows as a table for a document. */
export function markdown(rows: readonly Row[]): string {
  const lines = rows.map((row) => {
    const rate = row.rate === null ? "" : `${row.rate.toFixed(1)} ${row.unit}`;
    const percent = row.limitPercent === null ? "" : `${row.limitPercent.toFixed(0)} %`;
    return `| \`${row.name}\` | ${timeText(row.us)} | ${timeText(row.usMin)} | ${rate} | ${percent} | ${row.limit ?? ""} |`;
  });
  return `| benchmark | µs | at best | rate | of limit | limit |\n|---|--:|--:|--:|--:|---|\n${lines.join("\n")}\n`;
}
