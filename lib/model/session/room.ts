/**
 * Makes room for a request where states or pages are short. What is taken, in this order: entries of caches, what idle
 * sessions have (that which was used longest ago first), what later requests have (the last one first). Sessions keep their
 * tokens and read them again; where that would give other bits, what they have is copied to the host's memory instead.
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

/** Stands for runs that are no session's: they take from no request that is at work. */
const caller = new Request(Infinity, "error");

/** Something that gives states and pages back when they are short. */
export interface Reserve {
  /** The sequences that it has. */
  kept(): Iterable<Sequence>;
  /** Gives one back; false where it has none of these. */
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

  /** Adds something that is asked first. */
  add(reserve: Reserve): void {
    this.#reserves.add(reserve);
  }

  remove(reserve: Reserve): void {
    this.#reserves.delete(reserve);
  }

  /** Notes a session's sequence: what it has can be taken from now on. */
  hold(sequence: Sequence, holder: Conversation): Holding {
    const holding = new Holding(sequence, (ended) => this.#holdings.delete(ended));
    this.#holdings.add(holding);
    return holding.join(holder);
  }

  /** How many states and pages the sequences of sessions have, for messages; pages that several share count once. */
  get held(): { readonly states: number; readonly pages: number } {
    const pages = new Set<number>();
    for (const { list } of this.#holdings) for (const page of list.pages) pages.add(page);
    return { states: this.#holdings.size, pages: pages.size };
  }

  /**
   * Takes states until one is free for a request; false where nothing can give one.
   *
   * @param holding that of its session, where others have it too: where they alone can give way, no state is needed.
   */
  state(request: Request, holding: Holding | undefined): boolean {
    while (this.#model.freeStates === 0) {
      if (this.#takeState(request)) continue;
      return holding !== undefined && this.#takeShared(holding, request);
    }
    return true;
  }

  /** Takes what is idle until a state is free for a sequence of the caller's, where that can be. */
  callersState(): void {
    while (this.#model.freeStates === 0 && this.#takeState(caller)) continue;
  }

  /** {@link callersState}, for so many pages. */
  callersPages(count: number): void {
    if (count > this.#ledger.free && count <= this.pages(caller)) while (count > this.#ledger.free && this.takePages(caller)) continue;
  }

  /** How many pages a request could have, those that are free included. */
  pages(request: Request): number {
    this.#settle();
    const lists = [...this.#entries(), ...this.#idle(request), ...this.#later(request)].map(listOf);
    return this.#ledger.free + this.#ledger.freedBy(lists);
  }

  /** Takes what frees pages for a request; false where nothing can. What it takes may free none by itself. */
  takePages(request: Request): boolean {
    const ledger = this.#ledger;
    const frees = (of: Sequence | Holding): boolean => ledger.freedBy([listOf(of)]) > 0;
    if (this.#evict(frees)) return true;
    const idle = this.#idle(request);
    const first = idle.find(frees);
    if (first !== undefined) return this.#take(first);
    // What shares its pages with others of these alone.
    const entries = [...this.#entries()];
    if (ledger.freedBy([...entries, ...idle].map(listOf)) > 0) return this.#evict(() => true) || this.#take(idle[0]!);
    const [last] = this.#later(request);
    return last !== undefined && this.#take(last);
  }

  /**
   * Takes all that holds the last page of a request's sequence as well, so that more tokens need no copy of it; false where
   * some of that can't be taken.
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

  /** Gives the pages back of guesses that were right and were not given out: their sessions read those tokens again. */
  #settle(): void {
    for (const { verification, holders } of this.#holdings) {
      if (verification !== undefined) for (const { pending, memory } of holders) if (!pending) memory.settle();
    }
  }

  /** Has the others leave a sequence that they share with a request's session. */
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

  /** What can be taken at any time, in the order in which it is. */
  #idle(request: Request): Holding[] {
    return this.#takable(request, isIdle).sort((a, b) => usedAt(a) - usedAt(b));
  }

  /** What can be taken for a request and is not idle, in the order in which it is. */
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
   * Whether it can be given back: it is read again, or there is room for a copy. For the request that came first later ones at
   * work are copied in any case: else two of them could wait for each other.
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

/** When the last of those that have it was at work. */
function usedAt({ holders }: Holding): number {
  return Math.max(...Array.from(holders, ({ used }) => used));
}

/** That of the first of the requests that have it. */
function ageOf({ holders }: Holding): number {
  return Math.min(...Array.from(holders, ({ request }) => request?.age ?? Infinity));
}
