/** The picture: the share of its limit that each op reaches. */
import { createDocument } from "@mixmark-io/domino";
import * as Plot from "@observablehq/plot";
import type { Row } from "./row.ts";

/** A dot: `gatedDelta/f32/B1/T1/Hv32/t2/cold` is in the line `gatedDelta B1 T1 Hv32`, as f32 on 2 threads, cold. */
interface Dot {
  readonly line: string;
  readonly percent: number;
  readonly dtype: string;
  readonly how: string;
}

function dotsOf({ name, limitPercent }: Row): Dot[] {
  const [what, dtype, sequences, tokens, heads, threads, temperature] = name.split("/");
  if (limitPercent === null || temperature === undefined) return [];
  const count = threads!.slice(1);
  return [
    {
      line: [what, sequences, tokens, heads].join(" "),
      percent: limitPercent,
      dtype: dtype!,
      how: `${count} thread${count === "1" ? "" : "s"}, ${temperature}`,
    },
  ];
}

const symbols = { f32: "circle", bf16: "square", f16: "diamond" } as const;

/** The rows with limits, as an SVG document. Above 100 % the probe was disturbed, or a nearer cache held the memory. */
export function picture(rows: readonly Row[]): string {
  const dots = rows.flatMap(dotsOf);
  const lines = [...new Set(dots.map(({ line }) => line))];
  const ways = [...new Set(dots.map(({ how }) => how))].sort();
  const dtypes = Object.keys(symbols).filter((name) => dots.some(({ dtype }) => dtype === name));
  const most = Math.max(110, ...dots.map(({ percent }) => percent));
  // The legend is drawn as lines of the picture: Plot's own is HTML, which an SVG file cannot hold.
  const key = [
    ...ways.map((how, i) => ({ line: " ", percent: (i * most) / 4, how, dtype: "f32", label: how })),
    ...dtypes.map((dtype, i) => ({ line: "  ", percent: (i * most) / 4, how: "key", dtype, label: dtype })),
  ];
  const dot = { x: "percent", y: "line", fill: "how", symbol: "dtype", r: 4, fillOpacity: 0.8 } as const;
  const chart = Plot.plot({
    document: createDocument() as NonNullable<Plot.PlotOptions["document"]>,
    width: 860,
    height: 60 + 20 * (lines.length + 2),
    marginLeft: 250,
    marginRight: 60,
    style: { background: "white", color: "black", fontFamily: "sans-serif", fontSize: "11px" },
    x: { label: "percent of the limit probed in the same run", domain: [0, most], grid: true },
    y: { label: null, domain: [" ", "  ", ...lines] },
    color: {
      domain: [...ways, "key"],
      range: ["#4269d0", "#97bbf5", "#ff725c", "#efb118", "#3ca951", "#a463f2"].slice(0, ways.length).concat("#777777"),
    },
    symbol: { domain: Object.keys(symbols), range: Object.values(symbols) },
    marks: [
      Plot.ruleX([100], { stroke: "#999999" }),
      Plot.dot(dots, dot),
      Plot.dot(key, dot),
      Plot.text(key, { x: "percent", y: "line", text: "label", textAnchor: "start", dx: 8 }),
    ],
  });
  chart.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return `${chart.outerHTML}\n`;
}
