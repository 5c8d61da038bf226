/** Random mixtures over the ops, compared with float64, with `linear`, with parts of themselves and with one order of sums. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { BoundsError, combineExperts, expertLinear, linear, route } from "../../lib/index.ts";
import type { CombineExpertsArguments, Device, ExpertLinearArguments, Op, RouteArguments, Tensor } from "../../lib/index.ts";
import { bounds } from "../../lib/cli/verify/compare.ts";
import { combineExperts as combineReference } from "../reference/combine-experts.ts";
import { expertLinear as productReference } from "../reference/expert-linear.ts";
import { round } from "../reference/rounding.ts";
import { route as routeReference } from "../reference/route.ts";
import type { Reference } from "../reference/tensor.ts";
import { fill } from "../support/cases.ts";
import { firstDifference } from "../support/difference.ts";
import { expertMatrices } from "../support/experts.ts";
import { Layouts, download } from "../support/layouts.ts";
import { inPieces } from "../support/pieces.ts";
import { Random } from "../support/random.ts";
import { Difference } from "../support/schedules.ts";
import type { Counts, ScheduleMachine } from "../support/schedules.ts";
import { anyIds, anyLogits, anySpec, telling, textOfSpec } from "./spec.ts";
import type { Spec } from "./spec.ts";

/** The parts of a case, in order; leaving some out does not change the others. */
const parts = ["route", "product", "combine"] as const;
type Part = (typeof parts)[number];

/** A running case. */
interface Case extends Disposable {
  readonly spec: Spec;
  readonly seed: number;
  /** For its files. */
  readonly folder: string;
  readonly layouts: Layouts;
  readonly counts: Counts;
  readonly lines: string[];
  /** The ids of the router. */
  routed: Int32Array;
}

export class ExpertCases implements ScheduleMachine<Part, Case> {
  readonly unit = "case";
  readonly reference = "float64";
  readonly repeatable = true;
  readonly #device: Device;

  constructor(device: Device) {
    this.#device = device;
  }

  make(): readonly Part[] {
    return parts;
  }

  begin(seed: number, folder: string, counts: Counts): Case {
    const random = new Random(seed);
    const spec = anySpec(random);
    const layouts = new Layouts(this.#device, spec.strided ? new Random(seed + 1) : undefined);
    counts.add("cases");
    counts.add(`of ${spec.format}`);
    counts.add(`ids: ${spec.ids}`);
    counts.add(`logits: ${spec.logits}`);
    if (spec.tokens === 0) counts.add("without tokens");
    if (spec.k === spec.experts) counts.add("all experts of every token");
    const routed = Int32Array.from({ length: spec.tokens * spec.k }, () => random.below(spec.experts));
    return { spec, seed, folder, layouts, counts, lines: [textOfSpec(spec)], routed, [Symbol.dispose]: () => layouts[Symbol.dispose]() };
  }

  step(one: Case, part: Part): void {
    one.lines.push(part);
    const random = new Random(one.seed ^ (parts.indexOf(part) + 1) * 0x9e3779b1);
    if (part === "route") this.#route(one, random);
    else if (part === "product") this.#product(one, random);
    else this.#combine(one, random);
    const trespass = one.layouts.trespasses();
    if (trespass.length > 0) throw new Difference(`${part} wrote where it must not: ${trespass[0]}`);
  }

  end(): void {}

  describe(one: Case): readonly string[] {
    return one.lines;
  }

  /** The ops under test, which planted faults replace. */
  route(args: RouteArguments): Op[] {
    return [route(args)];
  }
  product(args: ExpertLinearArguments): Op[] {
    return [expertLinear(args)];
  }
  combine(args: CombineExpertsArguments): Op[] {
    return [combineExperts(args)];
  }

  #run(...ops: Op[]): void {
    this.#device.run(...ops);
    this.#device.wait();
  }

