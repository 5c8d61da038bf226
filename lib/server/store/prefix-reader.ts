/** Continues conversations from a store. */
import { snapshotOfParts } from "../../model/prefix-parts.ts";
import type { TokenBytes } from "../../model/prefix-parts.ts";
import { conversationOf } from "../../model/session/session.ts";
import type { Session } from "../../model/session/session.ts";
import { Stored } from "../../model/session/stored.ts";
import { within } from "../event-stream.ts";
import type { StoreContext } from "./prefixes.ts";
import { blockTokens } from "./prefix-names.ts";
import type { PrefixNames } from "./prefix-names.ts";
import { Places } from "./places.ts";
import { signatureBytes } from "./seal.ts";

/** The least number of tokens that a prefix must save. */
export const leastTokens = 64;

/** Milliseconds in which a prefix must be found, and in which it must arrive. */
const findLimit = 2000;
const readLimit = 30_000;
/** Milliseconds for which a request waits for the model's identity, which takes many seconds the first time a large model is loaded. */
const identityLimit = 250;

/** Number of sets that are read at first; it doubles with each further call. */
const firstSets = 32;
/** Number of names that are asked for at a time. */
const mostNames = 64;
/** How many prefixes are tried if objects turn out to be missing or damaged. */
const mostTries = 3;
/** How many blocks and prefixes are fetched at a time, and how many more prefixes wait: if that many wait, tokens are read instead. */
const blocksAtOnce = 4;
const prefixesAtOnce = 4;
const prefixesWaiting = 8;

export class PrefixReader {
  readonly #context: StoreContext;
  /** Prefixes that are being read, by name: requests for the same prefix share it. */
  readonly #pending = new Map<string, Promise<Stored | undefined>>();
  readonly #places = new Places(prefixesAtOnce);

  constructor(context: StoreContext) {
    this.#context = context;
  }

  /**
   * Continues a session from the longest prefix of its tokens in the store, if that saves enough tokens that the cache does not have.
   *
   * @returns the number of tokens that need not be read; 0 if there is no such prefix or the store fails.
   */
  async restore(session: Session, salt: string): Promise<number> {
    const { link, figures, identified, names: namesOf } = this.#context;
    const of = conversationOf(session);
    // The last token is read for its logits. Where roles matter, a prefix in the store has only read tokens.
    const most = Math.min(of.tokens.length - 1, of.byRole ? of.generated.next(-1) : Infinity);
    const least = of.knownInCache + leastTokens;
    if (most < least || !link.there) return 0;
    if ((await within(identified(), identityLimit)) === undefined || session.disposed) return 0;
    const tokens = session.tokens;
    const found = await link.try(findLimit, async () => {
      const names = await namesOf(tokens, salt);
      return { names, lengths: await this.#find(names, least, most) };
    });
    for (const length of found?.lengths.slice(0, mostTries) ?? []) {
      const stored = await this.#stored(found!.names, tokens.subarray(0, length));
      if (stored === undefined) continue;
      if (session.disposed) return 0;
      of.continueFrom(stored);
      figures.restored++;
      figures.restoredTokens += length;
      return length;
    }
    return 0;
  }

  /** Lengths of stored prefixes, the longest first; only some of the longest. */
  async #find(names: PrefixNames, least: number, most: number): Promise<number[]> {
    const { store, form } = this.#context;
    let last = Math.floor(most / blockTokens);
    for (let count = firstSets; last >= Math.floor(least / blockTokens); count *= 2) {
      const first = Math.max(Math.floor(least / blockTokens), last - count + 1);
      const blocks = Array.from({ length: last - first + 1 }, (_, i) => last - i);
      const sets = await store.members(blocks.map((block) => names.lengths(block)));
      const lengths = blocks.flatMap((block, i) => lengthsIn(sets[i] ?? [], block).filter((length) => length >= least && length <= most));
      for (let at = 0; at < lengths.length; at += mostNames) {
        const some = lengths.slice(at, at + mostNames);
        const there = await store.has(some.map((length) => ({ name: names.entry(length), bytes: form.entry(length).end })));
        const found = some.filter((_, i) => there[i]);
        if (found.length > 0) return found;
      }
      last = first - 1;
    }
    return [];
  }

  /** A prefix, from a read that others may share; undefined if it is missing, the store fails, or too many prefixes are being read. */
  async #stored(names: PrefixNames, tokens: Int32Array): Promise<Stored | undefined> {
    const name = names.entry(tokens.length);
    const pending = this.#pending.get(name);
    if (pending !== undefined) return await pending;
    if (this.#places.waiting >= prefixesWaiting) return undefined;
    const reading = this.#places.run(() => this.#context.link.try(readLimit, () => this.#read(names, tokens)));
    this.#pending.set(name, reading);
    try {
      return await reading;
    } finally {
      this.#pending.delete(name);
    }
  }

  /** Reads a prefix; undefined if a part is missing or refused. If one is refused, the others are also read, to find all damage. */
  async #read(names: PrefixNames, tokens: Int32Array): Promise<Stored | undefined> {
    const { model, form, store } = this.#context;
    const { length } = tokens;
    const places = form.entry(length);
    const blocks = form.blocks(length);
    const own = await this.#object(names.entry(length), places.end);
    if (own === "missing") return undefined;
    let state: "whole" | "missing" | "refused" = own === "refused" || !sameTokens(own, places.tokens, tokens) ? "refused" : "whole";
    const parts: TokenBytes[] = [];
    let next = 0;
    const take = async (): Promise<void> => {
      while (state !== "missing" && next < blocks) {
        const block = next++;
        const object = await this.#object(names.block(block), form.blockBytes);
        if (typeof object !== "string") parts[block] = { tokens: blockTokens, bytes: object.subarray(signatureBytes) };
        else if (state === "whole") state = object;
      }
    };
    await Promise.all(Array.from({ length: blocksAtOnce }, take));
    if (state !== "whole" || own === "refused") return undefined;
    parts.push({ tokens: length - blocks * blockTokens, bytes: own.subarray(places.rest) });
    // Marks the blocks as used, so that they stay with the prefix.
    store.has(Array.from({ length: blocks }, (_, block) => ({ name: names.block(block), bytes: form.blockBytes }))).catch(() => {});
    return new Stored(snapshotOfParts(model, own.subarray(places.state, places.rest), parts));
  }

  /** An object, if it exists and is signed. An unsigned object is removed, so that it is written again. */
  async #object(name: string, bytes: number): Promise<Uint8Array<ArrayBuffer> | "missing" | "refused"> {
    const { store, seal, figures } = this.#context;
    const object = new Uint8Array(bytes);
    if (!(await store.read(name, object))) return "missing";
    figures.bytesRead += bytes;
    const verified = await seal.verified(name, object);
    if (verified !== undefined) return verified;
    figures.refused++;
    await store.remove({ name, bytes });
    return "refused";
  }
}

/** Whether a prefix's object holds these tokens. */
function sameTokens({ buffer }: Uint8Array<ArrayBuffer>, at: number, tokens: Int32Array): boolean {
  const written = new Int32Array(buffer, at, tokens.length);
  return tokens.every((token, i) => token === written[i]);
}

/** The lengths in a set, the longest first. Anyone who reaches the store may have added members. */
function lengthsIn(members: readonly string[], block: number): number[] {
  const lengths = new Set<number>();
  for (const member of members) {
    const length = Number(member);
    if (/^\d{1,10}$/.test(member) && Math.floor(length / blockTokens) === block) lengths.add(length);
  }
  return [...lengths].sort((a, b) => b - a);
}
