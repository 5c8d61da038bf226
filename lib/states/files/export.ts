/** Writes states in the layouts of other systems. */
import { invalid } from "../../arguments/checks.ts";
import { dtypes } from "../../tensor/dtype.ts";
import type { FloatDType } from "../../tensor/dtype.ts";
import { ShapeError } from "../../errors.ts";
import type { HeadMap } from "../../native/options.ts";
import { kindsOf, rowShape } from "../pool-shape.ts";
import type { PoolShape, StateKind } from "../pool-shape.ts";
import { fileDTypes, writeSafetensors } from "../../checkpoint/safetensors.ts";
import type { TensorToWrite } from "../../checkpoint/safetensors.ts";
import { converted, rowOf } from "./format.ts";
import type { FloatElements } from "./format.ts";
import type { StateTensors } from "./save.ts";

/** A system whose layout states can be converted to; see {@link StatePool.export}. */
export type StateLayout = "mlx" | "hf" | "ggml";

/** Options of {@link StatePool.export}. */
export interface ExportOptions {
  /** The layout of mlx-lm, transformers or llama.cpp. */
  readonly layout: StateLayout;
  /** Element type of the recurrent states in the file. @default the pool's */
  readonly stateDtype?: FloatDType | undefined;
  /** Element type of the convolution states in the file. @default the pool's */
  readonly convDtype?: FloatDType | undefined;
  /**
   * For `hf`: the number of columns of a convolution state, convWidth (as in transformers, with zeros in the oldest column,
   * which no op reads) or convWidth − 1. @default convWidth
   */
  readonly convColumns?: number | undefined;
  /** For `ggml`: the head map of the ops that computed the states. `block` is reordered to ggml's `tiled`. @default "block" */
  readonly headMap?: HeadMap | undefined;
}

/** A row of one layout: its shape, and the index in it of the pool's element i. */
interface Target {
  readonly shape: readonly number[];
  readonly place: (index: number) => number;
}

/** Checks the options that only some layouts have. */
export function checkExport(op: string, shape: PoolShape, { layout, convColumns, headMap }: ExportOptions): void {
  const { convWidth, convChannels, valueHeads, valueDim } = shape;
  if (convColumns !== undefined && (layout !== "hf" || !shape.conv || (convColumns !== convWidth && convColumns !== convWidth - 1))) {
    const expected = layout === "hf" ? `${convWidth} or ${convWidth - 1}` : "no value except with layout hf";
    throw invalid(op, "convColumns", expected, convColumns);
  }
  if (headMap !== undefined && layout !== "ggml") throw invalid(op, "headMap", "no value except with layout ggml", headMap);
  if (layout === "ggml" && shape.conv && convChannels < valueHeads * valueDim) {
    const expected = `convolutions of at least ${valueHeads * valueDim} channels for layout ggml`;
    throw new ShapeError({ op, argument: "pool", expected, received: `${convChannels}` });
  }
}

/** Writes the states in some slots; −1 stands for zeros. */
export function writeExport(pool: StateTensors, slots: readonly number[], path: string, options: ExportOptions): void {
  const { shape } = pool;
  const tensors = new Map<string, TensorToWrite>();
  for (let layer = 0; layer < shape.layers; layer++) {
    for (const kind of kindsOf(shape)) {
      const target = targetOf(shape, kind, options);
      const from = kind === "state" ? shape.stateDtype : shape.convDtype;
      const to = (kind === "state" ? options.stateDtype : options.convDtype) ?? from;
      const rows = slots.map((slot) => placed(converted(rowOf(pool.tensor(layer, kind), slot), from, to), to, target));
      tensors.set(`layers.${layer}.${kind}`, { dtype: fileDTypes[to], shape: [slots.length, ...target.shape], data: rows });
    }
  }
  writeSafetensors(path, tensors, { format: "gated-delta-export", layout: options.layout }, "pool.export");
}

function placed(row: FloatElements, dtype: FloatDType, { shape, place }: Target): FloatElements {
  const out = dtypes[dtype].create(shape.reduce((product, n) => product * n, 1));
  for (let i = 0; i < row.length; i++) out[place(i)] = row[i]!;
  return out;
}

function targetOf(shape: PoolShape, kind: StateKind, options: ExportOptions): Target {
  const { valueHeads, valueDim, keyDim, convChannels, convWidth } = shape;
  const ours = rowShape(shape, kind);
  const columns = convWidth - 1;
  switch (options.layout) {
    case "mlx": {
      if (kind === "state") return { shape: ours, place: (i) => i };
      return { shape: [columns, convChannels], place: (i) => (i % columns) * convChannels + Math.floor(i / columns) };
    }
    case "hf": {
      if (kind === "state") return { shape: [valueHeads, keyDim, valueDim], place: transposer(valueDim, keyDim) };
      const width = options.convColumns ?? convWidth;
      const first = width - columns;
      return { shape: [convChannels, width], place: (i) => Math.floor(i / columns) * width + first + (i % columns) };
    }
    case "ggml": {
      const head = options.headMap === "tiled" ? (hv: number) => hv : tiledHead(shape);
      if (kind === "state") return { shape: ours, place: reorderer(valueDim * keyDim, 0, head) };
      const values = convChannels - valueHeads * valueDim;
      return { shape: ours, place: reorderer(valueDim * columns, values * columns, head) };
    }
  }
}

/** `[heads, rows, columns]` to `[heads, columns, rows]`. */
function transposer(rows: number, columns: number): (index: number) => number {
  const size = rows * columns;
  return (i) => i - (i % size) + (i % columns) * rows + Math.floor((i % size) / columns);
}

/** Reorders heads of `size` elements each, from element `start` on. */
function reorderer(size: number, start: number, head: (hv: number) => number): (index: number) => number {
  return (i) => (i < start ? i : start + head(Math.floor((i - start) / size)) * size + ((i - start) % size));
}

/** ggml's index of the value head hv of block order: head hk·ratio + r is r·keyHeads + hk. */
function tiledHead({ keyHeads, valueHeads }: PoolShape): (hv: number) => number {
  const ratio = valueHeads / keyHeads;
  return (hv) => (hv % ratio) * keyHeads + Math.floor(hv / ratio);
}
