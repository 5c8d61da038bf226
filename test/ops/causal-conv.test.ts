import { test } from "bun:test";
import { causalConv1d as referenceOf } from "../reference/causal-conv1d.ts";
import type { CausalConv1dCase } from "../reference/causal-conv1d.ts";
import { round } from "../reference/rounding.ts";
import { reference } from "../reference/tensor.ts";
import { onEachBackend } from "../support/backends.ts";
import { buildCausalConv1d } from "../support/cases.ts";
import { bounds } from "../../lib/cli/verify/compare.ts";
import { expectNear, expectRounded, expectSameBits } from "../support/judge.ts";
import { plainConv } from "../support/plain-specs.ts";
import { forAll, specsFor } from "../support/property.ts";
import { Random } from "../support/random.ts";
import { allF32, convFormats, runCausalConv1d } from "../support/run-ops.ts";
import type { Results } from "../support/run-ops.ts";

/** The output is near; the state is a copy of inputs, so it has exactly their bits. */
function expectReference(subject: string, got: Results, given: CausalConv1dCase): void {
  const expected = referenceOf(given);
  expectNear(`${subject} out`, got.out, expected.out.data.subarray(0, got.out.length), bounds.f32);
  if (got.state) expectSameBits("state", got.state, Float32Array.from(expected.state!.data));
}

onEachBackend("causalConv1d", (backend) => {
  const { device } = backend;

  test("near float64 for any shapes, options, batches, slots and layouts; exact states, narrow results rounded once", () => {
    forAll(backend, 300, specsFor.causalConv1d(backend), (spec) => {
      const given = buildCausalConv1d(spec);
      const formats = convFormats(spec);
      const wide = runCausalConv1d(device, given, { ...formats, out: "f32" }, { layouts: new Random(spec.seed) });
      expectReference(`${backend.name} causalConv1d, ${spec.format} inputs`, wide, given);
      if (formats.out === "f32") return;
      const narrow = runCausalConv1d(device, given, formats, { layouts: new Random(spec.seed + 1) });
      expectRounded("out", formats.out, narrow.out, wide.out);
      if (narrow.state) expectSameBits("state", narrow.state, wide.state!);
    });
  });

  test("every width, with and without bias and activation", () => {
    for (let width = 2; width <= 9; width++) {
      for (const bias of [false, true]) {
        for (const activation of ["none", "silu"] as const) {
          const given = buildCausalConv1d({ ...plainConv, width, bias, activation });
          expectReference(
            `width ${width}, ${bias ? "bias" : "no bias"}, ${activation}`,
            runCausalConv1d(device, given, allF32),
            given,
          );
        }
      }
    }
  });

  test("every number of channels up to two vectors of the widest kind, and thousands", () => {
    const counts = Array.from({ length: 40 }, (_, i) => i + 1);
    for (const channels of [...counts, 8193]) {
      const given = buildCausalConv1d({ ...plainConv, channels, seed: channels });
      expectReference("channels", runCausalConv1d(device, given, allF32, { layouts: new Random(channels) }), given);
    }
  });

  test("float32 states under narrow activations keep float32 numbers", () => {
    for (const format of ["f16", "bf16"] as const) {
      const random = new Random(7);
      const given = buildCausalConv1d({ ...plainConv, format });
      // Numbers that the activation's format would round.
      const state = reference(
        given.state!.shape,
        given.state!.data.map(() => round("f32", random.normal())),
      );
      const fine = { ...given, state, cuSeqlens: [0, 2, 2, 3], readSlots: [0, 1, -1], writeSlots: [1, 0, -1] };
      expectReference(format, runCausalConv1d(device, fine, { ...allF32, format }), fine);
    }
  });

  test("sums that SiLU sends to 0, and those it leaves alone", () => {
    const channels = 8;
    const x = reference(
      [2, channels],
      [-1e4, -200, -90, -1, 1, 90, 200, 1e4, 0, -0, 1e-40, -1e-40, 3e38, -3e38, 16, -16],
    );
    const weight = reference(
      [channels, 2],
      Array.from({ length: 2 * channels }, (_, i) => i % 2),
    );
    const given = { x, weight, activation: "silu" } as const;
    expectReference("saturated", runCausalConv1d(device, given, allF32), given);
  });
});
