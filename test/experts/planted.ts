/** Faults that a library could have, each of which random mixtures must find. */
import { add, combineExperts, expertLinear, route } from "../../lib/index.ts";
import type { CombineExpertsArguments, ExpertLinearArguments, RouteArguments, Tensor } from "../../lib/index.ts";
import { replace } from "../support/replace.ts";
import type { Method } from "../support/replace.ts";
import { ExpertCases } from "./runner.ts";

/** A copy of a tensor with its second dimension in the order of `ranks`. */
function reordered(tensor: Tensor, ranks: readonly number[]): Tensor {
  const copy: Tensor = tensor.device.tensor(tensor.dtype, tensor.shape);
  for (const [to, from] of ranks.entries()) copy.narrow(1, to, 1).copyFrom(tensor.narrow(1, from, 1));
  return copy;
}

/** An op's arguments changed on their way. */
const changed = <Arguments>(name: "route" | "product" | "combine", change: (args: Arguments) => unknown) => () =>
  replace(ExpertCases.prototype, name, () => change as unknown as Method);

/** Each fault by its description, and a function that plants it. */
export const planted: Readonly<Record<string, () => Disposable>> = {
  "experts are combined in another order": changed<CombineExpertsArguments>("combine", ({ experts, weights, ...args }) => {
    const ranks = Array.from({ length: experts.shape[1]! }, (_, i) => experts.shape[1]! - 1 - i);
    return [combineExperts({ ...args, experts: reordered(experts, ranks), weights: reordered(weights, ranks) })];
  }),

  "the residual is added before the shared expert": changed<CombineExpertsArguments>("combine", ({ shared, sharedGate, ...args }) => {
    if (shared === undefined) return [combineExperts(args)];
    if (args.residual === undefined || sharedGate !== undefined) return [combineExperts({ ...args, shared, sharedGate })];
    return [combineExperts(args), add({ a: args.out, b: shared, out: args.out })];
  }),

  "more than 16 tokens have another order of sums": changed<ExpertLinearArguments>("product", (args) => {
    const { x, weight, scales, out } = args;
    const inFeatures = x.shape.at(-1)!;
    if (x.shape[0]! <= 16 || scales !== undefined || inFeatures < 16) return [expertLinear(args)];
    const middle = inFeatures >> 4 << 3;
    const half = (tensor: Tensor, start: number, end: number): Tensor => {
      const part: Tensor = tensor.device.tensor(tensor.dtype, [...tensor.shape.slice(0, -1), end - start]);
      return part.copyFrom(tensor.narrow(tensor.shape.length - 1, start, end - start));
    };
    const sum: Tensor = out.device.tensor(out.dtype, out.shape);
    return [
      expertLinear({ ...args, x: half(x, 0, middle), weight: half(weight, 0, middle), out: sum }),
      expertLinear({ ...args, x: half(x, middle, inFeatures), weight: half(weight, middle, inFeatures) }),
      add({ a: sum, b: out, out }),
    ];
  }),

  "an expert without rows takes the place of the next one": changed<ExpertLinearArguments>("product", (args) => {
    const { ids, weight } = args;
    const used = new Set(ids.data);
    const missing = Array.from({ length: weight.shape[0]! }, (_, i) => i).find((expert) => !used.has(expert));
    if (missing === undefined) return [expertLinear(args)];
    const shifted = ids.device.tensor("id32", ids.shape).copyFrom(ids.data.map((id) => (id > missing && id < weight.shape[0]! ? id - 1 : id)));
    return [expertLinear({ ...args, ids: shifted })];
  }),

  "ids of no expert become the last one": changed<ExpertLinearArguments>("product", (args) => {
    const last = args.weight.shape[0]! - 1;
    const { ids } = args;
    return [expertLinear({ ...args, ids: ids.device.tensor("id32", ids.shape).copyFrom(ids.data.map((id) => (id < 0 || id > last ? last : id))) })];
  }),

  "NaN comes first": changed<RouteArguments>("route", (args) => {
    const { logits } = args;
    const first: Tensor = logits.device.tensor("f32", logits.shape);
    return [route({ ...args, logits: first.copyFrom(logits.toFloat32().map((value) => (Number.isNaN(value) ? 3.4e38 : value))) })];
  }),
};
