/** The library's side of random programs: a device, the inputs of its ops, and the ops of a pass. */
import { Device, causalConv1d, gatedDelta, gatedDeltaStep } from "../../lib/index.ts";
import type { Op, Tensor } from "../../lib/index.ts";
import type { LayerStates } from "../../lib/ops/layer-states.ts";
import type { Kind } from "./model.ts";
import { channels, dim, layers, past, writeInput } from "./values.ts";

/** The number of rows of inputs in each layer of one program. */
const rows = 4096;

/** Which op writes a layer's states. */
export type OpName = "conv" | "delta" | "fused";

/** The kinds of state that an op writes. */
export const kindsOf: Readonly<Record<OpName, readonly Kind[]>> = { conv: ["conv"], delta: ["state"], fused: ["state", "conv"] };

/** Rows of inputs, one for each token of a pass, and the same in every layer. */
export interface Inputs {
  readonly start: number;
  readonly lists: readonly (readonly number[])[];
}

/** One device and the tensors that its ops need, allocated once. */
export class Machine {
  readonly device: Device;
  readonly #x: readonly Tensor<"f32">[];
  readonly #weight: Tensor<"f32">;
  readonly #convOut: Tensor<"f32">;
  readonly #ones: Tensor<"f32">;
  readonly #out: Tensor<"f32">;
  readonly #normWeight: Tensor<"f32">;
  readonly #z: Tensor<"f32">;
  #used = 0;

  constructor(device: Device) {
    this.device = device;
    const make = (...shape: number[]) => device.tensor("f32", shape);
    this.#x = Array.from({ length: layers }, () => make(rows, channels));
    this.#weight = make(channels, past + 1);
    for (let c = 0; c < channels; c++) this.#weight.data[c * (past + 1) + past] = 1;
    this.#convOut = make(rows, channels);
    this.#ones = make(rows, 1);
    this.#ones.data.fill(1);
    this.#out = make(rows, 1, dim);
    this.#normWeight = make(dim);
    this.#z = make(rows, 1, dim);
  }

  /** Forgets the inputs of the previous program: no pending work uses them. */
  reset(): void {
    this.#used = 0;
  }

  /** Writes the inputs of some states' tokens; undefined if the program has used too many. */
  inputs(lists: readonly (readonly number[])[]): Inputs | undefined {
    const tokens = lists.flat();
    if (this.#used + tokens.length > rows) return undefined;
    const start = this.#used;
    this.#used += tokens.length;
    this.rewrite({ start, lists }, lists);
    return { start, lists };
  }

  /** Writes other tokens over inputs, as many as there were. */
  rewrite({ start }: Inputs, lists: readonly (readonly number[])[]): void {
    for (const [layer, x] of this.#x.entries()) fill(x, start, lists.flat(), layer);
  }

  /** Writes the input of a draft's convolution. */
  fill(x: Tensor<"f32">, { lists }: Inputs, layer: number): void {
    fill(x, 0, lists.flat(), layer);
  }

  /** An op that applies the tokens of these inputs to some kinds of a layer's states. */
  op(name: OpName, layer: number, states: LayerStates, { start, lists }: Inputs, draftInput?: Tensor<"f32">): Op {
    const count = lists.reduce((sum, { length }) => sum + length, 0);
    const part = (tensor: Tensor<"f32">) => tensor.narrow(0, start, count);
    const x = part(this.#x[layer]!);
    const gates = { gate: part(this.#ones), beta: part(this.#ones), gateForm: "decay" } as const;
    if (name === "fused") {
      const common = { keyHeads: 1, convWeight: this.#weight, z: part(this.#z), normWeight: this.#normWeight };
      return gatedDeltaStep({ x, ...common, ...gates, out: part(this.#out), states, convActivation: "none" });
    }
    const cuSeqlens = draftInput === undefined ? startsOf(lists) : undefined;
    if (name === "conv") {
      return causalConv1d({ x: draftInput ?? x, weight: this.#weight, out: part(this.#convOut), states, ...(cuSeqlens && { cuSeqlens }) });
    }
    const head = (first: number) => x.narrow(1, first, dim).reshape([count, 1, dim]);
    const heads = { query: head(0), key: head(dim), value: head(2 * dim) };
    return gatedDelta({ ...heads, ...gates, out: part(this.#out), states, ...(cuSeqlens && { cuSeqlens }) });
  }

  /** As {@link op} for a draft's delta, whose row offsets are the draft's own. */
  draftDelta(layer: number, states: LayerStates, { start, lists }: Inputs): Op {
    const count = lists.reduce((sum, { length }) => sum + length, 0);
    const part = (tensor: Tensor<"f32">) => tensor.narrow(0, start, count);
    const x = part(this.#x[layer]!);
    const head = (first: number) => x.narrow(1, first, dim).reshape([count, 1, dim]);
    const heads = { query: head(0), key: head(dim), value: head(2 * dim) };
    return gatedDelta({ ...heads, gate: part(this.#ones), beta: part(this.#ones), gateForm: "decay", out: part(this.#out), states });
  }

  /** An op that uses a pool's tensor directly. */
  rawOp(state: Tensor): Op {
    const view = this.#x[0]!.narrow(0, 0, 1);
    const head = (first: number) => view.narrow(1, first, dim).reshape([1, 1, dim]);
    const one = this.#ones.narrow(0, 0, 1);
    return gatedDelta({
      query: head(0), key: head(dim), value: head(2 * dim), gate: one, beta: one, gateForm: "decay",
      out: this.#out.narrow(0, 0, 1), state, readSlots: [0], writeSlots: [0],
    });
  }
}

function startsOf(lists: readonly (readonly number[])[]): Int32Array {
  const starts = new Int32Array(lists.length + 1);
  for (const [i, { length }] of lists.entries()) starts[i + 1] = starts[i]! + length;
  return starts;
}

function fill(x: Tensor<"f32">, start: number, tokens: readonly number[], layer: number): void {
  const data = x.data;
  for (const [t, token] of tokens.entries()) {
    writeInput(data.subarray((start + t) * channels, (start + t + 1) * channels), token, layer);
  }
}
