/**
 * Brings the work of many sessions through one model, step by step. A step is one run: a token of every session that
 * decodes, and pieces of prompts, together a bounded number of tokens, so that decoding sessions keep their pace. What comes
 * while a step runs is part of the next one.
 *
 * Requests go on in the order in which they came. Where states or pages are short an earlier one takes those of later ones
 * (see {@link Room}), so that the first one always goes on, and none waits for the steps of a later one.
 */
import { DisposedError, GatedDeltaError } from "../../errors.ts";
import { nextTurn } from "../../turns.ts";
import type { Entry } from "../batch.ts";
import type { LanguageModel } from "../language-model.ts";
import { memoryOf } from "../model-memory.ts";
import { PageNeed } from "../page-ledger.ts";
import type { RunResult } from "../run-result.ts";
import { noState } from "../sequence.ts";
import { waitsForBeginning } from "./beginnings.ts";
import type { Conversation } from "./conversation.ts";
import { promptShares } from "./prompt-shares.ts";
import { Request } from "./request.ts";
import { Room } from "./room.ts";
import { Stall } from "./stall.ts";
import { SwapSpace } from "./stored.ts";

/** Something that a session wants to be run. */
export interface Work {
  /** Whether its next step can't be cut, as a token of a decoding session can't. */
  readonly whole: boolean;
  /** How many tokens it has left to read. */
  readonly left: number;
  /** Its next step, of at most `most` tokens where it can be cut. Asking changes nothing. The conversation is ready. */
  next(most: number): Entry;
  /**
   * The step has run. Logits can be read until this returns.
   *
   * @returns whether there is no further step.
   */
  ran(result: RunResult): boolean;
}

/** Work, and what it is done for. */
export interface JobParts {
  readonly conversation: Conversation;
  readonly request: Request;
  readonly work: Work;
  /** Ends it before its last step. */
  readonly signal: AbortSignal;
}

/** Work that waits for a step or is in one. */
export interface Job extends JobParts {
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
  /** Ends what listens for its signal. */
  readonly release: () => void;
  /** Why it did not fit into the step that was made last. */
  full: GatedDeltaError | undefined;
}

/** What a step has of one job. */
interface Share {
  readonly job: Job;
  readonly entry: Entry;
}

/** How long memory is waited for, with nothing that runs, before it is looked for again. */
const pollMilliseconds = 20;

/** Options of {@link Scheduler}. */
export interface SchedulerOptions {
  /** Tokens of prompts in a step in which sessions decode. */
  readonly promptTokens: number;
  /** Tokens of prompts in a step in which none does. */
  readonly batchTokens: number;
  /** Bytes of states, keys and values that may be in the host's memory while others have their place. */
  readonly swap: number;
}

export class Scheduler {
  readonly room: Room;
  /** Counts what sessions do, to tell which of them did something last. */
  clock = 0;
  readonly #model: LanguageModel;
  readonly #options: SchedulerOptions;
  readonly #stall: Stall;
  /** By the age of their requests. */
  readonly #jobs: Job[] = [];
  /** Those whose step runs. */
  readonly #running = new Set<Job>();
  #requests = 0;
  #looping = false;
  #wake: (() => void) | undefined;
  #steps = 0;

  constructor(model: LanguageModel, options: SchedulerOptions) {
    this.#model = model;
    this.#options = options;
    this.room = new Room(model, new SwapSpace(options.swap));
    this.#stall = new Stall(model, this.room);
  }

  /** How many steps have run. */
  get steps(): number {
    return this.#steps;
  }

  /** States or pages may be free again. */
  freed(): void {
    this.#wake?.();
  }

