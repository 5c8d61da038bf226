/** Faults planted in mixtures of experts; random schedules over such models must find each one. */
import type { Tensor } from "../../lib/index.ts";
import { add, combineExperts, expertLinear } from "../../lib/ops/functions.ts";
import type { Op } from "../../lib/ops/op.ts";
import type { ActivationViews, ExpertViews } from "../../lib/model/activations.ts";
import type { PartTensors } from "../../lib/model/families/family.ts";
import { ModelGraph } from "../../lib/model/graph.ts";
import type { Mixture } from "../../lib/model/model-weights.ts";
import { replace } from "./replace.ts";
import type { Method } from "./replace.ts";

type MixtureOps = (this: ModelGraph, weights: Mixture, part: PartTensors, views: ActivationViews) => Op[];

/** Changes the ops of mixtures. */
function plant(change: (ops: Op[], weights: Mixture, part: PartTensors, views: ActivationViews, experts: ExpertViews) => Op[]): Disposable {
  return replace(ModelGraph.prototype, "mixture", (original) => function (this: ModelGraph, weights: Mixture, part: PartTensors, views: ActivationViews) {
    return change((original as MixtureOps).call(this, weights, part, views), weights, part, views, views.experts!);
  } as Method);
}

/** Some columns of plain matrices, copied into new matrices. */
function columns(weight: Tensor, start: number, end: number): Tensor {
  const part: Tensor = weight.device.tensor(weight.dtype, weight.shape.with(2, end - start));
  return part.copyFrom(weight.narrow(2, start, end - start));
}

export const expertFaults: Readonly<Record<string, () => Disposable>> = {
  "the experts of a single token are added in another order": () => plant((ops, _, { residual, out }, { spare: sum }, { ids, outputs, weights: shares, sharedOutput: shared, sharedFactor: sharedGate }) => {
    const [tokens = 0, k = 0] = ids.shape;
    if (tokens > 1 || k < 2) return ops;
    const one = (j: number) => ({ experts: outputs.narrow(1, j, 1), weights: shares.narrow(1, j, 1) });
    const others = Array.from({ length: k - 1 }, (_, i) => combineExperts({ ...one(k - 1 - i), residual: i === 0 ? undefined : sum, out: sum }));
    return [...ops.slice(0, -1), ...others, combineExperts({ ...one(0), shared, sharedGate, residual: sum, out: sum }), add({ a: residual!, b: sum, out })];
  }),

  "the sums of experts' products are taken in another order in a larger batch": () => {
    const halves = new WeakMap<Tensor, readonly [Tensor, Tensor]>();
    const more = new WeakMap<Tensor, Tensor>();
    return plant((ops, { down: { weight, scales } }, _, __, { ids, product: x, outputs: out }) => {
      const [tokens = 0, k = 0, width = 0] = x.shape;
      const at = ops.findLastIndex(({ name }) => name === "expertLinear");
      if (tokens < 2 || scales !== undefined) return ops;
      const middle = width >> 4 << 3;
      let parts = halves.get(weight);
      if (parts === undefined) halves.set(weight, (parts = [columns(weight, 0, middle), columns(weight, middle, width)]));
      let second = more.get(out);
      if (second === undefined) more.set(out, (second = out.device.tensor("f32", out.shape)));
      const [a, b] = [out, second].map((each) => each.reshape([tokens, k * each.shape[2]!])) as [Tensor, Tensor];
      return ops.with(at, expertLinear({ x: x.narrow(2, 0, middle), weight: parts[0], ids, out }))
        .toSpliced(at + 1, 0, expertLinear({ x: x.narrow(2, middle, width - middle), weight: parts[1], ids, out: second }), add({ a, b, out: a }));
    });
  },
};
