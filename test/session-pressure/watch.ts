/**
 * Watches the requests of a schedule: steps must run while any of them waits, and none may wait for steps of later
 * ones. Once per turn of the event loop it looks at public values: the steps of the model, how many tokens sessions have read,
 * and the pieces that they gave.
 */
import type { LanguageModel, Session } from "../../lib/model.ts";
import { Request } from "./request.ts";
import type { Beginning } from "./request.ts";

/**
 * The most steps in a row that leave out a request while a later one takes part, although there is memory for the request
 * besides the earlier ones.
 */
export const mostBehind = 8;
/** The number of turns of the event loop without a step after which each turn takes at least a millisecond. */
const quickTurns = 2000;
/** The number of turns of a millisecond without a step, while requests wait, that is taken for a deadlock. */
const slowTurns = 3000;

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** A call that waits for steps of others. */
interface Pause {
  readonly until: number;
  readonly resolve: () => void;
}

export class Watch {
  readonly #model: LanguageModel;
  readonly #promptTokens: number;
  /** Whether requests wait only for each other, and not for a sequence of the caller's. */
  readonly #fair: boolean;
  readonly #open = new Set<Request>();
  readonly #pauses: Pause[] = [];
  readonly #count: (what: string) => void;
  readonly #settling: (() => void)[] = [];
  #numbers = 0;
  /** The number of pending calls that need steps. */
  #asked = 0;
  /** The highest number of the requests that ended since the last step. */
  #ended = -1;
  #over = false;

  constructor(model: LanguageModel, promptTokens: number, fair: boolean, count: (what: string) => void) {
    this.#model = model;
    this.#promptTokens = promptTokens;
    this.#fair = fair;
    this.#count = count;
  }

  /** The number of unfinished requests. */
  get open(): number {
    return this.#open.size;
  }

  /** The number of requests so far. */
  get begun(): number {
    return this.#numbers;
  }

  has(request: Request): boolean {
    return this.#open.has(request);
  }

  begin(name: string, session: Session, exempt: boolean, beginning: Beginning | undefined): Request {
    const request = new Request(name, this.#numbers++, session, exempt, beginning);
    this.#open.add(request);
    return request;
  }

  end(request: Request): void {
    this.#open.delete(request);
    if (request.furthest > 0) this.#count(`requests that had no part in ${request.furthest} steps in a row of later ones`);
    if (request.gave) this.#ended = Math.max(this.#ended, request.number);
  }

  /** Waits for a result that needs steps. */
  async ask<T>(request: Request, work: Promise<T>): Promise<T> {
    request.asked++;
    this.#asked++;
    try {
      return await work;
    } finally {
      request.asked--;
      this.#asked--;
      if (request.asked === 0) for (const resolve of this.#settling.splice(0)) resolve();
    }
  }

  /** Waits until a request has no pending calls. */
  async settled(request: Request): Promise<void> {
    while (request.asked > 0) await new Promise<void>((resolve) => this.#settling.push(resolve));
  }

  /** Waits for this many steps, or until no more run; for infinitely many, until no call is pending. */
  pause(steps: number): Promise<void> {
    return new Promise((resolve) => this.#pauses.push({ until: this.#model.steps + steps, resolve }));
  }

  /** Ends {@link run}. */
  stop(): void {
    this.#over = true;
    for (const { resolve } of this.#pauses.splice(0)) resolve();
  }

  /**
   * Watches until {@link stop}.
   *
   * @throws if requests wait and nothing runs, and if one waits for later ones.
   */
  async run(): Promise<void> {
    let steps = this.#model.steps;
    let still = 0;
    for (;;) {
      if (still < quickTurns) await turn();
      else await Bun.sleep(1);
      if (this.#over) return;
      const ran = this.#model.steps - steps;
      steps += ran;
      still = ran > 0 || this.#asked === 0 ? 0 : still + 1;
      if (ran > 0) this.#look(ran);
      this.#release(steps, still);
      if (still > quickTurns + slowTurns) throw new Error(`nothing goes on for ${slowTurns} ms, and requests wait. ${this.#told()}`);
    }
  }

  #look(ran: number): void {
    let latest = this.#ended;
    this.#ended = -1;
    const moved = new Set<Request>();
    for (const request of this.#open) {
      const seen = request.look();
      if (seen.taken) this.#count("memory taken");
      if (!seen.moved) continue;
      moved.add(request);
      latest = Math.max(latest, request.number);
    }
    const earlier: Request[] = [];
    // A session's memory is not taken while it is written to a file.
    const equal = ![...this.#open].some(({ exempt }) => exempt);
    for (const request of this.#open) {
      if (moved.has(request) || request.asked === 0) request.behind = 0;
      else if (equal && latest > request.number && request.canGoOn(earlier, this.#model, this.#promptTokens)) request.behind += ran;
      earlier.push(request);
      if (!this.#fair) continue;
      request.furthest = Math.max(request.furthest, request.behind);
      if (request.behind > mostBehind) throw new Error(`${request.name} waits for more than ${mostBehind} steps of later requests. ${this.#told()}`);
    }
  }

  /** Ends the pauses that are over. If no step runs, it also ends one of the others, so that its memory is freed. */
  #release(steps: number, still: number): void {
    for (let i = this.#pauses.length - 1; i >= 0; i--) {
      if (this.#pauses[i]!.until <= steps) this.#pauses.splice(i, 1)[0]!.resolve();
    }
    const nothing = this.#asked === 0;
    if (this.#pauses.length === 0 || (!nothing && still < quickTurns)) return;
    const next = this.#pauses.reduce((a, b) => (b.until < a.until ? b : a));
    if (!nothing && next.until === Infinity) return;
    this.#pauses.splice(this.#pauses.indexOf(next), 1);
    next.resolve();
  }

  /** All unfinished requests, for messages. */
  #told(): string {
    const requests = [...this.#open].map(({ name, number, asked, read, behind }) => `request ${number}: ${name}, has read ${read}, ${asked > 0 ? `waits, ${behind} steps behind` : "is not asked for"}`);
    return [`${this.#asked} calls wait, of ${this.#model.states} states and ${this.#model.pages} pages ${this.#model.freeStates} and ${this.#model.freePages} are free:`, ...requests].join("\n    ");
  }
}
