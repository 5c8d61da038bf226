/** The cases that break delta rule kernels, against float64 with the bound that DESIGN gives them. */
import { expect, test } from "bun:test";
import { causalConv1d as convOf } from "../reference/causal-conv1d.ts";
import { gatedDelta as deltaOf } from "../reference/gated-delta.ts";
import { convAdversarial, gatedDeltaAdversarial, longSequence } from "../support/adversarial.ts";
import type { AdversarialCase } from "../support/adversarial.ts";
import { onEachBackend, onOnly } from "../support/backends.ts";
import type { Backend } from "../support/backends.ts";
import { bounds } from "../../lib/cli/verify/compare.ts";
import { expectNear, expectSameBits } from "../support/judge.ts";
import { Random } from "../support/random.ts";
import { allF32, runCausalConv1d, runGatedDelta, writtenSlots } from "../support/run-ops.ts";

function check({ device }: Backend, { name, given, bound }: AdversarialCase, algorithm: "recurrent" | "chunked"): void {
  const expected = deltaOf({ ...given, decayFormat: "f32" });
  const got = runGatedDelta(device, given, allF32, { layouts: new Random(name.length), algorithm });
  const most = algorithm === "chunked" ? bound - bounds.f32 + bounds.chunked : bound;
  expectNear(`${algorithm}, ${name}: out`, got.out, expected.out.data, most);
  // Only what was written: a slot that nothing read or wrote may hold NaN.
  const slots = writtenSlots(given).filter((slot) => slot >= 0);
  const size = expected.state!.data.length / given.state!.shape[0]!;
  const of = (pool: Float32Array | Float64Array) =>
    slots.flatMap((slot) => [...pool.subarray(slot * size, (slot + 1) * size)]);
  expectNear(`${algorithm}, ${name}: state`, of(got.state!), of(expected.state!.data), most);
  expect(got.out.every(Number.isFinite)).toBe(true);
}

onEachBackend("gatedDelta, adversarial", (backend) => {
  test.each(gatedDeltaAdversarial())("$name", (adversarial) => check(backend, adversarial, "recurrent"));
});

onOnly("cpu", "gatedDelta chunked, adversarial", (backend) => {
  test.each(gatedDeltaAdversarial())("$name", (adversarial) => check(backend, adversarial, "chunked"));
});

onEachBackend("gatedDelta, long", (backend) => {
  const long = longSequence();
  test(long.name, () => check(backend, long, "recurrent"));
});

onEachBackend("causalConv1d, adversarial", (backend) => {
  test.each(convAdversarial())("$name", ({ given }) => {
    const expected = convOf(given);
    const got = runCausalConv1d(backend.device, given, allF32, { layouts: new Random(3) });
    expectNear("adversarial convolution: out", got.out, expected.out.data, bounds.f32);
    expectSameBits("state", got.state!, Float32Array.from(expected.state!.data));
  });
});
