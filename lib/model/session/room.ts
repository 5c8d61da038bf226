/**
 * Makes room for a request when states or pages run short. It takes memory, in this order, from cache entries, from idle
 * sessions (least recently used first) and from later requests (the last one first). Sessions keep their tokens and read
 * them again; if that would give other bits, their memory is copied to the host instead.
 */
import { memoryOf } from "../model-memory.ts";
import type { LanguageModel } from "../language-model.ts";
import type { PageLedger, PageList } from "../page-ledger.ts";
import { sequenceParts } from "../sequence.ts";
import type { Sequence } from "../sequence.ts";
import type { Conversation } from "./conversation.ts";
import { Holding } from "./holding.ts";
import { Request } from "./request.ts";
import type { SwapSpace } from "./stored.ts";

/** Stands for runs outside sessions, which take nothing from requests at work. */
const caller = new Request(Infinity, "error");

/** A holder of states and pages that gives them back when they run short. */
export interface Reserve {
  /** The sequences that the reserve holds. */
  kept(): Iterable<Sequence>;
  /** Frees one sequence that matches; false if there is none. */
  evict(which: (kept: Sequence) => boolean): boolean;
}

export class Room {
  readonly swap: SwapSpace;
  readonly #model: LanguageModel;
  readonly #reserves = new Set<Reserve>();
  readonly #holdings = new Set<Holding>();

  constructor(model: LanguageModel, swap: SwapSpace) {
    this.#model = model;
    this.swap = swap;
  }

  get #ledger(): PageLedger {
    return memoryOf(this.#model).pages.ledger;
  }

  /** Adds a reserve, which gives memory back before sessions do. */
  add(reserve: Reserve): void {
    this.#reserves.add(reserve);
  }

  remove(reserve: Reserve): void {
    this.#reserves.delete(reserve);
  }

