/**
 * The objects of a prefix. A block's: a signature, and its keys and values. A prefix's own: a signature, its tokens (i32), the states after
 * them, and the keys and values of the tokens after its last block. The blocks before are shared with other prefixes.
 */
import type { LanguageModel } from "../../model/language-model.ts";
import { partSizes } from "../../model/prefix-parts.ts";
import { blockTokens } from "./prefix-names.ts";
import { signatureBytes } from "./seal.ts";

/** Where the parts of a prefix's own object are, and its size, in bytes. */
export interface EntryPlaces {
  readonly tokens: number;
  readonly state: number;
  readonly rest: number;
  readonly end: number;
}

/** The sizes of a model's objects. */
export class PrefixForm {
  /** Bytes of a block's object. Blocks without keys and values, of a model without attention, are not kept. */
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
