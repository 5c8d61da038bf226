/**
 * The assignment of physical pages to the tokens of sequences: the bookkeeping for a model's keys and values, without any tensor.
 * Page i of a list holds the list's tokens from i · pageTokens on.
 *
 * Forked lists share pages by reference count. A list writes only pages that it alone holds. Only a partly filled last page is
 * written again: if that page is shared, the step takes another one instead and copies the tokens before its ops run.
 *
 *     lists that hold page p    refs[p]
 *
 * A freed page can be taken again at once, even while work that reads it is pending, because work on a device runs in order.
 */
import { BoundsError, DisposedError, GatedDeltaError } from "../errors.ts";

/** The pages of one sequence. Only the ledger changes its fields. */
export interface PageList {
  /** The pages in the order of the tokens, including those that an open step adds. */
  readonly pages: number[];
  /** Number of tokens in the pages. */
  tokens: number;
  /** Changes whenever `pages` changes, to a number that no list of the ledger had before. */
  stamp: number;
  step: PageStep | undefined;
  live: boolean;
}

/** A page that a step copies. */
export interface PageCopy {
  readonly from: number;
  readonly to: number;
}

/** A step that adds tokens to some lists. */
export interface PageStep {
  readonly lists: readonly PageList[];
  /** Number of new tokens of each list. */
  readonly counts: readonly number[];
  /** Number of new pages of each list, without the replacement of its last page. */
  readonly added: readonly number[];
  /** Copies to make before the new tokens are stored. */
  readonly copies: readonly PageCopy[];
  open: boolean;
}

/** Accounts for `capacity` pages of `pageTokens` tokens. A failing call changes nothing. */
export class PageLedger {
  readonly capacity: number;
  readonly pageTokens: number;
  /** Pages that hold nothing. */
  readonly #unused: number[];
  readonly #refs: Int32Array;
  #stamp = 0;
  #changes = 0;

  constructor(capacity: number, pageTokens: number) {
    this.capacity = capacity;
    this.pageTokens = pageTokens;
    this.#unused = Array.from({ length: capacity }, (_, i) => capacity - 1 - i);
    this.#refs = new Int32Array(capacity);
  }

  /** Pages that hold nothing. */
  get free(): number {
    return this.#unused.length;
  }