  #route(one: Case, random: Random): void {
    const { spec, layouts } = one;
    const { tokens, k, experts, normalize } = spec;
    const numbers = anyLogits(random, spec);
    const logits = layouts.rows("logits", spec.logitDType, numbers);
    const [ids, weights] = [this.#device.tensor("id32", [tokens, k]), this.#device.tensor("f32", [tokens, k])];
    this.#run(...this.route({ logits, ids, weights, normalize }));
    const wanted = routeReference(numbers, k, normalize);
    const at = wanted.ids.findIndex((id, i) => id !== ids.data[i]);
    if (at >= 0) throw new Difference(`ids[${Math.floor(at / k)}, ${at % k}]: got ${ids.data[at]}, expected ${wanted.ids[at]}`);
    // Normalized weights share the error of a sum of k numbers that are added one after the other.
    near("weights", weights.toFloat32(), wanted.weights.data, wanted.weights.data, bounds.f32 + (normalize ? k * 2 ** -24 : 0));
    one.routed = ids.data.slice();
    one.counts.add("rows routed", tokens);
    if (tokens === 0) return;
    const token = random.below(tokens);
    const [id, weight] = [this.#device.tensor("id32", [1, k]), this.#device.tensor("f32", [1, k])];
    this.#run(...this.route({ logits: logits.slice(token, token + 1), ids: id, weights: weight, normalize }));
    same(`weights of token ${token} alone, of ${experts} experts`, weight.toFloat32(), weights.toFloat32().slice(token * k, (token + 1) * k));
  }

  #product(one: Case, random: Random): void {
    const { spec, layouts, counts } = one;
    const { tokens, k, experts, inFeatures, outFeatures, dtype } = spec;
    const x = fill(spec.ranked ? [tokens, k, inFeatures] : [tokens, inFeatures], dtype, () => random.normal());
    const matrices = expertMatrices(random, spec.format, [experts, outFeatures, inFeatures]);
    const chosen = anyIds(random, spec, one.routed);
    const wrong = chosen.findIndex((id) => id < 0 || id >= experts);
    const [placed, stacked] = [layouts.rows("x", dtype, x), matrices.place(layouts)];
    using pieces = this.#pieces(one, stacked.weight);
    const weight = pieces === undefined ? stacked : { ...stacked, weight: pieces };
    const ids = this.#device.tensor("id32", [tokens, k]).copyFrom(chosen);
    const out = layouts.out("out", spec.out, [tokens, k, outFeatures]);
    const failed = this.#failing(this.product({ x: placed, ...weight, ids, out }));
    if (wrong >= 0) {
      const [argument, received] = [`ids[${Math.floor(wrong / k)}, ${wrong % k}]`, `${chosen[wrong]}`];
      if (!(failed instanceof BoundsError) || failed.argument !== argument || failed.received !== received) throw new Difference(`${argument} is ${received}, and the submission ended with ${failed}`);
      counts.add("submissions failed");
    } else if (failed !== undefined) throw failed;
    const got = download(out);
    const wide = spec.out === "f32" ? got : this.#wide(placed, weight, ids, [tokens, k, outFeatures], got, spec);
    near("out", wide, productReference(x, matrices.values, chosen, k).data, productReference(sizes(x), sizes(matrices.values), chosen, k).data);
    counts.add("rows multiplied", chosen.length);
    for (let i = 0; i < Math.min(3, chosen.length); i++) {
      const row = random.below(chosen.length);
      const [token, rank] = [Math.floor(row / k), row % k];
      const mine = got.slice(row * outFeatures, (row + 1) * outFeatures);
      if (chosen[row]! < 0 || chosen[row]! >= experts) {
        if (mine.some((value) => value !== 0)) throw new Difference(`row ${row} is of no expert and not zeros`);
        continue;
      }
      const alone = this.#device.tensor(spec.out, [1, outFeatures]);
      const own = spec.ranked ? placed.slice(token, token + 1).view({ offset: rank * placed.strides[1]!, shape: [1, inFeatures] }) : placed.slice(token, token + 1);
      this.#run(linear({ x: own, ...matrices.of(stacked, chosen[row]!), out: alone }));
      same(`row ${row} and linear`, mine, alone.toFloat32());
    }
    if (tokens > 0) this.#partOf(random, { x: placed, ...weight, ids, out }, got);
  }

  /** The matrices as pieces of files, if the case has files. */
  #pieces({ spec: { files }, seed, folder, counts }: Case, weight: Tensor): Tensor | undefined {
    if (files === 0) return undefined;
    counts.add("in pieces of files");
    mkdirSync(folder, { recursive: true });
    const paths = Array.from({ length: files }, (_, i) => join(folder, `experts-${i}`));
    return inPieces(this.#device, weight, new Random(seed + 2), { paths, remainder: seed % 4 });
  }

