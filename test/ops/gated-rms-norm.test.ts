import { expect, test } from "bun:test";
import { gatedRmsNorm } from "../../lib/index.ts";
import { gatedRmsNorm as referenceOf } from "../reference/gated-rms-norm.ts";
import type { GatedRmsNormCase } from "../reference/gated-rms-norm.ts";
import { reference, reshape } from "../reference/tensor.ts";
import { onEachBackend } from "../support/backends.ts";
import { buildGatedRmsNorm, fill } from "../support/cases.ts";
import { bounds } from "../../lib/cli/verify/compare.ts";
import { expectNear, expectRounded, expectSameBits } from "../support/judge.ts";
import { Layouts, download } from "../support/layouts.ts";
import { plainNorm } from "../support/plain-specs.ts";
import { forAll, specsFor } from "../support/property.ts";
import { Random } from "../support/random.ts";
import { allF32, normFormats, placeGatedRmsNorm, runChecked, runGatedRmsNorm } from "../support/run-ops.ts";

onEachBackend("gatedRmsNorm", (backend) => {
  const { device } = backend;
  const expectReference = (subject: string, given: GatedRmsNormCase, layouts?: Random) =>
    expectNear(subject, runGatedRmsNorm(device, given, allF32, { layouts }), referenceOf(given).data, bounds.f32);

  test("near float64 for any shapes, options and layouts; narrow results are rounded once", () => {
    forAll(backend, 300, specsFor.gatedRmsNorm(backend), (spec) => {
      const given = buildGatedRmsNorm(spec);
      const formats = normFormats(spec);
      const wide = runGatedRmsNorm(device, given, { ...formats, out: "f32" }, { layouts: new Random(spec.seed) });
      expectNear(`${backend.name} gatedRmsNorm, ${spec.format} inputs`, wide, referenceOf(given).data, bounds.f32);
      if (formats.out === "f32") return;
      expectRounded(
        "out",
        formats.out,
        runGatedRmsNorm(device, given, formats, { layouts: new Random(spec.seed + 1) }),
        wide,
      );
    });
  });

  test("rows of every length to 70 and of thousands, with both activations in both orders", () => {
    const lengths = Array.from({ length: 70 }, (_, i) => i + 1);
    for (const [i, dim] of [...lengths, 100, 1000, 1003, 5120].entries()) {
      const activation = i % 2 === 0 ? "silu" : "sigmoid";
      const order = i % 4 < 2 ? "norm-then-gate" : "gate-then-norm";
      expectReference(
        `${dim}`,
        buildGatedRmsNorm({ ...plainNorm, tokens: 2, dim, activation, order, seed: dim }),
        new Random(dim),
      );
    }
    for (const activation of ["silu", "sigmoid"] as const) {
      for (const order of ["norm-then-gate", "gate-then-norm"] as const) {
        expectReference(`${activation} ${order}`, buildGatedRmsNorm({ ...plainNorm, activation, order }));
      }
    }
  });

  test("more rows than 16 bits count", () => {
    if (backend.emulated) return;
    expectReference("tokens", buildGatedRmsNorm({ ...plainNorm, tokens: 70_000, heads: 1, dim: 3 }));
    expectReference("heads", buildGatedRmsNorm({ ...plainNorm, tokens: 1, heads: 70_000, dim: 3 }));
  });

  test("[tokens, dim] is [tokens, 1, dim]", () => {
    const given = buildGatedRmsNorm({ ...plainNorm, heads: 1 });
    const flat = (tensor: typeof given.x) => reshape(tensor, [4, 40]);
    const expected = runGatedRmsNorm(device, given, allF32);
    expectSameBits(
      "out",
      runGatedRmsNorm(device, { ...given, x: flat(given.x), z: flat(given.z) }, allF32, { layouts: new Random(1) }),
      expected,
    );
  });

  test("epsilon is the one given, 1e-6 by default", () => {
    const given = buildGatedRmsNorm(plainNorm);
    for (const eps of [0, 1e-3, 2]) expectReference(`eps ${eps}`, { ...given, eps: Math.fround(eps) });
    // Numbers so small that epsilon decides everything.
    const small = {
      ...given,
      x: reference(
        given.x.shape,
        given.x.data.map((x) => Math.fround(x * 1e-5)),
      ),
    };
    expectReference("tiny rows", { ...small, eps: Math.fround(1e-6) });
    const byDefault = runGatedRmsNorm(device, { ...small, eps: undefined }, allF32);
    expectSameBits("out", byDefault, runGatedRmsNorm(device, { ...small, eps: 1e-6 }, allF32));
  });

  test("rows of zeros, gates of every size", () => {
    const random = new Random(5);
    const gates = [0, -0, 1e-40, 1, -1, 20, -20, 87, -87, 90, -90, 104, -104, 1000, -1000, 1e30, -1e30];
    const shape = [3, gates.length];
    const z = reference(shape, [...gates, ...gates, ...gates]);
    const x = fill(shape, "f32", () => random.normal());
    x.data.fill(0, 0, gates.length);
    const weight = fill([gates.length], "f32", () => random.normal());
    for (const activation of ["silu", "sigmoid"] as const) {
      const given = { x, z, weight, activation };
      expectReference(`extreme gates, ${activation}`, given);
      const out = runGatedRmsNorm(device, given, allF32);
      expect(out.subarray(0, gates.length).every((value) => value === 0)).toBe(true);
    }
  });

  test("no rows, or no heads: nothing happens", () => {
    for (const shape of [
      [0, 3, 8],
      [2, 0, 8],
    ]) {
      using layouts = new Layouts(device);
      const given = { x: reference(shape), z: reference(shape), weight: reference([8]) };
      const args = placeGatedRmsNorm(layouts, given, allF32);
      runChecked(device, layouts, gatedRmsNorm(args));
      expect(download(args.out).length).toBe(0);
    }
  });
});
