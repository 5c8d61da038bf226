/**
 * The objects of a prefix. A block's object has a signature, and the block's keys and values. A prefix's own object has a signature, the
 * tokens (i32), the states after them, and the keys and values of the tokens after the last block. Blocks are shared with other prefixes.
 */
import type { LanguageModel } from "../../model/language-model.ts";
import { partSizes } from "../../model/prefix-parts.ts";
import { blockTokens } from "./prefix-names.ts";
import { signatureBytes } from "./seal.ts";

/** The places of the parts in a prefix's own object, and its size, in bytes. */
export interface EntryPlaces {
  readonly tokens: number;
  readonly state: number;
  readonly rest: number;
  readonly end: number;
}

/** The sizes of a model's objects. */
export class PrefixForm {
  /** Bytes of a block's object. Blocks without keys and values, in a model without attention, are not kept. */
  readonly blockBytes: number;
  readonly #state: number;
  readonly #token: number;

  constructor(model: LanguageModel) {
    const { state, token } = partSizes(model);
    this.#state = state;
    this.#token = token;
    this.blockBytes = signatureBytes + blockTokens * token;
  }

  /** The number of blocks of a prefix. */
  blocks(length: number): number {
    return this.#token === 0 ? 0 : Math.floor(length / blockTokens);
  }

  entry(length: number): EntryPlaces {
    const state = signatureBytes + 4 * length;
    const rest = state + this.#state;
    return { tokens: signatureBytes, state, rest, end: rest + (length % blockTokens) * this.#token };
  }
}
