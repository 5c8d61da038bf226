/**
 * Brings the work of many sessions through one model, step by step. A step is one run: a token of every session that
 * decodes, and pieces of waiting prompts, together a bounded number of tokens, so that decoding sessions keep their pace.
 * Prompts take turns. What comes while a step runs is part of the next one.
 */
import { GatedDeltaError } from "../../errors.ts";
import { nextTurn } from "../../layer/turns.ts";
import { entryOf } from "../batch.ts";
import type { LanguageModel } from "../language-model.ts";
import type { BatchEntry } from "../model-options.ts";
import type { RunResult } from "../run-result.ts";
import { memoryOf } from "../model-memory.ts";
import { PageNeed } from "../page-ledger.ts";
import { sequenceParts } from "../sequence.ts";

/** Something that a session wants to be run. */
export interface Work {
  /** Whether its next step can't be cut, as a token of a decoding session can't. */
  readonly whole: boolean;
  /**
   * Takes the state that it needs, where it has none yet; called before each step.
   *
   * @throws {GatedDeltaError} of code `out-of-memory` where none is free: it is asked again when one may be.
   */
  begin(): void;
  /** Whether what it needs is being made ready: it has no next step until then. {@link Scheduler.freed} is called when it is. */
  readonly preparing: boolean;
  /** The entries of its next step, of at most `most` tokens where it can be cut. Asking changes nothing. */
  next(most: number): readonly WorkEntry[];
  /**
   * The step has run. Logits can be read until this returns.
   *
   * @returns whether there is no further step.
   */
  ran(results: readonly RunResult[]): boolean;
}

/** An entry of a step. */
export interface WorkEntry extends BatchEntry {
  readonly tokens: readonly number[];
  /** How many of the tokens, the last ones, are guesses: as many of them are verified as there is room for. @default 0 */
  readonly drafts?: number | undefined;
}

/** How work is done. */
export interface WorkOptions {
  /** Whether work waits while states or pages are in use, or is refused. */
  readonly whenFull: "wait" | "error";
  readonly signal: AbortSignal | undefined;
}

/** Something that gives states and pages back when they are short. */
export interface Reserve {
  /** Gives some back; false where it has none. */
  evict(): boolean;
}

interface Job {
  readonly work: Work;
  readonly options: WorkOptions;
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
  readonly entries: readonly WorkEntry[];
}

/** How long states and pages that sessions do not know of are waited for before they are looked for again. */
const pollMilliseconds = 20;
/** How long sessions wait, with nothing that runs, before a warning says what for. */
const warnMilliseconds = 2000;

/** Options of {@link Scheduler}. */
export interface SchedulerOptions {
  /** Tokens of prompts in a step in which sessions decode. */
  readonly promptTokens: number;
  /** Tokens of prompts in a step in which none does. */
  readonly batchTokens: number;
}

export class Scheduler {
  readonly #model: LanguageModel;
  readonly #options: SchedulerOptions;
  readonly #reserves = new Set<Reserve>();
  /** In the order of their turns. */
  #jobs: Job[] = [];
  /** Those whose step runs. */
  readonly #running = new Set<Job>();
  #looping = false;
  #wake: (() => void) | undefined;
  #steps = 0;
  /** Sessions that may hold states or pages. */
  #holders = 0;
  /** Whether it was said that sessions wait for others that do nothing. */
  #warned = false;

  constructor(model: LanguageModel, options: SchedulerOptions) {
    this.#model = model;
    this.#options = options;
  }

  /** How many steps have run. */
  get steps(): number {
    return this.#steps;
  }

  /** Work that waits or runs. */
  get waiting(): number {
    return this.#jobs.length;
  }

  /** Adds something that is asked for states and pages when they are short. */
  add(reserve: Reserve): void {
    this.#reserves.add(reserve);
  }

  remove(reserve: Reserve): void {
    this.#reserves.delete(reserve);
  }

  /** A session that may hold states and pages began (1) or ended (−1). */
  hold(count: 1 | -1): void {
    this.#holders += count;
    if (count < 0) this.freed();
  }

  /** States or pages may be free again. */
  freed(): void {
    this.#wake?.();
  }

