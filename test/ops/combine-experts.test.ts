import { describe, expect, test } from "bun:test";
import { combineExperts } from "../../lib/index.ts";
import type { FloatDType, Tensor } from "../../lib/index.ts";
import { bounds } from "../../lib/cli/verify/compare.ts";
import { combineExperts as referenceOf } from "../reference/combine-experts.ts";
import type { CombineExpertsCase } from "../reference/combine-experts.ts";
import { reference } from "../reference/tensor.ts";
import { onEachBackend } from "../support/backends.ts";
import { fill } from "../support/cases.ts";
import { expectNear, expectRounded, expectSameBits } from "../support/judge.ts";
import { Layouts, download } from "../support/layouts.ts";
import { Random } from "../support/random.ts";
import { runChecked } from "../support/run-ops.ts";

interface Formats {
  readonly experts: FloatDType;
  readonly shared: FloatDType;
  readonly sharedGate: FloatDType;
  readonly residual: FloatDType;
  readonly out: FloatDType;
}
type Part = "shared" | "sharedGate" | "residual";

const f32: Formats = { experts: "f32", shared: "f32", sharedGate: "f32", residual: "f32", out: "f32" };
const choices: readonly (readonly Part[])[] = [
  [], ["shared"], ["shared", "sharedGate"], ["residual"], ["shared", "residual"], ["shared", "sharedGate", "residual"],
];

onEachBackend("combineExperts", (backend) => {
  const { device } = backend;

  function build(seed: number, [tokens, k, dim]: readonly [number, number, number], formats = f32, parts: readonly Part[] = choices[5]!) {
    const random = new Random(seed);
    const made = (name: keyof Formats, shape: readonly number[]) => fill(shape, formats[name], () => random.normal());
    return {
      experts: made("experts", [tokens, k, dim]),
      weights: fill([tokens, k], "f32", () => random.uniform()),
      ...(parts.includes("shared") && { shared: made("shared", [tokens, dim]) }),
      ...(parts.includes("sharedGate") && { sharedGate: made("sharedGate", [tokens, 1]) }),
      ...(parts.includes("residual") && { residual: made("residual", [tokens, dim]) }),
    };
  }

  function run(given: CombineExpertsCase, formats = f32, random?: Random, inPlace = false): Float32Array<ArrayBuffer> {
    using layouts = new Layouts(device, random);
    const [tokens, , dim] = given.experts.shape as [number, number, number];
    const rows = (name: Part) => given[name] && layouts[inPlace && name === "residual" ? "updated" : "rows"](name, formats[name], given[name]);
    const residual = rows("residual");
    const out: Tensor = inPlace ? residual! : layouts.out("out", formats.out, [tokens, dim]);
    runChecked(device, layouts, combineExperts({
      experts: layouts.rows("experts", formats.experts, given.experts),
      weights: layouts.packed("weights", "f32", given.weights),
      shared: rows("shared"),
      sharedGate: rows("sharedGate"),
      residual,
      out,
    }));
    return download(out);
  }

  describe.each(choices.map((parts) => [parts.join(" and ") || "experts alone", parts] as const))("%s", (_, parts) => {
    test.each([[1, 8, 2048], [3, 1, 7], [5, 10, 64], [2, 3, 1025], [9, 40, 16], [4, 0, 24]] as const)("%d tokens, %d experts, rows of %d", (tokens, k, dim) => {
      const given = build(dim, [tokens, k, dim], f32, parts);
      const out = run(given, f32, new Random(7));
      const wanted = referenceOf(given).data;
      if (wanted.every((value) => value === 0)) expect(out.every((value) => value === 0)).toBe(true);
      else expectNear(`${backend.name} combineExperts`, out, wanted, bounds.f32);
      if (parts.includes("residual")) expectSameBits("in place", run(given, f32, new Random(8), true), out);
    });
  });

  test.each(["f16", "bf16"] as const)("%s and f32, mixed in every way", (narrow) => {
    for (let choice = 0; choice < 32; choice++) {
      const names = ["experts", "shared", "sharedGate", "residual", "out"] as const;
      const formats = Object.fromEntries(names.map((name, i) => [name, choice >> i & 1 ? narrow : "f32"])) as unknown as Formats;
      const given = build(choice, [3, 4, 40], formats);
      const wide = run(given, { ...formats, out: "f32" }, new Random(choice));
      expectNear(`${backend.name} combineExperts of ${narrow}`, wide, referenceOf(given).data, bounds.f32);
      expectRounded("out", formats.out, run(given, formats), wide);
      if (formats.residual === formats.out) expectRounded("residual", formats.out, run(given, formats, undefined, true), wide);
    }
  });

  test("in order of rank, then the shared one, then the residual", () => {
    // In another order, or in pairs, each of the four sums would give a different number.
    const big = 2 ** 24;
    const experts = reference([1, 4, 1], [big, 1, 1, -big]);
    const weights = reference([1, 4], [1, 1, 1, 1]);
    expect([...run({ experts, weights })]).toEqual([0]);
    expect([...run({ experts, weights, shared: reference([1, 1], [1]), residual: reference([1, 1], [big]) })]).toEqual([big]);
    expect([...run({ experts: reference([1, 1, 1], [1]), weights: reference([1, 1], [1]), shared: reference([1, 1], [big]), residual: reference([1, 1], [-big]) })]).toEqual([0]);
  });

  test("a token has the same bits in any company", () => {
    const given = build(5, [67, 8, 72]);
    const together = run(given);
    for (const token of [0, 31, 66]) {
      const part = <T extends keyof CombineExpertsCase>(name: T) => {
        const { shape, data } = given[name]!;
        const size = data.length / 67;
        return reference([1, ...shape.slice(1)], data.subarray(token * size, (token + 1) * size));
      };
      const names = ["experts", "weights", "shared", "sharedGate", "residual"] as const;
      const alone = run(Object.fromEntries(names.map((name) => [name, part(name)])) as unknown as CombineExpertsCase);
      expectSameBits(`token ${token}`, alone, together.slice(token * 72, (token + 1) * 72));
    }
  });

  test("gates at their ends", () => {
    const [experts, weights, shared] = [reference([4, 1, 8]), reference([4, 1]), reference([4, 8], Array(32).fill(2))];
    const out = run({ experts, weights, shared, sharedGate: reference([4, 1], [Infinity, -Infinity, 0, NaN]) });
    expect([out[0], out[8], out[16]]).toEqual([2, 0, 1]);
    expect(out[24]).toBeNaN();
  });

  test("no tokens, and rows of nothing, are legal", () => {
    expect(run(build(1, [0, 2, 8])).length).toBe(0);
    expect(run(build(1, [2, 2, 0])).length).toBe(0);
  });
});
