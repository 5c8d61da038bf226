/**
 * A GPU's kernels have forms for few and for many threadgroups (of sequences, heads, outputs): the former wait less, the
 * latter leave room for more threads. Both give the same bits.
 */
import { test } from "bun:test";
import { gatedDelta, gatedDeltaStep, linear } from "../../lib/index.ts";
import type { FloatDType, Tensor } from "../../lib/index.ts";
import { onEachBackend } from "../support/backends.ts";
import { expectSameBits } from "../support/judge.ts";
import { Random } from "../support/random.ts";

/** More than 128 threadgroups of the recurrence for all sequences together, and fewer for one alone. */
const [sequences, keyHeads, valueHeads, dim] = [5, 13, 26, 8] as const;
const rest = { gateForm: "decay", betaForm: "given", qkNorm: "l2" } as const;
const count = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);

onEachBackend("many threadgroups", ({ device }) => {
  const made = (random: Random, dtype: FloatDType, shape: readonly number[], low = -1, high = 1): Tensor<FloatDType> =>
    device.tensorFrom(dtype, shape, Float32Array.from({ length: count(shape) }, () => random.uniform(low, high)));
  const copy = (tensor: Tensor<FloatDType>) => device.tensorFrom(tensor.dtype, tensor.shape, tensor.toFloat32());
  const all = [0, sequences] as const;
  const each = Array.from({ length: sequences }, (_, s) => [s, s + 1] as const);
  const table = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i);
  const formats = [
    ["f32", "f32", 64],
    ["bf16", "f32", 128],
    ["bf16", "bf16", 72],
    ["f16", "f16", 64],
  ] as const;

  test.each(formats)("gatedDelta of long sequences: %s, states of %s, key dim %p", (t, s, keyDim) => {
    const random = new Random(keyDim);
    const tokens = 18;
    const rows = sequences * tokens;
    const query = made(random, t, [rows, keyHeads, keyDim]);
    const key = made(random, t, [rows, keyHeads, keyDim]);
    const value = made(random, t, [rows, valueHeads, dim]);
    const gate = made(random, "f32", [rows, valueHeads], 0.8, 1);
    const beta = made(random, "f32", [rows, valueHeads], 0, 1);
    const before = made(random, s, [sequences, valueHeads, dim, keyDim]);
    const run = ([from, to]: readonly [number, number]) => {
      const part = (tensor: Tensor<FloatDType>) => tensor.slice(from * tokens, to * tokens);
      const state = copy(before);
      const out = device.tensor(t, [(to - from) * tokens, valueHeads, dim]);
      const slots = { readSlots: table(from, to), writeSlots: table(from, to) };
      const cuSeqlens = Array.from({ length: to - from + 1 }, (_, i) => i * tokens);
      const tensors = { query: part(query), key: part(key), value: part(value), gate: part(gate), beta: part(beta), out, state };
      device.run(gatedDelta({ ...rest, ...tensors, ...slots, cuSeqlens }));
      device.wait();
      return { out: out.toFloat32(), state: state.slice(from, to).toFloat32() };
    };
    const together = run(all);
    for (const [from, to] of each) {
      const alone = run([from, to]);
      const size = { out: tokens * valueHeads * dim, state: valueHeads * dim * keyDim };
      expectSameBits(`out of ${from}`, alone.out, together.out.subarray(from * size.out, to * size.out));
      expectSameBits(`state of ${from}`, alone.state, together.state.subarray(from * size.state, to * size.state));
    }
  });

  test.each(formats)("gatedDeltaStep: %s, states of %s, key dim %p", (t, s, keyDim) => {
    const random = new Random(keyDim);
    const channels = 2 * keyHeads * keyDim + valueHeads * dim;
    const x = made(random, t, [sequences, channels]);
    const z = made(random, t, [sequences, valueHeads, dim]);
    const gate = made(random, "f32", [sequences, valueHeads], 0.8, 1);
    const beta = made(random, "f32", [sequences, valueHeads], 0, 1);
    const before = made(random, s, [sequences, valueHeads, dim, keyDim]);
    const columns = made(random, t, [sequences, channels, 3]);
    const weights = { convWeight: made(random, "f32", [channels, 4]), normWeight: made(random, "f32", [dim]) };
    const run = ([from, to]: readonly [number, number]) => {
      const [state, convState] = [copy(before), copy(columns)];
      const out = device.tensor(t, [to - from, valueHeads, dim]);
      const part = (tensor: Tensor<FloatDType>) => tensor.slice(from, to);
      const slots = { readSlots: table(from, to), writeSlots: table(from, to) };
      const tensors = { x: part(x), z: part(z), gate: part(gate), beta: part(beta), out, state, convState };
      device.run(gatedDeltaStep({ ...rest, ...weights, ...tensors, ...slots, keyHeads }));
      device.wait();
      return { out: out.toFloat32(), state: state.slice(from, to).toFloat32(), convState: convState.slice(from, to).toFloat32() };
    };
    const together = run(all);
    for (const [from, to] of each) {
      const alone = run([from, to]);
      for (const name of ["out", "state", "convState"] as const) {
        const size = together[name].length / sequences;
        expectSameBits(`${name} of ${from}`, alone[name], together[name].subarray(from * size, to * size));
      }
    }
  });

  // Inputs of more and less than the 2048 that a threadgroup keeps at a time.
  test.each([
    [2, "f32", 288],
    [3, "bf16", 96],
    [4, "bf16", 2304],
    [4, "f16", 320],
    [5, "f32", 96],
    [6, "bf16", 288],
    [8, "f16", 160],
  ] as const)("linear of one row and packed weights of %p bits: %s, %p inputs", (bits, t, inputs) => {
    const random = new Random(bits);
    const outputs = 2051;
    const x = made(random, t, [1, inputs]);
    const weight = device.tensorFrom("u32", [outputs, (inputs * bits) / 32], Uint32Array.from({ length: (outputs * inputs * bits) / 32 }, () => random.below(2 ** 32)));
    const [scales, biases] = [made(random, t, [outputs, inputs / 32], 0, 0.1), made(random, t, [outputs, inputs / 32])];
    const run = (from: number, to: number) => {
      const out = device.tensor("f32", [1, to - from]);
      device.run(linear({ x, weight: weight.slice(from, to), scales: scales.slice(from, to), biases: biases.slice(from, to), out }));
      device.wait();
      return out.toFloat32();
    };
    const together = run(0, outputs);
    for (const [from, to] of [[0, 3], [2000, outputs]] as const) {
      expectSameBits(`outputs ${from} to ${to}`, run(from, to), together.subarray(from, to));
    }
  });
});
