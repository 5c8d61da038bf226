// Draws the plots of docs/speed.md out of the recorded tables of bench/: `node docs/plots.mjs` writes docs/pictures/plot-*.svg.
// test/docs.test.ts draws them again and compares.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const root = join(import.meta.dirname, "..");
const read = (name) => readFileSync(join(root, "bench", name), "utf8");

/** The cells of the first table under a head that begins with these words, as objects by column. */
export function table(text, head) {
  const lines = text.split("\n");
  const start = lines.findIndex((line) => line.startsWith(head));
  if (start < 0) throw new Error(`no table begins with ${head}`);
  const cells = (line) => line.split("|").slice(1, -1).map((cell) => cell.trim().replaceAll("`", ""));
  const columns = cells(lines[start]);
  const rows = [];
  for (let i = start + 2; lines[i]?.startsWith("|"); i++) rows.push(Object.fromEntries(cells(lines[i]).map((cell, j) => [columns[j], cell])));
  return rows;
}

const style = `  <style>
    text { font: 13px system-ui, sans-serif; fill: #3c3c43 } .s { fill: #67676c }
    .one { fill: #3d8b45 } .two { fill: #8fbf94 } .three { fill: #b9bcc9 } .l { stroke: #8a8a94; stroke-width: 1; fill: none }
    @media (prefers-color-scheme: dark) {
      text { fill: #dfdfd6 } .s { fill: #a5a5ad } .one { fill: #5fae67 } .two { fill: #3f6b44 } .three { fill: #55576a }
    }
  </style>`;

const escape = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");

/** Groups of bars under each other, each group under its label; every bar with its number behind it. */
function bars({ label, most, mark, unit, key, groups }) {
  const width = 360; // of the longest bar
  const shown = [];
  let y = 18;
  for (const [i, name] of key.entries()) {
    shown.push(`  <rect class="${["one", "two", "three"][i]}" x="4" y="${y - 10}" width="12" height="12"/><text class="s" x="22" y="${y}">${escape(name)}</text>`);
    y += 20;
  }
  const top = y;
  for (const { name, values } of groups) {
    y += 16;
    shown.push(`  <text x="4" y="${y}">${escape(name)}</text>`);
    y += 6;
    for (const [i, value] of values.entries()) {
      if (value === null) continue;
      const length = Math.round((width * value) / most);
      shown.push(`  <rect class="${["one", "two", "three"][i]}" x="4" y="${y}" width="${length}" height="14"/><text class="s" x="${length + 9}" y="${y + 12}">${value}${unit}</text>`);
      y += 16;
    }
    y += 4;
  }
  if (mark !== undefined) {
    const x = 4 + Math.round((width * mark) / most);
    shown.unshift(`  <path class="l" d="M${x} ${top}V${y}"/>`);
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 440 ${y + 8}" role="img" aria-label="${escape(label)}">\n${style}\n${shown.join("\n")}\n</svg>\n`;
}

function againstGgml() {
  const rows = table(read("RESULTS.md"), "| work | ours | at best |");
  const ratio = (cell) => (/^[\d.]+$/.test(cell) ? Number(cell) : null);
  const groups = rows.map((row) => ({ name: row.work, values: [ratio(row["chain ÷ ours"]), ratio(row["op ÷ ours"]), ratio(row["in place ÷ ours"])] }));
  return bars({
    label: "How many times as long ggml takes: llama.cpp's graph, ggml's operation alone, LocalAI's in-place operation",
    most: Math.max(...groups.flatMap(({ values }) => values)),
    mark: 1,
    unit: " ×",
    key: ["llama.cpp's graph around the operation", "ggml's operation alone", "LocalAI's in-place operation"],
    groups,
  });
}

/** What the rows of the benchmark are called here, in this order; each is shown for f32 and bf16 where both were measured. */
const ofLimit = [
  ["B1/T1/Hv32/t1/cold", "gatedDelta", "decode, 1 sequence: bandwidth"],
  ["B8/T1/Hv32/t1/cold", "gatedDelta", "decode, 8 sequences: bandwidth"],
  ["B1/T1/Hv32/t1/cold", "gatedDeltaStep", "fused step, 1 sequence: bandwidth"],
  ["B8/T1/Hv32/t1/cold", "gatedDeltaStep", "fused step, 8 sequences: bandwidth"],
  ["B1/T512/Hv32/t1/hot", "gatedDelta", "prefill, 512 tokens: multiply-adds"],
  ["B1/T2048/Hv32/t1/hot", "gatedDelta", "prefill, 2048 tokens: multiply-adds"],
  ["B1/T512/Hv32/t1/cold", "causalConv1d", "convolution, 512 tokens: bandwidth"],
  ["B1/T512/Hv32/t1/cold", "gatedRmsNorm", "gated norm, 512 tokens: bandwidth"],
  ["B1/T1/Hv32/t1/cold", "linear", "projection of one row: bandwidth"],
];

function shareOfLimit() {
  const rows = new Map(table(read("RESULTS.md"), "| benchmark | µs |").map((row) => [row.benchmark, Number.parseInt(row["of limit"], 10)]));
  const groups = ofLimit.map(([shape, op, name]) => {
    const values = ["f32", "bf16"].map((dtype) => rows.get(`${op}/${dtype}/${shape}`) ?? null);
    if (values[0] === null) throw new Error(`bench/RESULTS.md has no ${op}/f32/${shape}`);
    return { name, values };
  });
  return bars({ label: "The share of the machine's limit that each operation reaches on one thread", most: 100, mark: 100, unit: " %", key: ["f32", "bf16"], groups });
}

const onGpu = [
  ["decode/B1", "decode, 1 sequence"],
  ["decode/B8", "decode, 8 sequences"],
  ["decode/B64", "decode, 64 sequences"],
  ["step/B1", "fused step, 1 sequence"],
  ["step/B8", "fused step, 8 sequences"],
  ["step/B64", "fused step, 64 sequences"],
  ["conv/B1/T2048", "convolution, 2048 tokens"],
  ["norm/T2048", "gated norm, 2048 tokens"],
  ["project/f32/R1", "projection of one row, f32"],
  ["project/bf16/R1", "projection of one row, bf16"],
  ["project/q4/R1", "projection of one row, 4 bits"],
];

function shareOfCopy() {
  const rows = new Map(table(read("gpu.md"), "| case | µs |").map((row) => [row.case, Number.parseFloat(row["share of copy"])]));
  const groups = onGpu.map(([key, name]) => {
    const value = rows.get(key);
    if (value === undefined) throw new Error(`bench/gpu.md has no ${key}`);
    return { name, values: [value] };
  });
  return bars({ label: "The share of a copy of as many bytes that each Metal kernel reaches on an NVIDIA H200", most: 101, mark: 100, unit: " %", key: ["share of a copy of as many bytes"], groups });
}

/** Every plot, by the name of its file. */
export function plots() {
  return { "plot-ggml.svg": againstGgml(), "plot-limit.svg": shareOfLimit(), "plot-gpu.svg": shareOfCopy() };
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  for (const [name, svg] of Object.entries(plots())) writeFileSync(join(root, "docs", "pictures", name), svg);
}