  /** Has a reserve give something back. */
  evict(): boolean {
    for (const reserve of this.#reserves) if (reserve.evict()) return true;
    return false;
  }

  /**
   * Does work in the steps to come.
   *
   * @throws what the work's methods throw; the reason of the signal, where that ends it before its last step; a failed
   *   run's error; an error of code `out-of-memory` where states or pages are short, as {@link WorkOptions.whenFull} says,
   *   and for the work that came last where all that hold any wait for each other.
   */
  do(work: Work, options: WorkOptions): Promise<void> {
    return new Promise((resolve, reject) => {
      const { signal } = options;
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      const aborted = (): void => {
        if (!this.#running.has(job)) this.#end(job, () => reject(signal!.reason));
      };
      const release = (): void => signal?.removeEventListener("abort", aborted);
      const job: Job = { work, options, resolve, reject, release, full: undefined };
      signal?.addEventListener("abort", aborted);
      this.#jobs.push(job);
      this.freed();
      if (!this.#looping) void this.#loop();
    });
  }

  async #loop(): Promise<void> {
    this.#looping = true;
    // Work that comes at the same time is one step's.
    await nextTurn();
    let idleSince: number | undefined;
    while (this.#jobs.length > 0) {
      const step = this.#compose();
      if (step.length > 0) {
        idleSince = undefined;
        await this.#run(step);
      } else if (this.#jobs.length > 0) {
        await this.#waitForRoom((idleSince ??= performance.now()));
      }
    }
    this.#looping = false;
  }

  /** What the next step does. Work that can't be begun, or throws, ends here. */
  #compose(): Share[] {
    const step: Share[] = [];
    const need = new PageNeed(memoryOf(this.#model).pages.ledger);
    const whole = this.#jobs.filter(({ work }) => work.whole);
    for (const job of whole) this.#share(step, need, job, Infinity);
    let room = step.length > 0 ? this.#options.promptTokens : this.#options.batchTokens;
    for (const job of this.#jobs.filter(({ work }) => !work.whole)) {
      if (room <= 0) break;
      const share = this.#share(step, need, job, room);
      for (const { tokens } of share?.entries ?? []) room -= tokens.length;
    }
    return step;
  }

  /** Adds a job's part to a step, if there are states and pages for it. */
  #share(step: Share[], need: PageNeed, job: Job, most: number): Share | undefined {
    job.full = undefined;
    try {
      this.#begin(job.work);
      if (job.work.preparing) return undefined;
      const share = { job, entries: job.work.next(most) };
      this.#takePages(need, share.entries);
      step.push(share);
      return share;
    } catch (error) {
      const full = error instanceof GatedDeltaError && error.code === "out-of-memory";
      if (full && job.options.whenFull === "wait") job.full = error;
      else this.#end(job, () => job.reject(error));
      return undefined;
    }
  }

  #begin(work: Work): void {
    for (;;) {
      try {
        work.begin();
        return;
      } catch (error) {
        if (!(error instanceof GatedDeltaError) || error.code !== "out-of-memory" || !this.evict()) throw error;
      }
    }
  }

  /**
   * Counts the pages of some entries, too, and has reserves give some back where not enough are free. Guesses are not counted:
   * they take what is left.
   */
  #takePages(need: PageNeed, entries: readonly WorkEntry[]): void {
    const { ledger } = memoryOf(this.#model).pages;
    const lists = entries.map(({ sequence }) => sequenceParts(sequence)!.list);
    const counts = entries.map(({ tokens, drafts = 0 }) => tokens.length - drafts);
    need.add(lists, counts);
    while (need.pages > ledger.free) {
      if (this.evict()) continue;
      const expected = `${need.pages} free pages for the next step (\`pages\` of LanguageModel.load; sessions give theirs back when they are disposed)`;
      const received = `${ledger.free} of the model's ${ledger.capacity}`;
      need.remove(lists, counts);
      throw new GatedDeltaError("out-of-memory", { op: "session", expected, received });
    }
  }

  async #run(step: readonly Share[]): Promise<void> {
    for (const { job } of step) this.#running.add(job);
    // Who had a turn comes after those who had none.
    const had = new Set(step.map(({ job }) => job));
    this.#jobs = [...this.#jobs.filter((job) => !had.has(job)), ...had];
    let results: RunResult[] = [];
    let failure: { readonly error: unknown } | undefined;
    try {
      while (this.#model.running) await nextTurn(); // a run of the caller's
      const entries = step.flatMap((share) => share.entries.map((entry) => entryOf(entry, entry.drafts)));
      results = await memoryOf(this.#model).run("model.run", entries);
      this.#steps++;
    } catch (error) {
      failure = { error };
    }
    let at = 0;
    for (const { job, entries } of step) {
      this.#running.delete(job);
      const own = results.slice(at, (at += entries.length));
      if (failure !== undefined) this.#end(job, () => job.reject(failure.error));
      else this.#after(job, own);
    }
    // Those who go on, go on now, and are part of the next step.
    await nextTurn();
  }

  #after(job: Job, results: readonly RunResult[]): void {
    const { signal } = job.options;
    try {
      const done = job.work.ran(results);
      if (done) this.#end(job, job.resolve);
      else if (signal?.aborted) this.#end(job, () => job.reject(signal.reason));
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

  /** Who waits for sessions that do nothing may wait for ever: a program that never disposes of them is told, once. */
  #warnOfIdleness(idleSince: number): void {
    if (this.#warned || performance.now() - idleSince < warnMilliseconds) return;
    const full = this.#jobs.find((job) => job.full !== undefined)?.full;
    if (full === undefined) return;
    this.#warned = true;
    process.emitWarning(
      `${this.#jobs.length} of ${this.#holders} sessions wait, and none runs: what they wait for is held by sessions that do nothing. ` +
        `Dispose of those, load the model with more states or pages, or use whenFull: "error". ${full.message}`,
      { code: "GATED_DELTA_WAIT", type: "GatedDeltaWarning" },
    );
  }

  /** Nothing fits since then. Waits until something may, or ends what came last where nobody else could give way. */
  async #waitForRoom(idleSince: number): Promise<void> {
    if (this.#jobs.length >= this.#holders && !this.#jobs.some(({ work }) => work.preparing)) {
      const last = this.#jobs.at(-1)!;
      this.#end(last, () => last.reject(last.full));
      return;
    }
    this.#warnOfIdleness(idleSince);
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
