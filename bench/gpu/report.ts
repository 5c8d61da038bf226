/** A table of what run.sh left in a folder. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

type Kernel = { readonly name: string; readonly registers: number; readonly spilled: number; readonly threads: number };
type Row = {
  readonly case: string;
  readonly group: string;
  readonly bytes: number;
  readonly microseconds: number;
  readonly error: string;
  readonly kernels: readonly Kernel[];
};

function linesOf(path: string): Record<string, unknown>[] {
  if (!existsSync(path)) return [];
  return readFileSync(path, "utf8")
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

export function report(folder: string): string {
  const lines = linesOf(join(folder, "bench.jsonl"));
  const rows = lines.filter((l) => "case" in l) as unknown as Row[];
  const out = [
    `${String(lines[0]?.["card"])}, CUDA graphs, median of 27.`,
    "",
    "| case | µs | copy of as many bytes, µs | share of copy | registers | spilled bytes |",
    "|---|---|---|---|---|---|",
  ];
  for (const row of rows) {
    if (row.case === "copy") continue;
    const copy = rows.find((r) => r.case === "copy" && r.group === row.group)?.microseconds ?? NaN;
    const column = (key: "registers" | "spilled"): string => row.kernels.map((k) => k[key]).join(", ");
    out.push(
      row.error !== ""
        ? `| ${row.case} | ${row.error} | | | | |`
        : `| ${row.case} | ${row.microseconds.toFixed(2)} | ${copy.toFixed(2)} | ${((100 * copy) / row.microseconds).toFixed(1)} % | ${column("registers")} | ${column("spilled")} |`,
    );
  }
  const records = linesOf(join(folder, "results.jsonl")).filter((l) => "record" in l);
  const kernels = new Set(records.map((l) => String(l["kernel"])));
  const same = records.filter((l) => l["ran"] === true && l["sameBits"] === true).length;
  out.push("", `${same} of ${records.length} dispatches of ${kernels.size} kernels left the emulator's bits.`);
  return out.join("\n");
}