  /** Registers a session's sequence, whose memory can be taken from now on. */
  hold(sequence: Sequence, holder: Conversation): Holding {
    const holding = new Holding(sequence, (ended) => this.#holdings.delete(ended));
    this.#holdings.add(holding);
    return holding.join(holder);
  }

  /** How many states and pages sessions hold, for messages; shared pages count once. */
  get held(): { readonly states: number; readonly pages: number } {
    const pages = new Set<number>();
    for (const { list } of this.#holdings) for (const page of list.pages) pages.add(page);
    return { states: this.#holdings.size, pages: pages.size };
  }

  /**
   * Takes states until one is free for a request; false if none can be freed.
   *
   * @param holding the session's own holding, if shared: if the other holders give way, no state is needed.
   */
  state(request: Request, holding: Holding | undefined): boolean {
    while (this.#model.freeStates === 0) {
      if (this.#takeState(request)) continue;
      return holding !== undefined && this.#takeShared(holding, request);
    }
    return true;
  }

  /** Takes idle memory until a state is free for a sequence of the caller, if possible. */
  callersState(): void {
    while (this.#model.freeStates === 0 && this.#takeState(caller)) continue;
  }

  /** Takes idle memory until `count` pages are free for the caller, if possible. */
  callersPages(count: number): void {
    if (count > this.#ledger.free && count <= this.pages(caller)) while (count > this.#ledger.free && this.takePages(caller)) continue;
  }

  /** How many pages are available to a request: free pages and pages that it could take. */
  pages(request: Request): number {
    this.#settle();
    const lists = [...this.#entries(), ...this.#idle(request), ...this.#later(request)].map(listOf);
    return this.#ledger.free + this.#ledger.freedBy(lists);
  }

  /** Takes memory to free pages for a request; false if that is impossible. A single call may free no page yet. */
  takePages(request: Request): boolean {
    const ledger = this.#ledger;
    const frees = (of: Sequence | Holding): boolean => ledger.freedBy([listOf(of)]) > 0;
    if (this.#evict(frees)) return true;
    const idle = this.#idle(request);
    const first = idle.find(frees);
    if (first !== undefined) return this.#take(first);
    // Pages that only entries and idle sessions share become free when all of these are taken.
    const entries = [...this.#entries()];
    if (ledger.freedBy([...entries, ...idle].map(listOf)) > 0) return this.#evict(() => true) || this.#take(idle[0]!);
    const [last] = this.#later(request);
    return last !== undefined && this.#take(last);
  }

  /**
   * Takes every other holder of the last page of a request's sequence, so that more tokens need no copy of that page; false if
   * one of the holders can't be taken.
   */
  unshare(request: Request, { pages }: PageList): boolean {
    const page = pages.at(-1);
    if (page === undefined) return false;
    const shares = (of: Sequence | Holding): boolean => listOf(of).pages.includes(page);
    const holdings = [...this.#idle(request), ...this.#later(request)].filter(shares);
    if (this.#ledger.holders(page) > 1 + holdings.length + [...this.#entries()].filter(shares).length) return false;
    while (this.#evict(shares)) continue;
    for (const holding of holdings) this.#take(holding);
    return true;
  }

  #takeState(request: Request): boolean {
    if (this.#evict(() => true)) return true;
    const taken = this.#idle(request)[0] ?? this.#later(request)[0];
    return taken !== undefined && this.#take(taken);
  }

  /** Frees the pages of right guesses that have not been returned yet; their sessions read those tokens again. */
  #settle(): void {
    for (const { verification, holders } of this.#holdings) {
      if (verification !== undefined) for (const { pending, memory } of holders) if (!pending) memory.settle();
    }
  }

  /** Makes the other holders leave a sequence that they share with a request's session. */
  #takeShared(holding: Holding, request: Request): boolean {
    const others = [...holding.holders].filter((holder) => holder.request !== request);
    if (holding.read || !others.every((holder) => isIdle(holder) || isLater(holder, request)) || !this.#fits(holding, request)) return false;
    return this.#takeFrom(holding, others);
  }

  *#entries(): Generator<Sequence> {
    for (const reserve of this.#reserves) yield* reserve.kept();
  }

  #evict(which: (kept: Sequence) => boolean): boolean {
    for (const reserve of this.#reserves) if (reserve.evict(which)) return true;
    return false;
  }

  /** Idle holdings, in the order in which they are taken. */
  #idle(request: Request): Holding[] {
    return this.#takable(request, isIdle).sort((a, b) => usedAt(a) - usedAt(b));
  }

  /** Holdings of later requests that are not idle, in the order in which they are taken. */
  #later(request: Request): Holding[] {
    const later = this.#takable(request, (holder) => isIdle(holder) || isLater(holder, request));
    return later.filter(({ holders }) => ![...holders].every(isIdle)).sort((a, b) => ageOf(b) - ageOf(a));
  }

  #takable(request: Request, which: (holder: Conversation) => boolean): Holding[] {
    return [...this.#holdings].filter((holding) => {
      const holders = [...holding.holders];
      return !holding.read && holders.every((holder) => holder.request !== request && which(holder)) && this.#fits(holding, request);
    });
  }

  /**
   * Whether a holding can be taken: its tokens can be read again, or there is room for a copy. The first request copies later
   * requests at work in any case, since two requests could otherwise wait for each other.
   */
  #fits({ list, holders, valid }: Holding, { stored, first }: Request): boolean {
    if (!valid || [...holders].every(({ rereads }) => rereads)) return true;
    if (first && ![...holders].every(isIdle)) return true;
    return this.swap.fits(this.#bytes(list), stored);
  }

  #bytes({ tokens }: PageList): number {
    const { stateBytes, pageBytes, pageTokens } = this.#model;
    return stateBytes + (pageBytes / pageTokens) * tokens;
  }

  #take(holding: Holding): true {
    return this.#takeFrom(holding, [...holding.holders]);
  }

  #takeFrom(holding: Holding, holders: readonly Conversation[]): true {
    for (const { memory } of holders) memory.settle();
    const copied = holding.valid && holders.some(({ rereads }) => !rereads);
    const stored = copied ? this.swap.take(holding.sequence, this.#bytes(holding.list)) : undefined;
    for (const holder of holders) holder.memory.giveBack(stored);
    return true;
  }
}

function isIdle({ request }: Conversation): boolean {
  return request === undefined || request.paused;
}

function isLater({ request }: Conversation, than: Request): boolean {
  return request !== undefined && request.age > than.age;
}

function listOf(of: Sequence | Holding): PageList {
  return of instanceof Holding ? of.list : sequenceParts(of)!.list;
}

/** The last time at which one of the holders was at work. */
function usedAt({ holders }: Holding): number {
  return Math.max(...Array.from(holders, ({ used }) => used));
}

/** The age of the holders' earliest request. */
function ageOf({ holders }: Holding): number {
  return Math.min(...Array.from(holders, ({ request }) => request?.age ?? Infinity));
}
