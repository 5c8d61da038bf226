/**
 * Records which layers and kinds of state the ops of one pass have written. A pass is complete when each of the pool's layers
 * was written once in each kind that the pool holds. A slot that was not written would hold another conversation's state.
 */
import { GatedDeltaError } from "../errors.ts";
import type { StateKind } from "../ops/layer-states.ts";
import type { LayerUse, Participant } from "../ops/recorder.ts";
import { Outcome } from "./content.ts";

const none = 0;
/** The op is encoded but not committed yet. */
const encoded = 1;
const written = 2;

export class Coverage implements Participant {
  readonly outcome = new Outcome();
  readonly #layers: number;
  readonly #kinds: readonly StateKind[];
  /** One mark for each layer and kind, layer by layer. A plain array, so that a replay of a plan allocates no typed one. */
  readonly #marks: number[];
  readonly #name: "step" | "draft";
  readonly #required: boolean;
  /** Whether ops of the pass are in the open submission. */
  #open = false;
  #ran = false;
  #commitRefused = false;
  /** Whether one submission must hold the whole pass. */
  #whole = false;

  /** @param required whether every layer and kind must be written: false if the pass has no sequences or tokens. */
  constructor(name: "step" | "draft", layers: number, kinds: readonly StateKind[], required: boolean) {
    this.#name = name;
    this.#required = required;
    this.#layers = layers;
    this.#kinds = kinds;
    this.#marks = Array<number>(layers * kinds.length).fill(none);
  }

  /** Whether work of the pass was committed, or done by kernels of other libraries. */
  get ran(): boolean {
    return this.#ran;
  }

  /** Whether ops of the pass are encoded but not committed. */
  get pending(): boolean {
    return this.#open;
  }

  /** Whether a submission with ops of the pass must complete it. */
  get whole(): boolean {
    return this.#whole;
  }

  /** Refuses submissions with ops of the pass that do not complete it. */
  requireWhole(): void {
    this.#whole = true;
  }

  /** Throws if these states were written before. */
  expectUnwritten(op: string, { layer, kinds }: LayerUse): void {
    for (const kind of kinds) {
      if (this.#marks[this.#index(op, layer, kind)] === none) continue;
      const message = `this ${this.#name} has already written the ${kind} of layer ${layer}: write each layer once`;
      throw new GatedDeltaError("state", { op, argument: "states", message });
    }
  }

  /** Records an op that was encoded into the open submission. */
  encode(op: string, { layer, kinds }: LayerUse): void {
    this.#open = true;
    for (const kind of kinds) this.#marks[this.#index(op, layer, kind)] = encoded;
  }

  /** Records an op of a draft's commit, which writes a layer's state again. */
  encodeMore(): void {
    this.#open = true;
  }

  /** Records states that a kernel of another library has written. */
  wrote(op: string, use: LayerUse): void {
    this.expectUnwritten(op, use);
    this.#ran = true;
    for (const kind of use.kinds) this.#marks[this.#index(op, use.layer, kind)] = written;
  }

  /** Throws if a layer or kind is missing; the states of `upcoming` are about to be written. */
  expectComplete(op: string, committed: boolean, upcoming: readonly LayerUse[] = []): void {
    if (!this.#required) return;
    const least = committed ? written : encoded;
    for (const [at, mark] of this.#marks.entries()) {
      const layer = Math.floor(at / this.#kinds.length);
      const kind = this.#kinds[at % this.#kinds.length]!;
      if (mark >= least || upcoming.some((use) => use.layer === layer && use.kinds.includes(kind))) continue;
      const missing = `the ${kind} of layer ${layer}`;
      const message = mark === encoded
        ? `the op that writes ${missing} is encoded but not committed: call device.submit() first`
        : `no op has written ${missing}: give every layer's ops \`states: ${this.#name}.layer(i)\``;
      throw new GatedDeltaError("state", { op, message });
    }
  }

  /** Throws if a submission must complete the pass but does not, even with the states of `upcoming`. */
  expectWhole(op: string, upcoming: readonly LayerUse[]): void {
    if (this.#whole) this.expectComplete(op, false, upcoming);
  }

  /** Refuses submissions with ops of the pass: it was undone. */
  refuseCommit(): void {
    this.#commitRefused = true;
  }

  beforeCommit(op: string): void {
    if (this.#commitRefused) {
      const message = `a ${this.#name} was undone before its submission: call device.discard(), which drops the ops that were encoded with it`;
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