  /** A request that begins now. */
  request(whenFull: "wait" | "error"): Request {
    return new Request(this.#requests++, whenFull);
  }

  /**
   * Does work in the steps to come.
   *
   * @throws what the work's methods throw; the reason of the signal, where that ends it before its last step; a failed
   *   run's error; an error of code `out-of-memory` where states or pages are short and the request does not wait.
   */
  do(parts: JobParts): Promise<void> {
    return new Promise((resolve, reject) => {
      const { signal, request } = parts;
      if (signal.aborted) {
        reject(signal.reason);
        return;
      }
      const aborted = (): void => {
        if (!this.#running.has(job)) this.#end(job, () => reject(signal.reason));
      };
      const release = (): void => signal.removeEventListener("abort", aborted);
      const job: Job = { ...parts, resolve, reject, release, full: undefined };
      signal.addEventListener("abort", aborted);
      const before = this.#jobs.findLastIndex((other) => other.request.age < request.age);
      this.#jobs.splice(before + 1, 0, job);
      this.freed();
      if (!this.#looping) void this.#loop();
    });
  }

  async #loop(): Promise<void> {
    this.#looping = true;
    const { turns } = memoryOf(this.#model);
    // Work that comes at the same time is one step's.
    await nextTurn();
    while (this.#jobs.length > 0) {
      await turns.take();
      let step: Share[];
      try {
        step = this.#compose();
        if (step.length > 0) await this.#run(step);
      } finally {
        turns.give();
      }
      // Those who go on, go on now, and are part of the next step.
      if (step.length > 0) await nextTurn();
      else if (this.#jobs.length > 0) await this.#waitForRoom();
    }
    this.#stall.over();
    this.#looping = false;
  }

  /** What the next step does. Work that can't be begun, or throws, ends here. */
  #compose(): Share[] {
    const jobs = [...this.#jobs];
    for (const [i, { request }] of jobs.entries()) request.first = i === 0;
    // All begin before tokens are shared out: how many a prompt has left depends on what a cache knows of it.
    const begun = jobs.filter((job) => this.#tried(job, () => this.#begin(job, jobs)) === true);
    // A cache may know all that was to be read.
    for (const job of begun) if (job.work.left <= 0) this.#end(job, job.resolve);
    const ready = begun.filter(({ work }) => work.left > 0);
    const prompts = ready.filter(({ work }) => !work.whole);
    const { promptTokens, batchTokens } = this.#options;
    const shares = promptShares(prompts.map(({ work }) => work.left), prompts.length < ready.length ? promptTokens : batchTokens);
    const most = new Map(prompts.map((job, i) => [job, shares[i]!]));
    const need = new PageNeed(memoryOf(this.#model).pages.ledger);
    return ready.flatMap((job) => {
      // A later one may have given way to those before it.
      if (most.get(job) === 0 || !job.conversation.memory.ready) return [];
      const entry = this.#tried(job, () => this.#take(job, need, most.get(job) ?? Infinity));
      return entry === undefined ? [] : [{ job, entry }];
    });
  }

  /** Does a part of a job's work. Where that throws the job ends, or waits for memory. */
  #tried<T>(job: Job, run: () => T): T | undefined {
    const { request } = job;
    job.full = undefined;
    try {
      return run();
    } catch (error) {
      const full = error instanceof GatedDeltaError && error.code === "out-of-memory" && error !== request.refused;
      if (full && request.whenFull === "wait") job.full = error;
      else this.#end(job, () => job.reject(error));
      return undefined;
    }
  }

  /** Has a job's conversation begin; true where it can go on now. It needs a state, and as many pages as it begins with. */
  #begin(job: Job, jobs: readonly Job[]): boolean {
    const { conversation, request, conversation: { memory } } = job;
    conversation.check();
    if (memory.ready) return true;
    if (memory.restoring || waitsForBeginning(job, jobs)) return false;
    const { ledger } = memoryOf(this.#model).pages;
    const pages = memory.pagesToBegin;
    request.stored = memory.stored?.bytes ?? 0;
    if (pages > ledger.free) {
      if (pages > this.room.pages(request)) throw this.#noPages(pages);
      if (memory.stored !== undefined) while (pages > ledger.free && this.room.takePages(request)) continue;
    }
    if (!this.room.state(request, memory.holding)) throw noState("session", this.#model.states, stateAdvice);
    conversation.begin();
    return memory.ready;
  }

  /** A job's next step, whose pages count as taken from now on. Guesses are not counted: they take what is left. */
  #take({ request, work, conversation }: Job, need: PageNeed, most: number): Entry {
    const { ledger } = memoryOf(this.#model).pages;
    const { list } = conversation.memory.holding!;
    const count = ({ tokens, drafts }: Entry): readonly number[] => [tokens.length - drafts];
    let entry = work.next(most);
    need.add([list], count(entry));
    if (need.pages <= ledger.free) return entry;
    need.remove([list], count(entry));
    // A prompt reads as much as there is room for.
    const fit = (): number => ledger.room(list, Math.max(0, this.room.pages(request) - need.pages));
    let fits = fit();
    if (fits === 0 && this.room.unshare(request, list)) fits = fit();
    if (fits === 0) throw this.#noPages(1);
    entry = work.next(Math.min(most, fits));
    need.add([list], count(entry));
    while (need.pages > ledger.free && this.room.takePages(request)) continue;
    if (need.pages <= ledger.free) return entry;
    need.remove([list], count(entry));
    throw this.#noPages(need.pages - ledger.free);
  }

  #noPages(needed: number): GatedDeltaError {
    const { ledger } = memoryOf(this.#model).pages;
    const expected = `${needed} free page${needed === 1 ? "" : "s"} for the next step (\`pages\` of LanguageModel.load)`;
    return new GatedDeltaError("out-of-memory", { op: "session", expected, received: `${ledger.free} of the model's ${ledger.capacity}` });
  }

  async #run(step: readonly Share[]): Promise<void> {
    for (const { job } of step) this.#running.add(job);
    this.#stall.over();
    let results: RunResult[] = [];
    let failure: { readonly error: unknown } | undefined;
    try {
      if (this.#model.disposed) throw new DisposedError({ op: "session", expected: "a model that is not disposed" });
      results = await memoryOf(this.#model).run("session", step.map(({ entry }) => entry));
      this.#steps++;
    } catch (error) {
      failure = { error };
    }
    for (const [i, { job }] of step.entries()) {
      this.#running.delete(job);
      if (failure !== undefined) this.#end(job, () => job.reject(failure.error));
      else this.#after(job, results[i]!);
    }
  }

  #after(job: Job, result: RunResult): void {
    try {
      job.conversation.advanced();
      const done = job.work.ran(result);
      if (done) this.#end(job, job.resolve);
      else if (job.signal.aborted) this.#end(job, () => job.reject(job.signal.reason));
    } catch (error) {
      this.#end(job, () => job.reject(error));
    }
  }

  #end(job: Job, settle: () => void): void {
    const at = this.#jobs.indexOf(job);
    if (at < 0) return;
    this.#jobs.splice(at, 1);
    job.release();
    settle();
    this.freed();
  }

  /** Nothing fits. Waits until something may. */
  async #waitForRoom(): Promise<void> {
    const full = this.#jobs.find((job) => job.full !== undefined)?.full;
    if (full !== undefined) this.#stall.waits(this.#jobs.length, full);
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, pollMilliseconds);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#wake = undefined;
  }
}

const stateAdvice = " (`states` of LanguageModel.load)";
