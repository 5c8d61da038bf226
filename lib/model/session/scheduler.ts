/**
 * Runs the work of many sessions through one model, step by step. A step is one run: a token of every decoding session,
 * and pieces of prompts, limited to a number of tokens so that decoding sessions keep their pace. Work that arrives while
 * a step runs is part of the next step.
 *
 * Requests are served in order of arrival. When states or pages run short, an earlier request takes those of later ones
 * (see {@link Room}), so the first request always makes progress, and none waits for the steps of a later one.
 */
import { GatedDeltaError } from "../../errors.ts";
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

/** Work of a session for the model. */
export interface Work {
  /** Whether the next step can't be split, such as a token of a decoding session. */
  readonly whole: boolean;
  /** How many tokens are left to read. */
  readonly left: number;
  /** The next step, of at most `most` tokens unless it is `whole`. Has no side effects. The conversation must be ready. */
  next(most: number): Entry;
  /**
   * Called when the step has run. Logits can be read until this returns.
   *
   * @returns whether there is no further step.
   */
  ran(result: RunResult): boolean;
}

/** Work, with its conversation and request. */
export interface JobSpec {
  readonly conversation: Conversation;
  readonly request: Request;
  readonly work: Work;
  /** Ends the work before its last step. */
  readonly signal: AbortSignal;
}

/** Work that waits for a step or is in one. */
export interface Job extends JobSpec {
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
  /** Removes the listener from the signal. */
  readonly release: () => void;
  /** The error if the job did not fit into the last step. */
  full: GatedDeltaError | undefined;
}

/** One job's entry in a step. */
interface Share {
  readonly job: Job;
  readonly entry: Entry;
}

/** How often to look for free memory while nothing runs. */
const pollMilliseconds = 20;

/** Options of {@link Scheduler}. */
export interface SchedulerOptions {
  /** Tokens of prompts in a step with decoding sessions. */
  readonly promptTokens: number;
  /** Tokens of prompts in a step without decoding sessions. */
  readonly batchTokens: number;
  /** Limit in bytes for copies of states, keys and values in the host's memory. */
  readonly swap: number;
}

export class Scheduler {
  readonly room: Room;
  /** Counts the actions of sessions, to find the least recently used one. */
  clock = 0;
  readonly #model: LanguageModel;
  readonly #options: SchedulerOptions;
  readonly #stall: Stall;
  /** All jobs, ordered by the age of their requests. */
  readonly #jobs: Job[] = [];
  /** Jobs whose step is running. */
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

  /** Called when states or pages may be free again. */
  freed(): void {
    this.#wake?.();
  }

  /** Makes a request, later than all earlier ones. */
  request(whenFull: "wait" | "error"): Request {
    return new Request(this.#requests++, whenFull);
  }

  /**
   * Runs work in the following steps.
   *
   * @throws the errors of the work's methods; the signal's reason, if aborted before the last step; the error of a failed
   *   run; an error of code `out-of-memory` if states or pages run short and the request does not wait.
   */
  do(spec: JobSpec): Promise<void> {
    return new Promise((resolve, reject) => {
      const { signal, request } = spec;
      if (signal.aborted) {
        reject(signal.reason);
        return;
      }
      const aborted = (): void => {
        if (!this.#running.has(job)) this.#end(job, () => reject(signal.reason));
      };
      const release = (): void => signal.removeEventListener("abort", aborted);
      const job: Job = { ...spec, resolve, reject, release, full: undefined };
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
    // Collect work that arrives at the same time into one step.
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
      // Let sessions that continue add their next work to the next step.
      if (step.length > 0) await nextTurn();
      else if (this.#jobs.length > 0) await this.#waitForRoom();
    }
    this.#stall.over();
    this.#looping = false;
  }

  /** Composes the next step. Work that can't begin, or throws, ends here. */
  #compose(): Share[] {
    const jobs = [...this.#jobs];
    for (const [i, { request }] of jobs.entries()) request.first = i === 0;
    // All jobs begin before tokens are shared out, because a cache hit changes the number of tokens that a prompt has left.
    const begun = jobs.filter((job) => this.#tried(job, () => this.#begin(job, jobs)) === true);
    // A cache hit may leave nothing to read.
    for (const job of begun) if (job.work.left <= 0) this.#end(job, job.resolve);
    const ready = begun.filter(({ work }) => work.left > 0);
    const prompts = ready.filter(({ work }) => !work.whole);
    const { promptTokens, batchTokens } = this.#options;
    const shares = promptShares(prompts.map(({ work }) => work.left), prompts.length < ready.length ? promptTokens : batchTokens);
    const most = new Map(prompts.map((job, i) => [job, shares[i]!]));
    const need = new PageNeed(memoryOf(this.#model).pages.ledger);
    return ready.flatMap((job) => {
      // A later job may have given its memory to an earlier one.
      if (most.get(job) === 0 || !job.conversation.memory.ready) return [];
      const entry = this.#tried(job, () => this.#take(job, need, most.get(job) ?? Infinity));
      return entry === undefined ? [] : [{ job, entry }];
    });
  }

  /** Runs a part of a job's work. If that throws, the job ends or waits for memory. */
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

  /** Starts a job's conversation, which needs a state and its first pages. Returns whether it is ready now. */
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

  /** A job's next entry, whose pages count as taken. Guesses do not count: they only use pages that are left over. */
  #take({ request, work, conversation }: Job, need: PageNeed, most: number): Entry {
    const { ledger } = memoryOf(this.#model).pages;
    const { list } = conversation.memory.holding!;
    const count = ({ tokens, drafts }: Entry): readonly number[] => [tokens.length - drafts];
    let entry = work.next(most);
    need.add([list], count(entry));
    if (need.pages <= ledger.free) return entry;
    need.remove([list], count(entry));
    // Shorten the piece of the prompt to the available pages.
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
      results = await memoryOf(this.#model).run("session", step.map(({ entry }) => entry), step.length === this.#jobs.length);
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

  /** Waits until memory may be free, when nothing fits. */
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
