/**
 * A pool of states together with a plain model of it. Tokens are small numbers, and the ops are set up so that every state is
 * a simple function of the tokens: token n writes n into column n mod 8 of the recurrent state (decay 1, β 1, a unit
 * vector as key, so δ is what is missing), and the convolution's state holds the last three tokens. All of it is exact.
 */
import { expect } from "bun:test";
import { Draft, StatePool } from "../../lib/index.ts";
import type { Device, PoolStep, StateHandle, Tensor } from "../../lib/index.ts";

const dim = 8;
const channels = 3 * dim;
const past = 3;
/** Most tokens of one pass. */
const mostTokens = 64;

/** The content of a state. */
export interface Content {
  readonly columns: readonly number[];
  readonly last: readonly number[];
}

/** The state of no tokens. */
export const nothing: Content = { columns: Array<number>(dim).fill(0), last: Array<number>(past).fill(0) };

/** A state after more tokens. */
export function after(content: Content, tokens: readonly number[]): Content {
  const columns = [...content.columns];
  for (const n of tokens) columns[n % dim] = n;
  return { columns, last: [...content.last, ...tokens].slice(-past) };
}

/** The pool's pass, on tensors that are allocated once. */
export class SimplePool {
  readonly pool: StatePool;
  readonly #device: Device;
  readonly #stack = new DisposableStack();
  readonly #x: Tensor<"f32">;
  readonly #convOut: Tensor<"f32">;
  readonly #key: Tensor<"f32">;
  readonly #value: Tensor<"f32">;
  readonly #out: Tensor<"f32">;
  readonly #ones: Tensor<"f32">;
  readonly #weight: Tensor<"f32">;

  constructor(device: Device, slots: number) {
    this.#device = device;
    const sizes = { layers: 1, keyHeads: 1, valueHeads: 1, keyDim: dim, valueDim: dim, convWidth: past + 1 };
    this.pool = this.#stack.use(StatePool.create(device, { slots, ...sizes }));
    const make = (...shape: number[]) => this.#stack.use(device.tensor("f32", shape));
    this.#x = make(mostTokens, channels);
    this.#convOut = make(mostTokens, channels);
    this.#key = make(mostTokens, 1, dim);
    this.#value = make(mostTokens, 1, dim);
    this.#out = make(mostTokens, 1, dim);
    this.#ones = make(mostTokens, 1);
    this.#ones.data.fill(1);
    this.#weight = make(channels, past + 1);
  }

  /** Runs each sequence's tokens through both ops, and waits. */
  run(pass: PoolStep | Draft, lists: readonly (readonly number[])[]): void {
    const tokens = lists.flat();
    if (tokens.length > mostTokens) throw new Error("too many tokens for one pass");
    const cuSeqlens = [0];
    for (const list of lists) cuSeqlens.push(cuSeqlens.at(-1)! + list.length);
    const x = pass instanceof Draft ? pass.convInput(0) : this.#x.slice(0, tokens.length);
    for (const [t, n] of tokens.entries()) {
      x.data.fill(n, t * channels, (t + 1) * channels);
      this.#key.data.fill(0, t * dim, (t + 1) * dim)[t * dim + (n % dim)] = 1;
      this.#value.data.fill(n, t * dim, (t + 1) * dim);
    }
    const rows = (tensor: Tensor) => tensor.slice(0, tokens.length);
    const common = { states: pass.layer(0), ...(pass instanceof Draft ? {} : { cuSeqlens }) };
    const ones = rows(this.#ones);
    this.#device.run((ops) => {
      ops.causalConv1d({ x, weight: this.#weight, out: rows(this.#convOut), ...common });
      ops.gatedDelta({
        query: rows(this.#key), key: rows(this.#key), value: rows(this.#value), gate: ones, beta: ones, out: rows(this.#out),
        gateForm: "decay", ...common,
      });
    });
    this.#device.wait();
  }

  /** Fails unless a handle's state is the model's. */
  expectContent(handle: StateHandle, content: Content): void {
    const { slot } = handle;
    const state = slot < 0 ? new Float32Array(dim * dim) : (this.pool.state(0).data as Float32Array).subarray(slot * dim * dim, (slot + 1) * dim * dim);
    const conv = slot < 0 ? new Float32Array(channels * past) : (this.pool.conv(0).data as Float32Array).subarray(slot * channels * past, (slot + 1) * channels * past);
    let wrong = 0;
    for (let i = 0; i < state.length; i++) if (state[i] !== content.columns[i % dim]) wrong++;
    for (let i = 0; i < conv.length; i++) if (conv[i] !== content.last[i % past]) wrong++;
    if (wrong > 0) expect({ columns: [...state.subarray(0, dim)], last: [...conv.subarray(0, past)] }).toEqual(content as never);
    if (wrong > 0) throw new Error(`${wrong} numbers beyond the first row are wrong`);
  }

  [Symbol.dispose](): void {
    this.#stack.dispose();
  }
}
