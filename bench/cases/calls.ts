/** The cost of a call from JavaScript, apart from the kernels' work. */
import { StatePool, gatedRmsNorm } from "../../lib/index.ts";
import type { Device, GatedRmsNormArguments, Op, Tensor } from "../../lib/index.ts";
import { time } from "../benchmark.ts";
import type { Benchmark, Budget, Figure } from "../benchmark.ts";
import { filled } from "../operands.ts";

/** The number of ops in a plan: as many as a model of 48 layers has. */
const planOps = 200;

/** One of the smallest ops: the norm of eight numbers. */
export function leastOp(device: Device): { readonly op: Op } & Disposable {
  const { args, tensors } = leastArguments(device);
  return { op: gatedRmsNorm(args), [Symbol.dispose]: () => tensors.forEach((tensor) => tensor[Symbol.dispose]()) };
}

function leastArguments(device: Device): { readonly args: GatedRmsNormArguments; readonly tensors: readonly Tensor[] } {
  const row = () => filled(device, "f32", [1, 8]);
  const args = { x: row(), z: row(), weight: filled(device, "f32", [8]), out: row() };
  return { args, tensors: Object.values(args) };
}

function callBenchmark(
  name: string,
  device: () => Device,
  measure: (device: Device, op: Op, budget: Budget) => Promise<Figure>,
): Benchmark {
  return {
    name,
    threads: 1,
    work: undefined,
    async measure(budget) {
      const opened = device();
      using least = leastOp(opened);
      return await measure(opened, least.op, budget);
    },
  };
}

/** The benchmarks of calls on a device with one thread. */
export function callBenchmarks(device: () => Device): Benchmark[] {
  return [
    callBenchmark("calls/make-op", device, (opened, _, budget) => makeOp(opened, budget)),
    callBenchmark("calls/encode", device, (opened, op, budget) => encode(opened, op, budget)),
    callBenchmark("calls/run-wait", device, (opened, op, budget) =>
      time(() => {
        opened.run(op);
        opened.wait();
      }, budget),
    ),
    callBenchmark("calls/run-wait-over-kernel", device, runOverKernel),
    callBenchmark(`calls/plan-${planOps}-per-op`, device, planPerOp),
    callBenchmark("calls/heap-1e6", device, heapGrowth),
    callBenchmark("calls/decode-plan-per-layer", device, (opened, _, budget) => decodePlan(opened, budget)),
  ];
}

/** Checking the arguments of an op and making it, without running it. */
async function makeOp(device: Device, budget: Budget): Promise<Figure> {
  const { args, tensors } = leastArguments(device);
  try {
    let last: Op | undefined;
    return await time(() => {
      last = gatedRmsNorm(args);
      if (last === undefined) throw new Error("no op"); // an unused result might be optimised away
    }, budget);
  } finally {
    for (const tensor of tensors) tensor[Symbol.dispose]();
  }
}

/** Encoding into a submission that is then dropped, 64 ops at a time. */
async function encode(device: Device, op: Op, budget: Budget): Promise<Figure> {
  const ops = 64;
  const figure = await time(() => {
    for (let i = 0; i < ops; i++) device.encode(op);
    device.discard();
  }, budget);
  return { us: figure.us / ops, usMin: figure.usMin / ops };
}

/** `run` and `wait` of one op, less the op's own time, which is the time that it adds to a plan that holds it more often. */
async function runOverKernel(device: Device, op: Op, budget: Budget): Promise<Figure> {
  const single = await time(() => {
    device.run(op);
    device.wait();
  }, budget);
  const [one, many] = [await planTime(device, op, 1, budget), await planTime(device, op, 1 + planOps, budget)];
  const kernel = (many.us - one.us) / planOps;
  return { us: single.us - kernel, usMin: single.usMin - kernel };
}

async function planPerOp(device: Device, op: Op, budget: Budget): Promise<Figure> {
  const { us, usMin } = await planTime(device, op, planOps, budget);
  return { us: us / planOps, usMin: usMin / planOps };
}

async function planTime(device: Device, op: Op, ops: number, budget: Budget): Promise<Figure> {
  using plan = device.plan((pass) => {
    for (let i = 0; i < ops; i++) pass.encode(op);
  });
  return await time(() => {
    plan.run();
    device.wait();
  }, budget);
}

/** A million calls, waited for now and then: the time of each, and the growth of the heap at the end. */
async function heapGrowth(device: Device, op: Op, budget: Budget): Promise<Figure> {
  const calls = budget.milliseconds < 100 ? 1e5 : 1e6;
  const go = (count: number) => {
    for (let i = 0; i < count; i++) {
      device.run(op);
      if (i % 100 === 99) device.wait();
    }
    device.wait();
  };
  go(10_000); // compiled from here on
  Bun.gc(true);
  const before = heapBytes();
  const since = Bun.nanoseconds();
  go(calls);
  const us = (Bun.nanoseconds() - since) / 1e3 / calls;
  Bun.gc(true);
  return { us, usMin: us, heapBytesPerCall: (heapBytes() - before) / calls };
}

/** The layers of a model's decode, and the ops of each: four projections, the fused step, the output's projection. */
const layers = 36;
const projections = 5;

/**
 * JavaScript's work per token and layer if a whole model's decode is a plan over a pool: a step, a replay, the
 * step's end. The device works meanwhile and is waited for outside the measured time.
 */
async function decodePlan(device: Device, budget: Budget): Promise<Figure> {
  const sizes = { keyHeads: 1, valueHeads: 1, keyDim: 8, valueDim: 8, convWidth: 4 };
  using pool = StatePool.create(device, { slots: 2, layers, ...sizes });
  const handles = [pool.allocate(), pool.allocate()];
  const row = (...shape: number[]) => filled(device, "f32", shape);
  const projection = { x: row(2, 8), weight: row(8, 8), out: row(2, 8) };
  const step = {
    x: row(2, 24), keyHeads: 1, convWeight: row(24, 4), gate: row(2, 1), beta: row(2, 1), z: row(2, 1, 8), normWeight: row(8),
    out: row(2, 1, 8), gateForm: "log",
  } as const;
  const placeholder = pool.placeholder(2);
  using plan = device.plan((pass) => {
    for (let layer = 0; layer < layers; layer++) {
      for (let i = 0; i < projections; i++) pass.linear(projection);
      pass.gatedDeltaStep({ ...step, states: placeholder.layer(layer) });
    }
  });
  const samples: number[] = [];
  const inARow = 8;
  for (let spent = 0; spent < budget.milliseconds * 1e6 || samples.length < budget.leastSamples; ) {
    const since = Bun.nanoseconds();
    for (let i = 0; i < inARow; i++) pool.run(handles, plan);
    const elapsed = Bun.nanoseconds() - since;
    device.wait();
    samples.push(elapsed / 1e3 / inARow / layers);
    spent += elapsed;
  }
  for (const tensor of [...Object.values(projection), ...Object.values(step)]) {
    if (typeof tensor === "object") tensor[Symbol.dispose]();
  }
  samples.sort((a, b) => a - b);
  return { us: samples[samples.length >> 1]!, usMin: samples[0]! };
}

function heapBytes(): number {
  return process.memoryUsage().heapUsed;
}
