/** One session of a schedule, and its random program, which runs while others' programs do. */
import { join } from "node:path";
import { GatedDeltaError } from "../../lib/errors.ts";
import { Session } from "../../lib/model.ts";
import type { GenerateOptions, SessionOptions } from "../../lib/model.ts";
import { plain } from "../support/roles.ts";
import type { Random } from "../support/random.ts";
import { aborting, Answer } from "./answer.ts";
import type { Situation } from "./situation.ts";
import type { Beginning, Request } from "./request.ts";

/** The situation when a request begins. */
interface Before {
  readonly read: number;
  /** The number of requests that are not over. */
  readonly others: number;
  /** The number of earlier requests. */
  readonly begun: number;
}

export class Actor {
  readonly name: string;
  readonly random: Random;
  readonly options: SessionOptions;
  readonly in: Situation;
  session: Session;
  /** The tokens that the session should have, by {@link ofRole}. */
  tokens: number[];

  constructor(situation: Situation, name: string, random: Random, options: SessionOptions, session: Session, tokens: readonly number[]) {
    this.in = situation;
    this.name = name;
    this.random = random;
    this.options = options;
    this.session = session;
    this.tokens = [...tokens];
  }

  /** A session with a text that may begin as others do. */
  static begin(situation: Situation, name: string, random: Random): Actor {
    const { pressed: { model, longest } } = situation;
    const options: SessionOptions = {
      cache: random.below(3) > 0 ? situation.cache : undefined,
      salt: random.below(4) === 0 ? "other" : "",
      whenFull: random.below(8) === 0 ? "error" : "wait",
    };
    const stem = random.pick(situation.stems);
    const most = random.below(12) === 0 ? longest + random.below(longest) : 1 + random.below(Math.ceil(0.8 * longest));
    const shared = random.below(Math.min(stem.length, most) + 1);
    const tokens = [...stem.slice(0, shared), ...situation.anyTokens(random, Math.max(shared === 0 ? 1 : 0, random.below(most - shared + 1)))];
    const session = model.session(options);
    const middle = random.below(tokens.length);
    session.append(tokens.slice(0, middle)).append(tokens.slice(middle));
    situation.note(name, `begins with ${tokens.length} tokens, ${options.cache === undefined ? "no cache" : `cache, salt "${options.salt}"`}, ${options.whenFull}`);
    return new Actor(situation, name, random, options, session, tokens);
  }

  /** Does `count` actions. Then the session is disposed of, or idle until the schedule ends. */
  async run(count: number): Promise<void> {
    const { random } = this;
    if (random.below(2) === 0) await this.in.watch.pause(random.below(20));
    for (let i = 0; i < count && !this.session.disposed; i++) {
      await this.#act(i === 0 ? 0 : random.below(20));
      this.expectTokens();
    }
    if (this.session.disposed) return;
    if (random.below(2) === 0) return this.in.note(this.name, "does nothing from now on");
    this.in.note(this.name, "is disposed of");
    this.session[Symbol.dispose]();
  }

