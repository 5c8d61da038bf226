/**
 * The error of 16-bit states: 4096 decode steps with float32 arithmetic and a state that is rounded once per step, against
 * float64. `GATED_DELTA_TEST_ERRORS=1` prints the numbers in docs/pools.md.
 */
import { expect, test } from "bun:test";
import { gatedDelta } from "../lib/index.ts";
import type { FloatDType } from "../lib/index.ts";
import { gatedDelta as reference } from "./reference/gated-delta.ts";
import { reference as tensorOf } from "./reference/tensor.ts";
import { relRms } from "../lib/cli/verify/compare.ts";
import { openDevice } from "./support/devices.ts";
import { Random } from "./support/random.ts";

const device = openDevice();
const steps = device.emulated ? 64 : 4096;
const dim = device.emulated ? 16 : 128;

const random = new Random(4096);
const fill = (shape: number[], next: () => number) => ({ shape, data: tensorOf(shape).data.map(() => Math.fround(next())) });
const given = {
  query: fill([steps, 1, dim], () => random.normal()),
  key: fill([steps, 1, dim], () => random.normal()),
  value: fill([steps, 1, dim], () => random.normal()),
  // Memories of 20 to 1000 tokens: log decays of -0.05 to -0.001, evenly over the orders of magnitude.
  gate: fill([steps, 1], () => -Math.exp(random.uniform(Math.log(0.001), Math.log(0.05)))),
  beta: fill([steps, 1], () => random.uniform()),
};

function decode(stateDtype: FloatDType): { out: Float32Array; state: Float32Array } {
  using stack = new DisposableStack();
  const place = ({ shape, data }: { shape: number[]; data: Float64Array }) => stack.use(device.tensorFrom("f32", shape, data));
  const [query, key, value, gate, beta] = [given.query, given.key, given.value, given.gate, given.beta].map(place);
  const state = stack.use(device.tensor(stateDtype, [1, 1, dim, dim]));
  const out = stack.use(device.tensor("f32", [steps, 1, dim]));
  for (let t = 0; t < steps; t++) {
    const at = { query: query!.slice(t, t + 1), key: key!.slice(t, t + 1), value: value!.slice(t, t + 1), gate: gate!.slice(t, t + 1), beta: beta!.slice(t, t + 1) };
    device.run(gatedDelta({ ...at, state, out: out.slice(t, t + 1), gateForm: "log", qkNorm: "l2" }));
  }
  device.wait();
  return { out: out.data.slice(), state: state.toFloat32() };
}

test(`states of 16 bits over ${steps} decode steps`, () => {
  const state = tensorOf([1, 1, dim, dim]);
  const exact = reference({ ...given, state, gateForm: "log", qkNorm: "l2", decayFormat: "f32" });
  // A bound for each dtype: one rounding per step, which decays with the state.
  for (const [dtype, bound] of [["f32", 2e-6], ["f16", 3e-3], ["bf16", 2e-2]] as const) {
    const { out, state: last } = decode(dtype);
    const window = (end: number) => relRms(out.slice((end - 64) * dim, end * dim), exact.out.data.slice((end - 64) * dim, end * dim));
    const errors = [relRms(out, exact.out.data), window(Math.min(256, steps)), window(steps), relRms(last, exact.state!.data)];
    if (process.env["GATED_DELTA_TEST_ERRORS"] === "1") console.log(`| ${dtype} | ${errors.map((x) => x.toExponential(1)).join(" | ")} |`);
    for (const error of errors) expect(error).toBeLessThanOrEqual(bound);
  }
}, 120_000);
