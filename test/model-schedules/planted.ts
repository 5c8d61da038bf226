/** Faults planted into the library, each of which random schedules must find. */
import { Draft } from "../../lib/index.ts";
import type { Tensor } from "../../lib/index.ts";
import { linear, siluMul } from "../../lib/ops/functions.ts";
import type { Op } from "../../lib/ops/op.ts";
import { DecodePlan } from "../../lib/model/decode-plan.ts";
import { ModelGraph } from "../../lib/model/graph.ts";
import type { ActivationViews } from "../../lib/model/activations.ts";
import type { PartTensors } from "../../lib/model/families/family.ts";
import type { Mlp } from "../../lib/model/model-weights.ts";
import { PageLedger } from "../../lib/model/page-ledger.ts";
import type { PageList } from "../../lib/model/page-ledger.ts";
import { PagePool } from "../../lib/model/page-pool.ts";
import { StateHandle } from "../../lib/states/state-handle.ts";
import { expertFaults } from "../support/expert-faults.ts";
import { replace } from "../support/replace.ts";
import type { Method } from "../support/replace.ts";

type MlpOps = (this: ModelGraph, weights: Mlp, part: PartTensors, views: ActivationViews) => Op[];

/** The columns of a plain weight from `start` up to `end`, as a separate weight. */
function columns(weight: Tensor, start: number, end: number): Tensor {
  const [rows = 0, width = 0] = weight.shape;
  const part: Tensor = weight.device.tensor(weight.dtype, [rows, end - start]);
  return part.copyFrom(weight.view({ offset: start, shape: [rows, end - start], strides: [width, 1] }));
}

/** A product whose sums are taken in two halves if it has several rows, as a kernel for many rows might do. */
function halvedProducts(): Disposable {
  const halves = new WeakMap<Tensor, readonly [Tensor, Tensor]>();
  return replace(ModelGraph.prototype, "mlp", (original) => function (this: ModelGraph, weights: Mlp, part: PartTensors, views: ActivationViews) {
    const ops = (original as MlpOps).call(this, weights, part, views);
    if (weights.kind !== "dense") return ops;
    const { weight, scales } = weights.down;
    const { gate, up } = views.dense;
    const { out, residual } = part;
    const [tokens = 0, width = 0] = gate.shape;
    if (tokens < 2 || scales !== undefined) return ops;
    const middle = width >> 4 << 3;
    let parts = halves.get(weight);
    if (parts === undefined) halves.set(weight, (parts = [columns(weight, 0, middle), columns(weight, middle, width)]));
    const x = (start: number, end: number) => gate.view({ offset: start, shape: [tokens, end - start], strides: [width, 1] });
    return [
      ...ops.slice(0, -2),
      siluMul({ gate, up, out: gate }),
      linear({ x: x(0, middle), weight: parts[0], residual, out }),
      linear({ x: x(middle, width), weight: parts[1], residual: out, out }),
    ];
  } as Method);
}

/** Each fault by its description, and a function that plants it. */
export const planted: Readonly<Record<string, () => Disposable>> = {
  ...expertFaults,

  "the sum of a product over several rows is taken in another order": halvedProducts,

  "a shared page is left, but what is in it is not copied": () =>
    replace(PagePool.prototype, "copies", () => (() => []) as Method),

  "a shared page is written where it is": () =>
    replace(PageLedger.prototype, "begin", (original) => function (this: PageLedger, ...args: Parameters<PageLedger["begin"]>) {
      const lists = args[2];
      const last = lists.map(({ pages }) => pages.at(-1));
      const step = (original as (this: PageLedger, ...args: unknown[]) => ReturnType<PageLedger["begin"]>).apply(this, args);
      for (const { from, to } of step.copies) {
        const i = lists.findIndex(({ pages }) => pages.includes(to));
        const { pages } = lists[i]!;
        if (last[i] === from && this.pageTokens > 1) pages[pages.indexOf(to)] = from;
      }
      return step;
    } as Method),

  "a plan's row of pages is written once": () =>
    replace(DecodePlan.prototype, "set", (original) => function (this: DecodePlan, i: number, id: number, list: PageList) {
      (original as (this: DecodePlan, i: number, id: number, list: PageList) => void).call(this, i, id, { ...list, stamp: -1 });
    } as Method),

  "a plan's number of earlier tokens is one behind after a whole page": () =>
    replace(DecodePlan.prototype, "set", (original) => function (this: DecodePlan, i: number, id: number, list: PageList) {
      const tokens = list.tokens > 1 && list.tokens % 7 === 0 ? list.tokens - 1 : list.tokens;
      (original as (this: DecodePlan, i: number, id: number, list: PageList) => void).call(this, i, id, { ...list, tokens });
    } as Method),

  "a fork's pages are not counted": () =>
    replace(PageLedger.prototype, "fork", () => function (this: PageLedger, _op: string, list: PageList) {
      const fork = this.create();
      fork.pages.push(...list.pages);
      fork.tokens = list.tokens;
      return fork;
    } as Method),

  "a fork begins with a state of zeros": () =>
    replace(StateHandle.prototype, "fork", (original) => function (this: StateHandle) {
      const fork = (original as (this: StateHandle) => StateHandle).call(this);
      fork.pool.zero(fork);
      return fork;
    } as Method),

  "of the tokens that are accepted the state lacks the last": () =>
    replace(Draft.prototype, "commit", (original) => function (this: Draft, accepted: readonly number[]) {
      return (original as (this: Draft, accepted: readonly number[]) => number).call(this, accepted.map((count) => count - 1));
    } as Method),

  "pages of wrong guesses are kept": () =>
    replace(PageLedger.prototype, "cut", () => function (this: PageLedger, _op: string, list: PageList, tokens: number) {
      list.tokens = tokens;
    } as Method),
};
