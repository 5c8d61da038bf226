/**
 * Which layers and kinds of state the ops of one pass have written. A pass over some states is complete when each of
 * the pool's layers was written once in each kind that the pool holds: what was not written would be what the slot held
 * before, that is, another conversation's state.
 */
import { GatedDeltaError } from "../errors.ts";
import type { StateKind } from "../ops/layer-states.ts";
import type { LayerUse, Participant } from "../ops/recorder.ts";
import { Outcome } from "./content.ts";

const none = 0;
/** An op that writes it was encoded and not committed yet. */
const encoded = 1;
const written = 2;

export class Coverage implements Participant {
  readonly outcome = new Outcome();
  readonly #layers: number;
  readonly #kinds: readonly StateKind[];
  /** Of each layer and kind, layer by layer. A plain array: a replay of a plan makes no typed one. */
  readonly #marks: number[];
  readonly #name: "step" | "draft";
  readonly #required: boolean;
  /** Whether ops of the pass are in the open submission. */
  #open = false;
  #ran = false;
  #left = false;
  /** Whether a submission must hold the whole rest of the pass. */
  #whole = false;

  /** @param required whether every layer and kind must be written: not where there is nothing to write. */
  constructor(name: "step" | "draft", layers: number, kinds: readonly StateKind[], required: boolean) {
    this.#name = name;
    this.#required = required;
    this.#layers = layers;
    this.#kinds = kinds;
    this.#marks = Array<number>(layers * kinds.length).fill(none);
  }

  /** Whether work of the pass was committed, or done by somebody else's kernels. */
  get ran(): boolean {
    return this.#ran;
  }

  /** Whether ops of the pass are encoded and not committed. */
  get pending(): boolean {
    return this.#open;
  }

  /** From now on a submission with ops of the pass is refused unless it completes the pass. */
  requireWhole(): void {
    this.#whole = true;
  }

  /** Throws where an op may not write these states: a second time, or after another pass's end. */
  expectUnwritten(op: string, { layer, kinds }: LayerUse): void {
    for (const kind of kinds) {
      if (this.#marks[this.#index(op, layer, kind)] === none) continue;
      const message = `this ${this.#name} has written the ${kind} of layer ${layer} already: each layer is written once`;
      throw new GatedDeltaError("state", { op, argument: "states", message });
    }
  }

  /** Notes an op that was encoded into the open submission. */
  encode(op: string, { layer, kinds }: LayerUse): void {
    this.#open = true;
    for (const kind of kinds) this.#marks[this.#index(op, layer, kind)] = encoded;
  }

  /** Notes ops of the pass beside those that write a layer's state for the first time: those of a draft's commit. */
  encodeMore(): void {
    this.#open = true;
  }

  /** Notes what somebody else's kernel has written. */
  wrote(op: string, use: LayerUse): void {
    this.expectUnwritten(op, use);
    this.#ran = true;
    for (const kind of use.kinds) this.#marks[this.#index(op, use.layer, kind)] = written;
  }

  /** Throws where a layer or kind is missing; `further` are about to be written. */
  expectComplete(op: string, committed: boolean, further: readonly LayerUse[] = []): void {
    if (!this.#required) return;
    const least = committed ? written : encoded;
    for (const [at, mark] of this.#marks.entries()) {
      const layer = Math.floor(at / this.#kinds.length);
      const kind = this.#kinds[at % this.#kinds.length]!;
      if (mark >= least || further.some((use) => use.layer === layer && use.kinds.includes(kind))) continue;
      const what = `the ${kind} of layer ${layer}`;
      const message = mark === encoded
        ? `the op that writes ${what} is encoded but not committed: call device.submit() first`
        : `no op has written ${what}: give every layer's ops \`states: ${this.#name}.layer(i)\``;
      throw new GatedDeltaError("state", { op, message });
    }
  }

  /** Throws where a submission must complete the pass and `further`, about to be written, do not. */
  expectWhole(op: string, further: readonly LayerUse[]): void {
    if (this.#whole) this.expectComplete(op, false, further);
  }

  /** The pass was left: ops of it that are encoded must never be committed. */
  leave(): void {
    this.#left = true;
  }

  beforeCommit(op: string): void {
    if (this.#left) {
      const message = `ops of a ${this.#name} that was left are encoded: call device.discard(), which drops them`;
      throw new GatedDeltaError("state", { op, message });
    }
    if (this.#whole) this.expectComplete(op, false);
  }

  committed(): void {
    this.outcome.expect();
    this.#ran = true;
    this.#open = false;
    for (let at = 0; at < this.#marks.length; at++) if (this.#marks[at] === encoded) this.#marks[at] = written;
  }

  discarded(): void {
    this.#open = false;
    for (let at = 0; at < this.#marks.length; at++) if (this.#marks[at] === encoded) this.#marks[at] = none;
  }

  settled(failure: Error | undefined): void {
    this.outcome.settle(failure);
  }

  #index(op: string, layer: number, kind: StateKind): number {
    const at = this.#kinds.indexOf(kind);
    if (at >= 0 && layer < this.#layers) return layer * this.#kinds.length + at;
    const expected = `a pool that holds ${kind === "conv" ? "convolution" : "recurrent"} states`;
    throw new GatedDeltaError("invalid-argument", { op, argument: "states", expected, received: "one created without them" });
  }
}
