/** The page bench/gpu.md, from the files that run.sh left in a folder: every number in it comes from that run. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { targets } from "./targets.ts";

type Kernel = { readonly name: string; readonly registers: number; readonly spilled: number; readonly threads: number };
type Row = {
  readonly case: string;
  readonly group: string;
  readonly bytes: number;
  readonly microseconds: number;
  readonly error: string;
  readonly kernels: readonly Kernel[];
};

/** The time of a case, and that of a copy of as many bytes next to it. */
export type Timed = { readonly microseconds: number; readonly copy: number };

function linesOf(path: string): Record<string, unknown>[] {
  if (!existsSync(path)) return [];
  return readFileSync(path, "utf8")
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

const table = (heads: readonly string[], rows: readonly (readonly string[])[]): string[] => [
  `| ${heads.join(" | ")} |`,
  `|${heads.map(() => "---").join("|")}|`,
  ...rows.map((cells) => `| ${cells.join(" | ")} |`),
];

function caseTable(rows: readonly Row[], copyOf: (row: Row) => number): string[] {
  return table(
    ["case", "µs", "copy of as many bytes, µs", "share of copy", "registers", "spilled bytes"],
    rows
      .filter((row) => row.case !== "copy")
      .map((row) => {
        if (row.error !== "") return [row.case, row.error, "", "", "", ""];
        const copy = copyOf(row);
        const column = (key: "registers" | "spilled"): string => row.kernels.map((k) => k[key]).join(", ");
        return [
          row.case,
          row.microseconds.toFixed(2),
          copy.toFixed(2),
          `${((100 * copy) / row.microseconds).toFixed(1)} %`,
          column("registers"),
          column("spilled"),
        ];
      }),
  );
}

export function report(folder: string): string {
  const lines = linesOf(join(folder, "bench.jsonl"));
  const rows = lines.filter((l) => "case" in l) as unknown as Row[];
  const copyOf = (row: Row): number => rows.find((r) => r.case === "copy" && r.group === row.group)?.microseconds ?? NaN;
  const timed = new Map(rows.filter((r) => r.error === "").map((r) => [r.case, { microseconds: r.microseconds, copy: copyOf(r) }]));
  const records = linesOf(join(folder, "results.jsonl")).filter((l) => "record" in l);
  const kernels = new Set(records.map((l) => String(l["kernel"])));
  const same = records.filter((l) => l["ran"] === true && l["sameBits"] === true).length;
  const text = (name: string): string => readFileSync(join(import.meta.dirname, name), "utf8").trim();
  return [
    "# The Metal kernels on an NVIDIA GPU",
    "",
    text("about.md"),
    "",
    `${String(lines[0]?.["card"])}, CUDA graphs, median of 27.`,
    "",
    ...caseTable(rows, copyOf),
    "",
    records.length === 0
      ? "This run was of times alone; dispatches that were compared with the emulator's, to the bit, are in `test/receipts/nvidia-h200.json`."
      : `${same} of ${records.length} dispatches of ${kernels.size} kernels gave the emulator's bits in this run: \`test/receipts/nvidia-h200.json\`.`,
    "",
    text("peers.md"),
    "",
    "## Targets",
    "",
    ...table(["", "at 694227e", "target", "now", ""], targets(timed)),
    "",
    text("tried.md"),
    ...host(),
  ].join("\n");
}

/** The section of the page that is not about the card stays as it is. */
function host(): string[] {
  const page = join(import.meta.dirname, "..", "gpu.md");
  const section = existsSync(page) ? /^## Host\n[^]*?(?=^## |$(?![^]))/m.exec(readFileSync(page, "utf8")) : null;
  return section === null ? [] : ["", section[0].trim()];
}
