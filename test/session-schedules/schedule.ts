/** A random schedule of sessions, each of which should give the tokens and the logits' bits of the cold run. */
import { join } from "node:path";
import { bitsEqual } from "../../lib/cli/verify/compare.ts";
import { GatedDeltaError } from "../../lib/errors.ts";
import { Session } from "../../lib/model.ts";
import type { GenerateOptions, SessionCache } from "../../lib/model.ts";
import { ColdTexts } from "../support/cold-texts.ts";
import { ofRole, plain } from "../support/roles.ts";
import type { Random } from "../support/random.ts";
import type { Counts } from "../support/schedules.ts";
import { longestText } from "./fixtures.ts";
import type { Fixture } from "./fixtures.ts";
import type { Keeper, Kept } from "./kept.ts";

/** A session, and the tokens that it should have. */
interface Known {
  session: Session;
  /** Tokens by {@link ofRole}. */
  tokens: number[];
  /** Whether messages describe its tokens, so that it can take turns. */
  chats: boolean;
}

/** A session on disk. */
interface Written {
  readonly path: string;
  readonly tokens: readonly number[];
  readonly written: Promise<void>;
}

/** Whether messages describe a session's tokens. */
function chats(session: Session): boolean {
  try {
    return session.messages.length > 0;
  } catch {
    return false;
  }
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

export class Schedule implements AsyncDisposable {
  readonly fixture: Fixture;
  readonly random: Random;
  readonly counts: Counts;
  readonly folder: string;
  readonly #cache: SessionCache;
  /** Beginnings that texts share. */
  readonly #stems: readonly (readonly number[])[];
  readonly #cold: ColdTexts;
  #known: Known[] = [];
  /** The sessions with work under way. */
  readonly #active = new Set<Known>();
  #files = 0;
  /** Files of sessions that were saved while they gave tokens. */
  readonly #written: Written[] = [];
  /** The files of kept sessions. */
  readonly #keeper: Keeper | undefined;
  readonly lines: string[];

  constructor(fixture: Fixture, random: Random, counts: Counts, folder: string, keeper?: Keeper) {
    this.fixture = fixture;
    this.#cold = new ColdTexts(fixture.cold);
    this.random = random;
    this.counts = counts;
    this.folder = folder;
    this.#keeper = keeper;
    this.lines = [`a model of ${fixture.name}`];
    const { model } = fixture;
    const budget = random.below(3) === 0 ? 3 * model.stateBytes : 1e9;
    this.#cache = model.cache({ bytes: budget, step: 1 + random.below(12), ratio: random.below(2) === 0 ? 2 : 1.3 });
    this.#stems = Array.from({ length: 3 }, () => this.#tokens(10 + random.below(50)));
  }

  /** Begins with sessions that a killed process has left. */
  async adopt(kept: readonly Kept[]): Promise<void> {
    for (const { path, texts } of kept) {
      const session = await Session.load(this.fixture.model, path, { cache: this.#anyCache() });
      const found = session.tokens.join();
      const fitting = texts.filter((text) => plain(text).join() === found);
      const tokens = fitting[0];
      if (fitting.length > 1 && fitting[1]!.join() !== tokens!.join()) {
        session[Symbol.dispose](); // its tokens may have either roles
        continue;
      }
      if (tokens === undefined) throw new Error(`${path} has tokens ${found}, and should have ${texts.map((text) => plain(text).join()).join(" or ")}`);
      this.#known.push({ session, tokens: [...tokens], chats: chats(session) });
      this.#count("sessions of killed processes");
      this.#note(`session ${this.#known.length - 1} of ${tokens.length} tokens was saved by a process that was killed`);
    }
  }

  /** Some rounds: changes of sessions one by one, then some sessions at the same time. */
  async run(): Promise<void> {
    const rounds = 2 + this.random.below(5);
    for (let round = 0; round < rounds; round++) {
      for (let i = this.random.below(4); i >= 0; i--) await this.#change();
      const chosen = this.#known.filter(() => this.random.below(3) > 0);
      for (const known of chosen) this.#active.add(known);
      const work = chosen.map((known) =>
        (this.random.below(5) === 0 ? this.#read(known) : this.#generate(known)).finally(() => this.#active.delete(known)),
      );
      if (work.length > 1) this.#count("at the same time");
      const settled = await this.#withRelief(Promise.allSettled(work));
      for (const one of settled) if (one.status === "rejected") throw one.reason;
      for (const known of chosen) {
        this.#active.add(known);
        if (!known.session.disposed) await this.#withRelief(this.#check(known));
        this.#active.clear();
      }
    }
  }

  /** Ends all sessions; then all memory must be free. */
  async end(): Promise<void> {
    this.#count("gone on from the cache", this.#cache.hits);
    await this[Symbol.asyncDispose]();
    const { model } = this.fixture;
    if (model.freeStates !== model.states || model.freePages !== model.pages) {
      throw new Error(`after all sessions ended ${model.freeStates} of ${model.states} states and ${model.freePages} of ${model.pages} pages are free`);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { session } of this.#known) session[Symbol.dispose]();
    await Promise.allSettled(this.#written.map(({ written }) => written));
    this.#cache[Symbol.dispose]();
  }

  /** Waits for work; while the work waits for memory, idle sessions are ended one by one. */
  async #withRelief<T>(work: Promise<T>): Promise<T> {
    const { model } = this.fixture;
    const timer = setInterval(() => {
      if (this.#cache.size > 0) return; // the cache gives way first
      if (model.freeStates > 0 && (model.pages === 0 || model.freePages > model.pages / 4)) return;
      const idle = this.#known.find((known) => !this.#active.has(known));
      if (idle === undefined) return;
      this.#end(idle);
      this.#count("gave way");
    }, 15);
    try {
      return await work;
    } finally {
      clearInterval(timer);
    }
  }

  #count(what: string, by = 1): void {
    this.counts.add(what, by);
  }

  #note(line: string): void {
    this.lines.push(line);
  }

  #tokens(count: number): number[] {
    // Few different tokens, so that guesses have something to find.
    return Array.from({ length: count }, () => this.random.below(this.random.below(2) === 0 ? 6 : 50));
  }

  #any(): Known | undefined {
    return this.#known[this.random.below(this.#known.length)];
  }

  async #change(): Promise<void> {
    // Sessions that a generation should have disposed of may still exist.
    this.#known = this.#known.filter(({ session }) => !session.disposed);
    const random = this.random;
    const known = this.#any();
    const kind = random.below(11);
    if (known === undefined || (kind < 3 && this.#known.length < 6)) this.#create();
    else if (kind < 5) this.#goOn(known);
    else if (kind < 6) this.#fork(known);
    else if (kind < 7) await this.#restore(known);
    else if (kind < 8) this.#end(known);
    else if (kind < 9) await this.#loadWritten();
    else if (random.below(3) === 0) {
      this.#note("the cache is cleared");
      this.#cache.clear();
      this.#count("caches cleared");
    }
    if (this.#keeper !== undefined && known !== undefined && !known.session.disposed) await this.#keeper.save(known.session, known.tokens);
  }

  #create(): void {
    const random = this.random;
    const cache = random.below(4) === 0 ? undefined : this.#cache;
    const salt = random.below(3) === 0 ? "other" : "";
    const stem = this.#quoted() ?? this.#stems[random.below(3)]!;
    const tokens = [...stem.slice(0, 1 + random.below(stem.length)), ...this.#tokens(random.below(12))];
    const session = this.fixture.model.session({ cache, salt, whenFull: random.below(3) === 0 ? "error" : "wait" });
    const known: Known = { session, tokens, chats: false };
    this.#known.push(known);
    this.#note(`session ${this.#known.length - 1} of ${tokens.length} tokens, ${cache === undefined ? "no cache" : `salt "${salt}"`}`);
    if (this.fixture.model.text.hasTokenizer && random.below(4) > 0) {
      known.chats = true;
      this.#chat(known);
      return;
    }
    // At once, or in parts that end where messages do.
    const middle = random.below(tokens.length);
    session.append(tokens.slice(0, middle)).append(tokens.slice(middle));
  }

  /** Another session's text, including its answers, as a text to be read: where bits depend on roles, it is a different text. */
  #quoted(): readonly number[] | undefined {
    if (this.fixture.products !== "matrix" || this.random.below(2) === 0) return undefined;
    const known = this.#any();
    return known === undefined ? undefined : plain(known.tokens).slice(0, longestText - 60);
  }

  #goOn(known: Known): void {
    if (known.chats && this.random.below(4) > 0) this.#chat(known);
    else this.#append(known);
  }

  /** Takes a turn: the tokens are then those of the template's text for all messages, however they are cut. */
  #chat(known: Known): void {
    const { session } = known;
    if (session.length > longestText - 70) return;
    const { tokenizer, template } = this.fixture.model.text;
    const said = ["Hi", "And?", "abc é", ""].slice(0, 1 + this.random.below(4)).map((content) => ({ role: "user", content }));
    const messages = [...session.messages, ...said.slice(-1)];
    session.chat(said.slice(-1));
    const decoded = (tokens: Iterable<number>) => tokenizer.decode([...tokens], { specialTokens: true });
    if (decoded(session.tokens) !== decoded(tokenizer.encode(template.render(messages)))) throw new Error(`a session of ${JSON.stringify(messages)} has the text ${decoded(session.tokens)}`);
    const { droppedTokens, keptTokens, addedTokens, rereadTokens } = session.turn!;
    known.tokens = [...known.tokens.slice(0, keptTokens), ...session.tokens.slice(keptTokens)];
    this.#note(`a turn of session ${this.#known.indexOf(known)}: ${keptTokens} tokens kept, ${droppedTokens} dropped, ${addedTokens} added, ${rereadTokens} to be read again`);
    this.#count("turns");
    if (droppedTokens > 0) this.#count("turns that went back");
  }

  #append(known: Known): void {
    const more = this.#tokens(1 + this.random.below(20));
    if (known.tokens.length + more.length > longestText - 30) return;
    known.session.append(more);
    known.tokens.push(...more);
    known.chats = false;
    this.#note(`${more.length} tokens to session ${this.#known.indexOf(known)}`);
  }

  #fork(known: Known): void {
    if (this.#known.length >= 8) return;
    try {
      this.#known.push({ session: known.session.fork(), tokens: known.tokens.slice(), chats: known.chats });
      this.#count("forks");
      this.#note(`session ${this.#known.length - 1} is a fork of ${this.#known.indexOf(known)}`);
    } catch (error) {
      this.#expectFull(error);
    }
  }

  #anyCache(): SessionCache | undefined {
    return this.random.below(2) === 0 ? this.#cache : undefined;
  }

  #newPath(): string {
    return join(this.folder, `session-${this.#files++}`);
  }

  /** Replaces a session by its saved file. */
  async #restore(known: Known): Promise<void> {
    const path = this.#newPath();
    const saved = known.session.save(path);
    // The session may end as soon as the save has begun.
    if (this.random.below(2) === 0) known.session[Symbol.dispose]();
    await saved;
    known.session[Symbol.dispose]();
    known.session = await Session.load(this.fixture.model, path, { cache: this.#anyCache() });
    this.#count("restored");
    this.#note(`session ${this.#known.indexOf(known)} is restored`);
  }

  /** Another session continues from a file that was saved while one gave tokens. */
  async #loadWritten(): Promise<void> {
    const one = this.#written.shift();
    if (one === undefined || this.#known.length >= 8) return;
    await one.written;
    const session = await Session.load(this.fixture.model, one.path, { cache: this.#anyCache() });
    this.#known.push({ session, tokens: [...one.tokens], chats: chats(session) });
    this.#count("restored from the middle of an answer");
    this.#note(`session ${this.#known.length - 1} of ${one.tokens.length} tokens is what was saved of one that gave tokens`);
  }

  /** Saves a session that gives tokens; it may continue before the file exists. */
  async #saveOnTheWay(session: Session, tokens: readonly number[]): Promise<void> {
    if (this.#keeper !== undefined) return this.#keeper.save(session, tokens);
    if (this.#written.length >= 8) return;
    const path = this.#newPath();
    const written = session.save(path);
    written.catch(() => {}); // awaited before it is loaded
    this.#written.push({ path, tokens, written });
    if (this.random.below(2) === 0) await written;
  }

  #end(known: Known): void {
    this.#note(`session ${this.#known.indexOf(known)} ends`);
    known.session[Symbol.dispose]();
    this.#known = this.#known.filter((one) => one !== known);
  }

  async #read({ session }: Known): Promise<void> {
    const controller = new AbortController();
    if (this.random.below(2) === 0) void this.#later(() => controller.abort(new Error("enough")));
    try {
      await session.logits({ signal: controller.signal });
    } catch (error) {
      this.#expectEnd(error);
    }
  }

  /** Generates to the end, or until it is left, aborted or disposed of. */
  async #generate(known: Known): Promise<void> {
    const random = this.random;
    const { session } = known;
    const count = 1 + random.below(14);
    if (known.tokens.length + count > longestText) return;
    const controller = new AbortController();
    const stopTokens = random.below(4) === 0 ? [random.below(50), random.below(6)] : [];
    const sampling = random.below(2) === 0 ? {} : { temperature: 0.5 + random.below(3), topK: random.below(20), topP: 0.95, repetitionPenalty: random.below(2) === 0 ? 1 : 1.2 };
    const drafts = [false, true, { tokens: 1 + random.below(6), longest: 2, shortest: 1 }][random.below(3)]!;
    const options: GenerateOptions = { ...sampling, seed: random.below(1000), drafts, maxTokens: count, stopTokens, ignoreModelStops: true, signal: controller.signal };
    const how = random.below(8);
    const leave = how === 0 ? 1 + random.below(count) : Infinity;
    if (how === 1) void this.#later(() => controller.abort(new Error("enough")));
    if (how === 2) void this.#later(() => session[Symbol.dispose]());
    const slow = random.below(4) === 0;
    const given: number[] = [];
    let ended = false;
    const line = this.lines.length;
    this.#note("");
    try {
      for await (const { token, end } of session.generate(options)) {
        given.push(...ofRole(this.fixture.model, "generated", [token]));
        ended = end !== undefined;
        if (given.length === leave) break;
        if (slow) await turn();
        if (!session.disposed && random.below(12) === 0) await this.#saveOnTheWay(session, [...known.tokens, ...given]);
      }
      if (leave === Infinity && !ended) throw new Error("a generation ended without a last piece");
    } catch (error) {
      this.#expectEnd(error);
    }
    this.lines[line] = `session ${this.#known.indexOf(known)} gives ${given.length} of ${count} tokens, ${JSON.stringify(sampling)}, drafts ${JSON.stringify(drafts)}`;
    this.#count("tokens given", given.length);
    if (drafts !== false) this.#count("tokens given with drafts", given.length);
    await this.#cold.expectAnswer(known.tokens, given, options);
    known.tokens.push(...given);
    if (session.disposed) this.#known = this.#known.filter((one) => one !== known);
  }

  async #later(run: () => void): Promise<void> {
    for (let turns = this.random.below(12); turns > 0; turns--) await turn();
    run();
  }

  /** Expects a session to have the right tokens and, often, the right logits. */
  async #check({ session, tokens }: Known): Promise<void> {
    const ids = plain(tokens);
    if (session.length !== ids.length || session.tokens.some((token, i) => token !== ids[i])) {
      throw new Error(`a session has tokens ${[...session.tokens].join(" ")}, and should have ${ids.join(" ")}`);
    }
    if (this.random.below(2) === 0) return;
    let logits: Float32Array;
    try {
      logits = await session.logits();
    } catch (error) {
      this.#expectEnd(error); // the end may be noticed only here
      return;
    }
    this.#count("logits compared");
    if (!bitsEqual(logits, await this.#cold.logits(tokens))) {
      throw new Error(`the logits after ${tokens.length} tokens are not those of the cold run`);
    }
  }

  #expectEnd(error: unknown): void {
    if (error instanceof Error && error.message === "enough") this.#count("aborted");
    else if (error instanceof GatedDeltaError && error.code === "disposed") this.#count("disposed of on the way");
    else this.#expectFull(error);
  }

  #expectFull(error: unknown): void {
    if (!(error instanceof GatedDeltaError) || error.code !== "out-of-memory") throw error;
    this.#count("without room");
  }
}
