/** Small state pools, a two-layer model that runs on them, and its correct states. */
import { StatePool } from "../../lib/index.ts";
import type { Device, PoolStep, StateHandle, StatePoolOptions, Tensor } from "../../lib/index.ts";
import { counting } from "./devices.ts";
import { Random } from "./random.ts";

/** Sizes of the pools. */
export const sizes = { layers: 2, keyHeads: 1, valueHeads: 2, keyDim: 8, valueDim: 8, convWidth: 4 } as const;
const { keyHeads, valueHeads, keyDim, valueDim } = sizes;
/** Channels of their convolutions. */
export const channels = 2 * keyHeads * keyDim + valueHeads * valueDim;

/** The input of one token, determined by the seed. */
function tokenOf(seed: number): { readonly x: number[]; readonly gate: number[]; readonly beta: number[] } {
  const random = new Random(seed);
  const many = (count: number, next: () => number) => Array.from({ length: count }, next);
  return {
    x: many(channels, () => random.normal()),
    gate: many(valueHeads, () => -Math.exp(random.uniform(-4, 1))),
    beta: many(valueHeads, () => random.uniform()),
  };
}

/** A state in all layers, as bits. */
type Content = readonly number[];

const bitsOf = (tensor: Tensor, slot: number): number[] => {
  const row = tensor.slice(slot, slot + 1).toFloat32();
  return [...new Uint32Array(row.buffer)];
};

/** Ends a step as if other kernels had written all of it. */
export function finish(step: PoolStep): void {
  for (let layer = 0; layer < step.pool.layers; layer++) for (const kind of ["state", "conv"] as const) step.wrote(layer, kind);
  step.done();
}

/** The model and its pools on one device. */
export function statesOn(device: Device) {
  function newPool(slots: number, options: Partial<StatePoolOptions> = {}): StatePool {
    return StatePool.create(device, { slots, ...sizes, ...options });
  }

  /** One forward pass of both layers: sequence i gets `lists[i]`'s tokens. Encodes and commits. */
  function run(step: PoolStep, lists: readonly (readonly number[])[]): void {
    const tokens = lists.flat().map(tokenOf);
    const cuSeqlens = [0];
    for (const list of lists) cuSeqlens.push(cuSeqlens.at(-1)! + list.length);
    const from = (shape: number[], values: number[]) => device.tensorFrom("f32", shape, values);
    const count = tokens.length;
    const gate = from(
      [count, valueHeads],
      tokens.flatMap((token) => token.gate),
    );
    const beta = from(
      [count, valueHeads],
      tokens.flatMap((token) => token.beta),
    );
    const weight = counting(device, "f32", [channels, 4], -0.3, 0.01);
    let x = from(
      [count, channels],
      tokens.flatMap((token) => token.x),
    );
    device.run((pass) => {
      for (let layer = 0; layer < sizes.layers; layer++) {
        const states = step.layer(layer);
        const packed = device.tensor("f32", [count, channels]);
        pass.causalConv1d({ x, weight, out: packed, cuSeqlens, states });
        const part = (start: number, heads: number, dim: number) =>
          packed.narrow(1, start, heads * dim).reshape([count, heads, dim]);
        const next = device.tensor("f32", [count, channels]);
        const out = next.narrow(1, 0, valueHeads * valueDim).reshape([count, valueHeads, valueDim]);
        pass.gatedDelta({
          query: part(0, keyHeads, keyDim),
          key: part(keyHeads * keyDim, keyHeads, keyDim),
          value: part(2 * keyHeads * keyDim, valueHeads, valueDim),
          gate,
          beta,
          states,
          out,
          gateForm: "log",
          qkNorm: "l2",
          cuSeqlens,
        });
        x = next;
      }
    });
  }

  /** The state after these tokens, computed from scratch and alone. */
  const contents = new Map<string, Content>();
  function fromScratch(tokens: readonly number[]): Content {
    const key = tokens.join();
    let content = contents.get(key);
    if (content === undefined) {
      using pool = newPool(1);
      const handle = pool.allocate();
      for (const token of tokens) advance(pool, [handle], [[token]]);
      device.wait();
      content = bitsIn(pool, 0);
      contents.set(key, content);
    }
    return content;
  }

  /** The contents of a slot in all layers. */
  function bitsIn(pool: StatePool, slot: number): Content {
    return [pool.state(0), pool.state(1), pool.conv(0), pool.conv(1)].flatMap((tensor) => bitsOf(tensor, slot));
  }

  /** A handle's current state; one without a slot has the content of no tokens. */
  function contentOf(pool: StatePool, handle: StateHandle): Content {
    return handle.slot < 0 ? fromScratch([]) : bitsIn(pool, handle.slot);
  }

  function advance(pool: StatePool, handles: readonly StateHandle[], lists: readonly (readonly number[])[]): void {
    const step = pool.step(handles);
    run(step, lists);
    step.done();
  }

  /** Writes NaN over all of a pool. */
  function poison(pool: StatePool): void {
    for (let layer = 0; layer < pool.layers; layer++) {
      pool.state(layer).data.fill(NaN);
      pool.conv(layer).data.fill(NaN);
    }
  }

  return { newPool, fromScratch, contentOf, run, advance, poison };
}
