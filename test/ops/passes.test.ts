/**
 * Ops of one pass behave as if they ran in order: programs of ops that read and write parts of one buffer at random
 * give the same bits in one submission, in one submission per op, and from a plan.
 */
import fc from "fast-check";
import { expect, test } from "bun:test";
import { causalConv1d, copySlots, gatedDelta, gatedRmsNorm, linear } from "../../lib/index.ts";
import type { Device, Op, Tensor } from "../../lib/index.ts";
import { onEachBackend } from "../support/backends.ts";
import { expectSameBits } from "../support/judge.ts";
import { forAll } from "../support/property.ts";
import { Random } from "../support/random.ts";

/** The size of the buffer in which everything happens, in units of 8 elements. */
const units = 160;

/** The kinds of instructions; `at` are the places of an instruction's tensors in the buffer. */
const kinds = ["linear", "norm", "conv", "delta", "copy"] as const;

interface Instruction {
  readonly kind: (typeof kinds)[number];
  readonly at: readonly number[];
}

/** Sizes of each kind's tensors in units, outputs first; those must not overlap anything. */
const extents = {
  linear: { out: [4], in: [4, 8] }, // [4, 8] x, [8, 8] weight
  norm: { out: [4], in: [4, 4, 1] }, // [4, 8] x, z, [8] weight
  conv: { out: [4, 6], in: [4, 4] }, // [4, 8] x, [8, 4] weight, state [2, 8, 3]
  delta: { out: [4, 16], in: [4, 4, 4, 1] }, // [4, 1, 8] query, key, value, [4, 1] gate and beta, [2, 1, 8, 8] state
  copy: { out: [24], in: [] }, // [3, 64]
} as const;

const instruction: fc.Arbitrary<Instruction> = fc.constantFrom(...kinds).chain((kind) => {
  const sizes = [...extents[kind].out, ...extents[kind].in];
  const places = fc.tuple(...sizes.map((size) => fc.integer({ min: 0, max: units - size })));
  return places.map((at) => ({ kind, at })).filter(({ at }) => isLegal(kind, at));
});

function isLegal(kind: Instruction["kind"], at: readonly number[]): boolean {
  const sizes = [...extents[kind].out, ...extents[kind].in];
  const apart = (i: number, j: number) => at[i]! + sizes[i]! <= at[j]! || at[j]! + sizes[j]! <= at[i]!;
  return extents[kind].out.every((_, i) => sizes.every((__, j) => i === j || apart(i, j)));
}

/** The op of an instruction over a buffer. */
function opOf({ kind, at }: Instruction, buffer: Tensor): Op {
  const view = (i: number, ...shape: number[]) => buffer.view({ offset: at[i]! * 8, shape });
  switch (kind) {
    case "linear":
      return linear({ out: view(0, 4, 8), x: view(1, 4, 8), weight: view(2, 8, 8) });
    case "norm":
      return gatedRmsNorm({
        out: view(0, 4, 8),
        x: view(1, 4, 8),
        z: view(2, 4, 8),
        weight: view(3, 8),
        activation: "sigmoid",
      });
    case "conv": {
      const slots = { cuSeqlens: [0, 1, 4], readSlots: [1, 0], writeSlots: [0, 1] };
      return causalConv1d({
        out: view(0, 4, 8),
        state: view(1, 2, 8, 3),
        x: view(2, 4, 8),
        weight: view(3, 8, 4),
        ...slots,
      });
    }
    case "delta":
      return gatedDelta({
        out: view(0, 4, 1, 8),
        state: view(1, 2, 1, 8, 8),
        query: view(2, 4, 1, 8),
        key: view(3, 4, 1, 8),
        value: view(4, 4, 1, 8),
        gate: view(5, 4, 1),
        beta: view(5, 4, 1),
        cuSeqlens: [0, 3, 4],
        readSlots: [1, 0],
        writeSlots: [0, 1],
        gateForm: "raw-bounded",
        gateBound: -1,
        aLog: view(5, 1),
        dtBias: view(5, 1),
        betaForm: "sigmoid",
        qkNorm: "l2",
      });
    case "copy":
      return copySlots({ pool: view(0, 3, 64), readSlots: [2, 0, -1], writeSlots: [0, 2, 1] });
  }
}

onEachBackend("passes", (backend) => {
  const { device } = backend;

  function run(
    program: readonly Instruction[],
    seed: number,
    submit: (device: Device, ops: readonly Op[]) => void,
  ): Float32Array {
    const random = new Random(seed);
    using buffer = device.tensorFrom(
      "f32",
      [units * 8],
      Array.from({ length: units * 8 }, () => random.normal() * 0.5),
    );
    submit(
      device,
      program.map((one) => opOf(one, buffer)),
    );
    device.wait();
    return buffer.toFloat32();
  }

  const programs = fc.tuple(
    fc.array(instruction, { minLength: 1, maxLength: 14 }),
    fc.integer({ min: 1, max: 2 ** 30 }),
  );

  test("programs of dependent ops give the same bits in one submission, in many, and from a plan", () => {
    forAll(backend, 150, programs, ([program, seed]) => {
      const apart = run(program, seed, (on, ops) => {
        for (const op of ops) {
          on.run(op);
          on.wait();
        }
      });
      expectSameBits(
        "in one submission",
        run(program, seed, (on, ops) => void on.run(...ops)),
        apart,
      );
      const inMany = run(program, seed, (on, ops) => {
        for (const op of ops) on.run(op); // not waited for
      });
      expectSameBits("in many submissions", inMany, apart);
      const planned = run(program, seed, (on, ops) => {
        using plan = on.plan((pass) => ops.forEach((op) => pass.encode(op)));
        plan.run();
        on.wait();
      });
      expectSameBits("from a plan", planned, apart);
    });
  });

  test("every kind of op changes its outputs", () => {
    const at = {
      linear: [0, 10, 20],
      norm: [0, 10, 20, 30],
      conv: [0, 10, 20, 30],
      delta: [0, 10, 40, 50, 60, 70],
      copy: [0],
    };
    for (const kind of kinds) {
      expect(isLegal(kind, at[kind])).toBe(true);
      const after = run([{ kind, at: at[kind] }], 3, (on, ops) => void on.run(...ops));
      const before = run([], 3, () => {});
      const changed = Array.from(after, (value, i) => (Object.is(value, before[i]) ? -1 : i)).filter((i) => i >= 0);
      const outputs = extents[kind].out.map((size, i) => [at[kind][i]! * 8, (at[kind][i]! + size) * 8] as const);
      expect(changed.length).toBeGreaterThan(20);
      expect(changed.every((i) => outputs.some(([start, end]) => i >= start && i < end))).toBe(true);
    }
  });
});