  /** An empty list. It takes pages when tokens are added. */
  create(): PageList {
    return { pages: [], tokens: 0, stamp: ++this.#stamp, step: undefined, live: true };
  }

  /** A second list of the same tokens, which takes no page. */
  fork(op: string, list: PageList): PageList {
    expectIdle(op, list);
    for (const page of list.pages) this.#refs[page]!++;
    this.#changes++;
    return { pages: list.pages.slice(), tokens: list.tokens, stamp: ++this.#stamp, step: undefined, live: true };
  }

  /** Ends a list; pages that others hold stay. */
  release(op: string, list: PageList): void {
    expectIdle(op, list);
    list.live = false;
    for (const page of list.pages) this.#drop(page);
    list.pages.length = 0;
  }

  /** Number of lists that hold a page. */
  holders(page: number): number {
    return this.#refs[page]!;
  }

  /** Number of pages that releasing these lists, each given once, would free. */
  freedBy(lists: Iterable<PageList>): number {
    const holders = new Map<number, number>();
    for (const { pages } of lists) for (const page of pages) holders.set(page, (holders.get(page) ?? 0) + 1);
    let freed = 0;
    for (const [page, count] of holders) if (count === this.#refs[page]) freed++;
    return freed;
  }

  /**
   * Number of tokens that a list can add with `free` pages: in new pages, and in its last page unless that page is shared and no
   * page is free for a copy.
   */
  room({ pages, tokens }: PageList, free: number): number {
    const slack = pages.length * this.pageTokens - tokens;
    const copies = slack > 0 && this.#refs[pages.at(-1)!]! > 1 ? 1 : 0;
    return copies > free ? 0 : slack + (free - copies) * this.pageTokens;
  }

  /** Number of pages that a step takes if it adds `counts[i]` tokens to list i. */
  needed(lists: readonly PageList[], counts: readonly number[]): number {
    const need = new PageNeed(this);
    need.add(lists, counts);
    return need.pages;
  }

  /**
   * Opens a step that adds `counts[i]` tokens to list i. From now on the lists have the pages that the step's work uses.
   *
   * @throws {GatedDeltaError} of code `out-of-memory` if too few pages are free, of code `state` for a list that is in a step or
   *   occurs twice.
   */
  begin(op: string, argument: string, lists: readonly PageList[], counts: readonly number[]): PageStep {
    for (const list of lists) expectIdle(op, list);
    if (new Set(lists).size < lists.length) throw new GatedDeltaError("state", { op, argument, message: "a sequence occurs twice" });
    // All decisions come before the first change: whether a list leaves a shared page depends on the other lists.
    const leaving = this.#leaving(lists, counts);
    const added = lists.map((list, i) => this.addedBy(list, counts[i]!));
    let needed = 0;
    for (let i = 0; i < lists.length; i++) needed += added[i]! + (leaving[i] ? 1 : 0);
    if (needed > this.free) {
      const expected = `a batch of at most ${this.free} pages, the free ones of ${this.capacity}`;
      throw new GatedDeltaError("out-of-memory", { op, argument, expected, received: `one of ${needed}` });
    }
    const copies: PageCopy[] = [];
    const step: PageStep = { lists, counts, added, copies, open: true };
    for (let i = 0; i < lists.length; i++) {
      const list = lists[i]!;
      const more = added[i]!;
      if (leaving[i]) {
        const from = list.pages.at(-1)!;
        const to = this.#take();
        list.pages[list.pages.length - 1] = to;
        copies.push({ from, to });
      }
      for (let j = 0; j < more; j++) list.pages.push(this.#take());
      if (more > 0 || leaving[i]) list.stamp = ++this.#stamp;
      list.step = step;
    }
    return step;
  }

  /** Ends a step: the tokens were added. */
  finish(step: PageStep): void {
    step.open = false;
    for (let i = 0; i < step.lists.length; i++) {
      const list = step.lists[i]!;
      list.step = undefined;
      list.tokens += step.counts[i]!;
    }
    for (const { from } of step.copies) this.#drop(from);
  }

  /** Undoes a step: everything is as before {@link begin}. */
  abort(step: PageStep): void {
    step.open = false;
    const replaced = new Map(step.copies.map(({ from, to }) => [to, from]));
    for (let i = step.lists.length - 1; i >= 0; i--) {
      const list = step.lists[i]!;
      list.step = undefined;
      for (let j = step.added[i]!; j > 0; j--) this.#drop(list.pages.pop()!);
      const last = list.pages.at(-1);
      const from = last === undefined ? undefined : replaced.get(last);
      if (from !== undefined) {
        this.#drop(last!);
        list.pages[list.pages.length - 1] = from;
      }
      list.stamp = ++this.#stamp;
    }
  }

  /**
   * Removes a list's last tokens, so that `tokens` stay, and frees the pages that hold none of these.
   *
   * @throws {BoundsError} if the list has fewer tokens; {@link GatedDeltaError} of code `state` for a list in a step.
   */
  cut(op: string, list: PageList, tokens: number): void {
    expectIdle(op, list);
    if (tokens > list.tokens) {
      throw new BoundsError({ op, argument: "tokens", expected: `at most ${list.tokens}, the number of tokens`, received: `${tokens}` });
    }
    list.tokens = tokens;
    const kept = Math.ceil(tokens / this.pageTokens);
    if (list.pages.length > kept) list.stamp = ++this.#stamp;
    while (list.pages.length > kept) this.#drop(list.pages.pop()!);
  }

  /** Number of new pages of a list with `count` more tokens, without the replacement of its last page. */
  addedBy({ pages, tokens }: PageList, count: number): number {
    return Math.ceil((tokens + count) / this.pageTokens) - pages.length;
  }

  /** The page, if any, with earlier tokens of the list to which some of `count` more would be written. */
  writtenPage({ pages, tokens }: PageList, count: number): number | undefined {
    return count > 0 && tokens % this.pageTokens !== 0 ? pages.at(-1) : undefined;
  }

  /** Whether a list's next token goes into a page that it alone holds. */
  staysInPage({ pages, tokens, live, step }: PageList): boolean {
    return live && step === undefined && tokens % this.pageTokens !== 0 && this.#refs[pages.at(-1)!] === 1;
  }

  /**
   * How many of the `writers` lists of a step that write to a page must leave it because others hold it. If all holders write, the
   * last one stays, because copies are made before anything is written.
   */
  leaving(page: number, writers: number): number {
    return writers < this.#refs[page]! ? writers : writers - 1;
  }

  /** Changes whenever a page gets or loses a holder. */
  get changes(): number {
    return this.#changes;
  }

  /** For each list of a step, whether it leaves its last page. */
  #leaving(lists: readonly PageList[], counts: readonly number[]): boolean[] {
    const writers = new Map<number, number>();
    const pages = lists.map((list, i) => this.writtenPage(list, counts[i]!));
    for (const page of pages) if (page !== undefined) writers.set(page, (writers.get(page) ?? 0) + 1);
    const left = new Map(Array.from(writers, ([page, count]) => [page, this.leaving(page, count)]));
    return pages.map((page) => {
      const more = page === undefined ? 0 : left.get(page)!;
      if (more > 0) left.set(page!, more - 1);
      return more > 0;
    });
  }

  #take(): number {
    const page = this.#unused.pop()!;
    this.#refs[page] = 1;
    this.#changes++;
    return page;
  }

  #drop(page: number): void {
    this.#changes++;
    if (--this.#refs[page]! === 0) this.#unused.push(page);
  }
}

/** Number of pages of a step to which lists are added one by one. */
export class PageNeed {
  readonly #ledger: PageLedger;
  /** For each existing page that is written, the number of lists that write it. */
  readonly #writers = new Map<number, number>();
  /** Pages of new tokens. */
  #added = 0;
  /** Copies of shared pages, as of the ledger's {@link PageLedger.changes}. */
  #copies = 0;
  #changes = -1;

  constructor(ledger: PageLedger) {
    this.#ledger = ledger;
  }

  get pages(): number {
    if (this.#changes !== this.#ledger.changes) {
      this.#changes = this.#ledger.changes;
      this.#copies = 0;
      for (const [page, writers] of this.#writers) this.#copies += this.#ledger.leaving(page, writers);
    }
    return this.#added + this.#copies;
  }

  /** Adds `counts[i]` tokens to list i. */
  add(lists: readonly PageList[], counts: readonly number[]): void {
    this.#change(lists, counts, 1);
  }

  /** The reverse of {@link add}. */
  remove(lists: readonly PageList[], counts: readonly number[]): void {
    this.#change(lists, counts, -1);
  }

  #change(lists: readonly PageList[], counts: readonly number[], by: 1 | -1): void {
    for (let i = 0; i < lists.length; i++) {
      this.#added += by * this.#ledger.addedBy(lists[i]!, counts[i]!);
      const page = this.#ledger.writtenPage(lists[i]!, counts[i]!);
      if (page === undefined) continue;
      const before = this.#writers.get(page) ?? 0;
      if (before > 0) this.#copies -= this.#ledger.leaving(page, before);
      if (before + by > 0) this.#copies += this.#ledger.leaving(page, before + by);
      if (before + by > 0) this.#writers.set(page, before + by);
      else this.#writers.delete(page);
    }
  }
}

function expectIdle(op: string, list: PageList): void {
  if (!list.live) throw new DisposedError({ op, expected: "a sequence that is not disposed" });
  if (list.step !== undefined) throw new GatedDeltaError("state", { op, message: "this sequence is being run" });
}
