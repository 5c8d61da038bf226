/**
 * The names of prefixes of conversations. A name reveals nothing without the servers' secret, and equal names mean equal bits: names depend
 * on the model, the dtypes, the kernels, the salt, and every token of the prefix.
 *
 *     h(0)     = HMAC(secret, scope)
 *     h(k + 1) = SHA-256(h(k), tokens of block k)               names block k, and the set of lengths of prefixes that end in block k + 1
 *     e(n)     = SHA-256(h(k), "entry", n, tokens 256 k .. n)   names the prefix of n tokens, k = floor(n / 256)
 */
import { createHash, createHmac } from "node:crypto";
import { loadedInfo } from "../../native/library.ts";
import type { LanguageModel } from "../../model/language-model.ts";
import type { Prompts } from "../../model/model-options.ts";
import { partForm } from "../../model/prefix-parts.ts";

/** Number of tokens of a block. */
export const blockTokens = 256;

/** The version of the form of objects and names. */
const version = "gated-delta-prefix-1";

/** Everything that the bits of a prefix depend on, except its tokens. */
export interface PrefixScope {
  /** The model's identity. */
  readonly identity: string;
  /** The dtypes of activations, states, keys and values. */
  readonly form: string;
  /** The backend and its instruction set, within which bits are equal, or a GPU's name; and the library's version. */
  readonly kernels: string;
  /** How read tokens are multiplied. If this differs from generated tokens, a prefix of the model has only read tokens. */
  readonly roles: Prompts;
  readonly salt: string;
}

/** The scope of a model's prefixes. */
export function scopeOf(model: LanguageModel, identity: string, salt: string): PrefixScope {
  const { device } = model;
  const kernels = [device.backend, device.backend === "cpu" ? device.isa : device.name, loadedInfo().version].join(" ");
  return { identity, form: partForm(model), kernels, roles: model.prompts, salt };
}

/** The names of the prefixes of some tokens. */
export class PrefixNames {
  readonly #tokens: Int32Array;
  /** h(0), h(1), … as far as they were needed. */
  readonly #chain: Buffer[];

  constructor(secret: Uint8Array, { identity, form, kernels, roles, salt }: PrefixScope, tokens: Int32Array) {
    this.#tokens = tokens;
    this.#chain = [createHmac("sha256", secret).update(JSON.stringify([version, "names", identity, form, kernels, roles, salt])).digest()];
  }

  /** The name of the keys and values of block `block`. */
  block(block: number): string {
    return `blocks/${hex(this.#after(block + 1))}`;
  }

  /** The name of the set of lengths of prefixes that end in block `block` or right before it. */
  lengths(block: number): string {
    return `lengths/${hex(this.#after(block))}`;
  }

  /** The name of the prefix of `length` tokens. */
  entry(length: number): string {
    const block = Math.floor(length / blockTokens);
    const hash = createHash("sha256").update(this.#after(block)).update(`entry ${length}`);
    return `entries/${hash.update(this.#bytes(block * blockTokens, length)).digest("hex")}`;
  }

  #after(blocks: number): Buffer {
    for (let k = this.#chain.length - 1; k < blocks; k++) {
      this.#chain.push(createHash("sha256").update(this.#chain[k]!).update(this.#bytes(k * blockTokens, (k + 1) * blockTokens)).digest());
    }
    return this.#chain[blocks]!;
  }

  #bytes(from: number, to: number): Uint8Array {
    const { buffer, byteOffset } = this.#tokens;
    return new Uint8Array(buffer, byteOffset + 4 * from, 4 * (to - from));
  }
}

function hex(hash: Buffer): string {
  return hash.toString("hex");
}
