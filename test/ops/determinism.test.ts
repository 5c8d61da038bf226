/** The same bits at every run, on any number of threads, and replayed from a plan. */
import { describe, expect, test } from "bun:test";
import { Device } from "../../lib/index.ts";
import type { Pass } from "../../lib/index.ts";
import { availability, onEachBackend } from "../support/backends.ts";
import { buildCausalConv1d } from "../support/cases.ts";
import { everyOp, large, runEach, small } from "../support/every-op.ts";
import type { PlacedOp } from "../support/every-op.ts";
import { expectSameBits } from "../support/judge.ts";
import { Layouts, download } from "../support/layouts.ts";
import { plainConv } from "../support/plain-specs.ts";
import { Random } from "../support/random.ts";
import { allF32, placeCausalConv1d } from "../support/run-ops.ts";

function expectSame(
  subject: string,
  one: ReadonlyMap<string, Float32Array[]>,
  other: ReadonlyMap<string, Float32Array[]>,
): void {
  for (const [name, results] of one) {
    results.forEach((result, i) => expectSameBits(`${subject}, ${name} ${i}`, other.get(name)![i]!, result));
  }
}

onEachBackend("determinism", ({ device, emulated }) => {
  const scale = emulated ? small : large;

  test("run to run", () => {
    const first = runEach(device, scale);
    expect([...first.values()].flat().every((result) => result.some((value) => value !== 0))).toBe(true);
    for (let run = 1; run < 4; run++) expectSame(`run ${run}`, first, runEach(device, scale));
  });

  test("all ops in one submission, and each in one of its own", () => {
    const apart = runEach(device, scale);
    using layouts = new Layouts(device, new Random(8));
    const ops = everyOp(layouts, scale);
    device.run(...ops.map(({ op }) => op));
    device.wait();
    expectSame("together", apart, new Map(ops.map(({ name, results }) => [name, results()])));
  });

  test("replays of a plan, over and over, and the same runs without one", () => {
    using planned = new Layouts(device, new Random(8));
    using direct = new Layouts(device, new Random(9));
    const [replayed, run] = [everyOp(planned, scale), everyOp(direct, scale)];
    using plan = device.plan((pass) => {
      for (const { op } of replayed) pass.encode(op);
    });
    for (let time = 0; time < 3; time++) {
      plan.run();
      device.run(...run.map(({ op }) => op));
      device.wait();
      const all = (ops: readonly PlacedOp[]) => new Map(ops.map(({ name, results }) => [name, results()]));
      expectSame(`replay ${time}`, all(run), all(replayed));
    }
  });

  test("a plan reads its slots and row offsets anew at every replay", () => {
    const random = new Random(6);
    const lengths = [6, 3];
    const batch = { lengths, rowsBeyond: 3, slots: 4, readSlots: [0, 1], writeSlots: [0, 1] };
    const given = buildCausalConv1d({ ...plainConv, channels: 40, batch });
    using planned = new Layouts(device);
    using direct = new Layouts(device);
    const [one, other] = [placeCausalConv1d(planned, given, allF32), placeCausalConv1d(direct, given, allF32)];
    const indices = {
      cuSeqlens: Int32Array.from([0, 6, 9]),
      readSlots: new Int32Array(2),
      writeSlots: Int32Array.from([0, 1]),
    };
    const slots = device.tensorFrom("i32", [2], [0, 1]);
    const build = (args: typeof one) => (pass: Pass) => {
      pass.causalConv1d({ ...args, ...indices });
      pass.copySlots({ pool: args.state!, readSlots: indices.readSlots, writeSlots: slots });
    };
    using plan = device.plan(build(one));
    for (let time = 0; time < 6; time++) {
      indices.cuSeqlens.set([0, random.below(7), 7 + random.below(3)]);
      indices.readSlots.set([random.below(5) - 1, random.below(5) - 1]);
      indices.writeSlots.set(random.distinct(2, 4));
      slots.copyFrom(random.distinct(2, 4));
      plan.run();
      device.run(build(other));
      device.wait();
      expectSameBits(`replay ${time} state`, download(one.state!), download(other.state!));
      const used = indices.cuSeqlens[2]!;
      expectSameBits(`replay ${time} out`, download(one.out, used), download(other.out, used));
    }
  });
});

describe("threads of the CPU", () => {
  if (!availability.some(({ name }) => name === "cpu")) return;
  test("1, 2, 3 and 5 give the same bits", () => {
    using one = Device.open({ backend: "cpu", threads: 1 });
    const alone = runEach(one, large);
    for (const threads of [2, 3, 5]) {
      using device = Device.open({ backend: "cpu", threads });
      expect(device.threads).toBe(threads);
      for (let run = 0; run < 3; run++) expectSame(`${threads} threads`, alone, runEach(device, large));
    }
  });
  test("devices that share the threads at the same time give the bits that each gives alone", () => {
    using one = Device.open({ backend: "cpu", threads: 2 });
    const alone = runEach(one, large);
    using other = Device.open({ backend: "cpu", threads: 3 });
    using first = new Layouts(one, new Random(8));
    using second = new Layouts(other, new Random(8));
    const work = [everyOp(first, large), everyOp(second, large)] as const;
    for (const i of work[0].keys()) {
      one.run(work[0][i]!.op);
      other.run(work[1][i]!.op);
    }
    one.wait();
    other.wait();
    for (const ops of work) expectSame("at once", alone, new Map(ops.map(({ name, results }) => [name, results()])));
  });
});