  async #act(kind: number): Promise<void> {
    const { random } = this;
    if (kind < 9) {
      if (random.below(3) === 0) this.append();
      await new Answer(this).give();
    } else if (kind < 12) await this.#row(random.below(3) === 0 ? "hidden" : "logits");
    else if (kind < 14) this.fork();
    else if (kind < 15) await this.save();
    else if (kind < 16) await this.#restore();
    else if (kind < 17) this.append();
    else await this.in.watch.pause(1 + random.below(30));
  }

  /** Throws unless the session has the right tokens. */
  expectTokens(): void {
    const { session } = this;
    const tokens = plain(this.tokens);
    if (session.length === tokens.length && session.tokens.every((token, i) => token === tokens[i])) return;
    throw new Error(`${this.name} has the tokens ${[...session.tokens].join(" ")}, and should have ${tokens.join(" ")}`);
  }

  append(): void {
    const more = this.in.anyTokens(this.random, 1 + this.random.below(8));
    // Only some texts exceed the capacity and are refused.
    if (this.tokens.length + more.length > this.in.pressed.longest && this.random.below(6) > 0) return;
    this.session.append(more);
    this.tokens.push(...more);
    this.in.note(this.name, `has ${this.tokens.length} tokens, ${more.length} of them new`);
  }

  /** Another session continues from here by itself. Between two steps of this one, a fork never fails. */
  fork(): void {
    if (!this.in.more()) return;
    const name = this.in.newName();
    this.in.note(this.name, `is forked as ${name}`);
    this.in.count("forks");
    this.in.spawn(this.#goingOn(name, this.session.fork(), this.tokens));
  }

  #goingOn(name: string, session: Session, tokens: readonly number[]): Actor {
    return new Actor(this.in, name, this.in.newRandom(this.random), this.options, session, tokens);
  }

  /** Writes the session to a file, from which another one may continue. */
  async save(): Promise<void> {
    const name = this.in.newName();
    const path = join(this.in.folder, name);
    const tokens = [...this.tokens];
    const saved = await this.asking("is saved", () => this.session.save(path), true);
    if (saved === undefined || !this.in.more()) return;
    this.in.count("saved");
    const session = await Session.load(this.in.pressed.model, path, this.options);
    const other = this.#goingOn(name, session, tokens);
    other.expectTokens();
    this.in.note(this.name, `was saved as ${name}`);
    this.in.spawn(other);
  }

  /** Replaces the session by its saved file. */
  async #restore(): Promise<void> {
    const path = join(this.in.folder, this.in.newName());
    const { session } = this;
    const saved = await this.asking("is saved", () => session.save(path), true);
    if (saved === undefined) return;
    const early = this.random.below(2) === 0;
    if (early) session[Symbol.dispose]();
    this.session = await Session.load(this.in.pressed.model, path, this.options);
    session[Symbol.dispose]();
    this.in.count("restored");
    this.in.note(this.name, "is restored from its file");
  }

  /** Reads the logits or the hidden state of the last token. */
  async #row(kind: "logits" | "hidden"): Promise<void> {
    const { signal, request } = aborting(this);
    const tokens = [...this.tokens];
    const got = await this.asking(`reads ${tokens.length} tokens for ${kind}`, () => this.session[kind]({ signal }), false, tokens.length, request);
    if (got !== undefined) this.in.claims.push({ who: this.name, kind, tokens, row: got.value });
  }

  /**
   * Does work that takes steps of the model.
   *
   * @param room the least number of tokens that the session needs memory for.
   * @param onRequest called with the request when it is made.
   * @returns undefined if it ended early, which is allowed.
   */
  async asking<T>(what: string, run: () => Promise<T>, exempt: boolean, room = 0, onRequest: (request: Request) => void = () => {}): Promise<{ readonly value: T } | undefined> {
    const { watch } = this.in;
    const request = watch.begin(`${this.name}, which ${what}`, this.session, exempt, this.beginning);
    onRequest(request);
    this.in.note(this.name, `${what}: request ${request.number}`);
    const before = this.state();
    try {
      const value = await watch.ask(request, run());
      request.gave = true;
      if (room > this.in.pressed.capacity) throw new Error(`${request.name} should be refused: that is above the capacity`);
      return { value };
    } catch (error) {
      this.expectEnd(error, room, before);
      return undefined;
    } finally {
      watch.end(request);
      this.in.note(this.name, `ends request ${request.number}`);
    }
  }

  /** The text whose beginning other sessions may be reading. */
  get beginning(): Beginning | undefined {
    const { cache, salt = "" } = this.options;
    return cache === undefined ? undefined : { tokens: [...this.tokens], salt, step: this.in.cacheStep };
  }

  /** The current situation. */
  state(): Before {
    return { read: this.session.disposed ? 0 : this.session.read, others: this.in.watch.open - 1, begun: this.in.watch.begun };
  }

  /** Expects an error with which this request may end. */
  expectEnd(error: unknown, room: number, before: Before): void {
    const { pressed: { capacity }, watch } = this.in;
    if (error === this.in.enough) return this.in.count("aborted");
    if (error instanceof GatedDeltaError && error.code === "disposed" && this.session.disposed) return this.in.count("disposed of on the way");
    if (!(error instanceof GatedDeltaError) || error.code !== "out-of-memory") throw error;
    if (room > capacity) {
      if (this.session.read > before.read) throw new Error(`${this.name} was refused after ${this.session.read - before.read} tokens were read`, { cause: error });
      return this.in.count("refused above the capacity");
    }
    if (this.options.whenFull !== "error") throw new Error(`${this.name} fails for memory, and was to wait`, { cause: error });
    // Idle sessions give way to the request; those at work and the caller's sequences do not.
    if (before.others === 0 && watch.begun === before.begun && this.in.held === 0) throw new Error(`${this.name} fails for memory that no request uses`, { cause: error });
    this.in.count("refused while others are at work");
  }

  /** Options of an answer, at random. */
  anyOptions(): GenerateOptions {
    const { random } = this;
    const room = this.in.pressed.longest - this.tokens.length;
    const maxTokens = room < 1 ? 1 + random.below(2) : 1 + random.below(Math.min(room, 10));
    const unbounded = this.in.pressed.capacity - this.tokens.length < 24 && random.below(4) === 0;
    const sampling = random.below(2) === 0 ? {} : { temperature: 0.5 + random.below(3), topK: random.below(20), topP: 0.95, repetitionPenalty: random.below(2) === 0 ? 1 : 1.2 };
    return {
      ...sampling,
      seed: random.below(1000),
      drafts: [false, true, { tokens: 1 + random.below(6), longest: 2, shortest: 1 }][random.below(3)]!,
      maxTokens: unbounded ? undefined : maxTokens,
      stopTokens: random.below(5) === 0 ? [random.below(50), random.below(6)] : [],
      ignoreModelStops: true,
      logprobs: !this.in.pressed.exact || random.below(6) === 0,
    };
  }
}
