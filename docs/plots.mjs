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
    .one { fill: #3d8b45 } .two { fill: #8fbf94 } .three { fill: #b9bcc9 }
    .l { stroke: #d4d4da; stroke-width: 1; fill: none } .m { stroke: #5a5a66; stroke-width: 1.5; fill: none }
    @media (prefers-color-scheme: dark) {
      text { fill: #dfdfd6 } .s { fill: #a5a5ad } .one { fill: #5fae67 } .two { fill: #3f6b44 } .three { fill: #55576a }
      .l { stroke: #3c3f44 } .m { stroke: #b8b8c0 }
    }
  </style>`;

const classes = ["one", "two", "three"];

const escape = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");

/** Of the drawing: its width, and where bars begin, how long the longest is, and where their numbers stand. */
const drawing = { width: 440, left: 4, bar: 360, numbers: 434 };

/**
 * Groups of bars under each other, each group under its label, with an axis from 0 to `most` below them all. The axis' lines run
 * along the bars alone, and numbers stand in a column behind its end, so that no line crosses any text. `mark` is the value that the
 * others are compared with.
 */
function bars({ label, most, ticks, mark, unit, key, groups }) {
  const { width, left, bar, numbers } = drawing;
  const at = (value) => left + Math.round((bar * value) / most);
  const shown = [];
  let y = 18;
  for (const [i, name] of key.entries()) {
    shown.push(`  <rect class="${classes[i]}" x="${left}" y="${y - 10}" width="12" height="12"/><text class="s" x="${left + 18}" y="${y}">${escape(name)}</text>`);
    y += 20;
  }
  /** The axis' lines, or (`kind` "m") the one of what is compared with, which is seen on bars too. */
  const lines = (from, to, kind) => {
    for (const tick of ticks) if ((tick === mark) === (kind === "m")) shown.push(`  <path class="${kind}" d="M${at(tick)} ${from}V${to}"/>`);
  };
  for (const { name, values } of groups) {
    y += 16;
    shown.push(`  <text x="${left}" y="${y}">${escape(name)}</text>`);
    y += 6;
    const there = values.map((value, i) => ({ value, i })).filter(({ value }) => value !== null);
    const from = y;
    lines(from, from + 16 * there.length, "l");
    for (const { value, i } of there) {
      shown.push(`  <rect class="${classes[i]}" x="${left}" y="${y + 1}" width="${at(value) - left}" height="14"/><text class="s" x="${numbers}" y="${y + 12}" text-anchor="end">${value}${unit}</text>`);
      y += 16;
    }
    lines(from, y, "m");
    y += 4;
  }
  y += 4;
  for (const kind of ["l", "m"]) lines(y, y + 6, kind);
  shown.push(`  <path class="l" d="M${left} ${y}H${left + bar}"/>`);
  for (const tick of ticks) shown.push(`  <text class="s" x="${at(tick)}" y="${y + 20}" text-anchor="${tick === 0 ? "start" : "middle"}">${tick === 0 ? "0" : `${tick}${unit}`}</text>`);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${y + 28}" role="img" aria-label="${escape(label)}">\n${style}\n${shown.join("\n")}\n</svg>\n`;
}

function againstGgml() {
  const rows = table(read("RESULTS.md"), "| work | ours | graph |");
  const groups = rows.map((row) => ({ name: row.work, values: [Number(row["graph ÷ ours"]), Number(row["op ÷ ours"])] }));
  return bars({
    label: "How many times as long ggml takes: llama.cpp's graph, ggml's operation alone",
    most: Math.max(...groups.flatMap(({ values }) => values)),
    ticks: [1, 5, 10, 15, 20],
    mark: 1,
    unit: " ×",
    key: ["llama.cpp's graph around the operation", "ggml's operation alone"],
    groups,
  });
}

const percent = [0, 25, 50, 75, 100];

/** The labels of the benchmark's rows, in this order; each is shown for f32 and bf16 where both were measured. */
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
  return bars({ label: "The share of the machine's limit that each operation reaches on one thread", most: 100, ticks: percent, mark: 100, unit: " %", key: ["f32", "bf16"], groups });
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
  return bars({ label: "The share of a copy of as many bytes that each Metal kernel reaches on an NVIDIA H200", most: 100, ticks: percent, mark: 100, unit: " %", key: ["share of a copy of as many bytes"], groups });
}

/** Every plot, by the name of its file. */
export function plots() {
  return { "plot-ggml.svg": againstGgml(), "plot-limit.svg": shareOfLimit(), "plot-gpu.svg": shareOfCopy() };
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  for (const [name, svg] of Object.entries(plots())) writeFileSync(join(root, "docs", "pictures", name), svg);
}
