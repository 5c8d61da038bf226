/**
 * A Worker that takes its own states through steps, over inputs and outputs in SharedArrayBuffers, until it ends or
 * is ended with work in flight. Every number that it writes to its output or its states is its own.
 */
import { Device, StatePool, gatedDelta } from "../../lib/index.ts";
import type { BackendName } from "../../lib/index.ts";
import { Random } from "../support/random.ts";

/** The Worker's task. */
export interface Order {
  readonly backend: BackendName;
  readonly seed: number;
  /** The number that it writes. */
  readonly number: number;
  /** The place of its outputs. The rest of the buffer is not its own. */
  readonly out: SharedArrayBuffer;
  readonly outOffset: number;
  /** How it ends by itself; otherwise it runs until it is terminated. */
  readonly end: "exit" | "throw" | "terminate";
  /** The number of steps after which it ends, or says that it can be terminated. */
  readonly steps: number;
  /** The number of further steps that are then in flight. */
  readonly inFlight: number;
}

/** Sizes of its work: a step takes a few milliseconds. */
export const work = { heads: 2, dim: 64, tokens: 128, slots: 3, layers: 2 } as const;
/** Bytes of the memory that it wraps: its output, its queries and its gates. */
export const wrappedBytes = { out: work.tokens * work.heads * work.dim * 4, gates: Math.max(16384, work.tokens * work.heads * 4) } as const;

declare const self: Worker;

self.onmessage = ({ data: order }: MessageEvent<Order>) => run(order);

function run({ backend, seed, number, out: shared, outOffset, end, steps, inFlight }: Order): void {
  const random = new Random(seed);
  const { heads, dim, tokens, slots, layers } = work;
  const device = Device.open({ backend, threads: 2 });
  const sizes = { layers, keyHeads: heads, valueHeads: heads, keyDim: dim, valueDim: dim, conv: false };
  const pool = StatePool.create(device, { slots, ...sizes });
  const wrapped = (shape: readonly number[], bytes: number) => device.wrap("f32", shape, new SharedArrayBuffer(bytes));
  const key = wrapped([tokens, heads, dim], wrappedBytes.out);
  const value = wrapped([tokens, heads, dim], wrappedBytes.out);
  for (let row = 0; row < tokens * heads; row++) key.data[row * dim + (row % dim)] = 1;
  value.data.fill(number);
  const gates = wrapped([tokens, heads], wrappedBytes.gates);
  gates.data.fill(1);
  const out = device.wrap("f32", [tokens, heads, dim], new Uint8Array(shared, outOffset, wrappedBytes.out));
  const states = [pool.allocate(), pool.allocate()];
  for (let step = 0; ; step++) {
    const state = states[random.below(states.length)]!;
    pool.run([state], (pass) => Array.from({ length: layers }, (_, layer) => gatedDelta({
      query: key, key, value, gate: gates, beta: gates, gateForm: "decay", scale: 1, out, states: pass.layer(layer),
    })));
    if (step === steps + inFlight) {
      postMessage("busy");
      if (end === "exit") process.exit(0);
      if (end === "throw") throw new Error("ends on purpose");
    }
    if (step % 4 !== 3 || (step >= steps && step < steps + 2 * inFlight)) continue;
    device.wait();
    const { slot } = state;
    const data = pool.state(random.below(layers)).data.subarray(slot * heads * dim * dim, (slot + 1) * heads * dim * dim);
    const foreign = data.find((each) => each !== number && each !== 0);
    if (foreign !== undefined) postMessage(`a state of Worker ${number} holds ${foreign}`);
  }
}
