/** Writes prefixes of conversations to a store, from the cache's entries, one after another and independently of requests. */
import { memoryOf } from "../../model/model-memory.ts";
import { copyState, copyTokens } from "../../model/prefix-parts.ts";
import { conversationOf } from "../../model/session/session.ts";
import type { Session } from "../../model/session/session.ts";
import type { Sequence } from "../../model/sequence.ts";
import { turns } from "../../turns.ts";
import { leastTokens } from "./prefix-reader.ts";
import type { StoreContext } from "./prefixes.ts";
import { blockTokens } from "./prefix-names.ts";
import type { PrefixNames } from "./prefix-names.ts";
import { signatureBytes } from "./seal.ts";

/** The most prefixes that wait. */
const mostWaiting = 64;
/** Milliseconds for one object. */
const writeLimit = 30_000;

interface Job {
  readonly tokens: Int32Array;
  readonly salt: string;
}

export class PrefixWriter {
  readonly #context: StoreContext;
  readonly #jobs: Job[] = [];
  #working: Promise<void> | undefined;

  constructor(context: StoreContext) {
    this.#context = context;
  }

  /** Keeps the beginnings of a prompt that was read: its first message, which conversations share, and everything before the answer. */
  keepPrompt(session: Session, salt: string): void {
    const ends = conversationOf(session).messageEnds.filter((end) => end < session.length);
    const lengths = this.#lengths(session, salt);
    const [first = 0] = ends;
    const last = ends.at(-1) ?? Infinity;
    // The cache has no two positions close to each other, so it may have one within the message instead of its end.
    this.#keep(session, salt, lengths.findLast((length) => length <= first && length >= blockTokens));
    this.#keep(session, salt, lengths.findLast((length) => length <= last));
  }

  /** Keeps a conversation up to its end. */
  keepAnswer(session: Session, salt: string): void {
    this.#keep(session, salt, this.#lengths(session, salt).at(-1));
  }

  /** Resolves when all waiting prefixes are written or given up. */
  async flush(): Promise<void> {
    while (this.#working !== undefined) await this.#working;
  }

  /** Lengths of the cache's entries for a session's tokens, ascending. */
  #lengths(session: Session, salt: string): number[] {
    return this.#context.cache.prefixes(Uint32Array.from(session.tokens), salt).map(({ length }) => length);
  }

  #keep(session: Session, salt: string, length: number | undefined): void {
    if (length === undefined || length < leastTokens) return;
    const tokens = session.tokens.subarray(0, length);
    if (this.#jobs.some((job) => job.salt === salt && job.tokens.length === length && job.tokens.every((token, i) => token === tokens[i]))) return;
    if (this.#jobs.length >= mostWaiting || !this.#context.link.there) {
      this.#context.figures.skipped++;
      return;
    }
    this.#jobs.push({ tokens, salt });
    this.#working ??= this.#work();
  }

  async #work(): Promise<void> {
    for (let job = this.#jobs[0]; job !== undefined; job = this.#jobs[0]) {
      // For example, a failed run of the entry makes it invalid.
      await this.#write(job).catch(() => this.#context.figures.skipped++);
      this.#jobs.shift();
    }
    this.#working = undefined; // at once, so that a job that comes next is not left waiting
  }

  async #write({ tokens, salt }: Job): Promise<void> {
    const { store, form, link, figures, names: namesOf } = this.#context;
    const { length } = tokens;
    const blocks = form.blocks(length);
    await this.#context.identified(); // not the store's time
    const asked = await link.try(writeLimit, async () => {
      const names = await namesOf(tokens, salt);
      const objects = Array.from({ length: blocks }, (_, block) => ({ name: names.block(block), bytes: form.blockBytes }));
      return { names, there: await store.has([...objects, { name: names.entry(length), bytes: form.entry(length).end }]) };
    });
    if (asked === undefined) {
      figures.skipped++;
      return;
    }
    const { names, there } = asked;
    if (!there.every((one) => one)) {
      const missing = Array.from({ length: blocks }, (_, block) => block).filter((block) => !there[block]);
      for (const block of missing) if (!(await this.#writeBlock(names, tokens, salt, block))) return;
      if (there[blocks] !== true && !(await this.#writeEntry(names, tokens, salt))) return;
    }
    // Last, so that the objects that the set names exist.
    const added = await link.try(writeLimit, async () => {
      await store.add(names.lengths(Math.floor(length / blockTokens)), `${length}`);
      return true;
    });
    if (added && there[blocks] !== true) figures.written++;
  }

  #writeBlock(names: PrefixNames, tokens: Int32Array, salt: string, block: number): Promise<boolean> {
    const object = new Uint8Array(this.#context.form.blockBytes);
    const contents = object.subarray(signatureBytes);
    return this.#writeObject(names.block(block), object, tokens, salt, (sequence) => copyTokens(sequence, block * blockTokens, (block + 1) * blockTokens, contents));
  }

  #writeEntry(names: PrefixNames, tokens: Int32Array, salt: string): Promise<boolean> {
    const { form } = this.#context;
    const { length } = tokens;
    const places = form.entry(length);
    const object = new Uint8Array(places.end);
    new Int32Array(object.buffer, places.tokens, length).set(tokens);
    return this.#writeObject(names.entry(length), object, tokens, salt, function* (sequence) {
      yield* copyState(sequence, object.subarray(places.state, places.rest));
      yield* copyTokens(sequence, form.blocks(length) * blockTokens, length, object.subarray(places.rest));
    });
  }

  /** Copies an object's contents from the cache's entry, unless the entry has been evicted, and writes the object. */
  async #writeObject(name: string, object: Uint8Array<ArrayBuffer>, tokens: Int32Array, salt: string, copies: (sequence: Sequence) => Generator<void, void, void>): Promise<boolean> {
    const { model, cache, seal, store, link, figures } = this.#context;
    const skip = (): false => {
      figures.skipped++;
      return false;
    };
    if (model.disposed) return skip();
    await memoryOf(model).idle(); // guesses may have been accepted just now
    const entry = cache.prefixes(Uint32Array.from(tokens), salt).at(-1);
    if (entry?.length !== tokens.length) return skip();
    const turn = turns();
    for (const copying = copies(entry.kept); ; await turn()) {
      if (model.disposed || entry.kept.disposed) return skip();
      if (copying.next().done) break;
    }
    const written = await link.try(writeLimit, async () => {
      const signed = await seal.sign(name, object);
      await store.write(name, signed);
      return signed.length;
    });
    if (written === undefined) return false;
    figures.bytesWritten += written;
    return true;
  }
}