  /** Checks that some of the tokens alone have the same bits as among all. */
  #partOf(random: Random, args: ExpertLinearArguments, all: Float32Array): void {
    const { x, ids, out } = args;
    const [tokens, k, outFeatures] = out.shape as [number, number, number];
    const first = random.below(tokens);
    const count = 1 + random.below(tokens - first);
    const some = this.#device.tensor(out.dtype, [count, k, outFeatures]);
    this.#failing(this.product({ ...args, x: x.slice(first, first + count), ids: ids.slice(first, first + count), out: some }));
    same(`${count} of ${tokens} tokens from ${first}`, some.toFloat32(), all.slice(first * k * outFeatures, (first + count) * k * outFeatures));
  }

  /** Checks that `narrow` is the rounding of the same product in float32. */
  #wide(x: Tensor, weight: object, ids: Tensor<"id32">, shape: readonly number[], narrow: Float32Array, { out: dtype }: Spec): Float32Array {
    const out = this.#device.tensor("f32", shape);
    this.#failing(this.product({ x, ...(weight as { weight: Tensor }), ids, out }));
    const wide = out.toFloat32();
    same(`out in ${dtype}`, narrow, wide.map((value) => round(dtype, value)));
    return wide;
  }

  #failing(ops: Op[]): unknown {
    try {
      this.#run(...ops);
    } catch (error) {
      return error;
    }
    return undefined;
  }

  #combine(one: Case, random: Random): void {
    const { spec, layouts } = one;
    const { tokens, k, dtype } = spec;
    const dim = 1 + random.below(200);
    // Every second case has numbers that reveal the order of the sum; a gate's sigmoid is not a power of two.
    const tells = spec.shared !== "gated" && one.seed % 2 === 0;
    const values = (shape: readonly number[]): Reference => fill([...shape], tells ? "f32" : dtype, () => (tells ? telling(random) : random.normal()));
    const given = {
      experts: values([tokens, k, dim]),
      weights: fill([tokens, k], "f32", () => (tells ? 2 ** -random.below(5) : random.uniform())),
      shared: spec.shared === "none" ? undefined : values([tokens, dim]),
      sharedGate: spec.shared === "gated" ? values([tokens, 1]) : undefined,
      residual: spec.residual === "none" ? undefined : values([tokens, dim]),
    };
    const format = tells ? "f32" : dtype;
    const inPlace = spec.residual === "out";
    const residual = given.residual && layouts[inPlace ? "updated" : "rows"]("residual", format, given.residual);
    const rows = (name: "shared" | "sharedGate") => given[name] && layouts.rows(name, format, given[name]);
    const out = inPlace ? residual! : layouts.out("sum", "f32", [tokens, dim]);
    const args = { experts: layouts.rows("experts", format, given.experts), weights: layouts.packed("weights", "f32", given.weights), shared: rows("shared"), sharedGate: rows("sharedGate"), residual, out };
    this.#run(...this.combine(args));
    const got = download(out);
    one.counts.add("rows combined", tokens);
    if (tells) {
      same("sum in order of rank", got, inOrder(given, dim));
      one.counts.add("orders told");
    } else if (!inPlace || dtype === "f32") {
      const { experts, weights, shared, sharedGate, residual: added } = given;
      near("sum", got, combineReference(given).data, combineReference({ experts: sizes(experts), weights, shared: shared && sizes(shared), sharedGate, residual: added && sizes(added) }).data);
    }
  }
}

/** The sum in float32, each addition rounded; products are exact. */
function inOrder({ experts, weights, shared, residual }: { readonly experts: Reference; readonly weights: Reference; readonly shared?: Reference | undefined; readonly residual?: Reference | undefined }, dim: number): Float32Array {
  const [tokens, k] = weights.shape as [number, number];
  return Float32Array.from({ length: tokens * dim }, (_, i) => {
    const [token, at] = [Math.floor(i / dim), i % dim];
    let sum = 0;
    for (let j = 0; j < k; j++) sum = Math.fround(sum + weights.data[token * k + j]! * experts.data[(token * k + j) * dim + at]!);
    if (shared !== undefined) sum = Math.fround(sum + shared.data[i]!);
    return residual === undefined ? sum : Math.fround(sum + residual.data[i]!);
  });
}

/** The numbers without their signs: the rounding errors of a sum are relative to the sum of these, however much cancels. */
function sizes(tensor: Reference): Reference {
  return { shape: tensor.shape, data: tensor.data.map(Math.abs) };
}

/** Expects NaN where float64 has it, and elsewhere a number near float64's, by the sizes of the summands. */
function near(what: string, got: Float32Array, wanted: Float64Array, added: Float64Array, bound: number = bounds.f32): void {
  for (const [i, value] of wanted.entries()) {
    if (Number.isNaN(value) ? Number.isNaN(got[i]) : Math.abs(got[i]! - value) <= bound * added[i]!) continue;
    throw new Difference(`${what}[${i}]: got ${got[i]}, expected ${value}, of terms of ${added[i]} together`);
  }
}

function same(what: string, got: Float32Array, wanted: Float32Array): void {
  const at = firstDifference(got, wanted);
  if (at !== undefined) throw new Difference(`${what}[${Math.floor(at / 4)}]: got ${got[Math.floor(at / 4)]}, expected the bits of ${wanted[Math.floor(at / 4)]}`);
}

