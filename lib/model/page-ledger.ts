/**
 * Which physical page holds which tokens of which sequence: the bookkeeping behind a model's keys and values, without any
 * tensor. Page i of a list holds the list's tokens from i · pageTokens on.
 *
 * Lists that were forked from one another share pages by reference count. A page is written by a list that alone holds
 * it: only the last one, partly filled, is ever written again, so a step over a list whose last page is shared takes
 * another page in its place, and the tokens that are there are copied to it before the step's ops.
 *
 *     lists that hold page p    refs[p]
 *
 * A page that is given back may be taken again at once, also while work that reads it is pending: work on a device runs in
 * order.
 */
import { BoundsError, DisposedError, GatedDeltaError } from "../errors.ts";

/** The pages of one sequence. Its fields are the ledger's. */
export interface PageList {
  /** In the order of the tokens. During a step also those that the step adds. */
  readonly pages: number[];
  /** Tokens that they hold. */
  tokens: number;
  /** Another number whenever `pages` changes, and none that any list of the ledger had before. */
  stamp: number;
  step: PageStep | undefined;
  live: boolean;
}

/** A page that a step copies. */
export interface PageCopy {
  readonly from: number;
  readonly to: number;
}

/** Tokens that are added to some lists by one piece of work. */
export interface PageStep {
  readonly lists: readonly PageList[];
  /** How many tokens each list gets. */
  readonly counts: readonly number[];
  /** How many pages each list got, not counting one that replaces its last. */
  readonly added: readonly number[];
  /** Copies to make before any of the new tokens is stored. */
  readonly copies: readonly PageCopy[];
  open: boolean;
}

/** Keeps account of `capacity` pages of `pageTokens` tokens. A failing call changes nothing. */
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

  /** A list of no tokens. It takes pages when it gets some. */
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

  /** Ends a list; the pages stay that others hold. */
  release(op: string, list: PageList): void {
    expectIdle(op, list);
    list.live = false;
    for (const page of list.pages) this.#drop(page);
    list.pages.length = 0;
  }

  /** How many lists hold a page. */
  holders(page: number): number {
    return this.#refs[page]!;
  }

  /** How many pages would hold nothing if these lists, each of them given once, were released. */
  freedBy(lists: Iterable<PageList>): number {
    const holders = new Map<number, number>();
    for (const { pages } of lists) for (const page of pages) holders.set(page, (holders.get(page) ?? 0) + 1);
    let freed = 0;
    for (const [page, count] of holders) if (count === this.#refs[page]) freed++;
    return freed;
  }

  /**
   * How many tokens a list can have more with `free` pages: those that its last page has room for, where no other list
   * holds it too or a page is free for a copy, and those of further pages.
   */
  room({ pages, tokens }: PageList, free: number): number {
    const slack = pages.length * this.pageTokens - tokens;
    const copies = slack > 0 && this.#refs[pages.at(-1)!]! > 1 ? 1 : 0;
    return copies > free ? 0 : slack + (free - copies) * this.pageTokens;
  }

  /** How many pages a step would take that adds `counts[i]` tokens to list i. */
  needed(lists: readonly PageList[], counts: readonly number[]): number {
    const need = new PageNeed(this);
    need.add(lists, counts);
    return need.pages;
  }

  /**
   * Opens a step that adds `counts[i]` tokens to list i: from now on the lists' pages are those that its work uses.
   *
   * @throws {GatedDeltaError} of code `out-of-memory` where fewer pages are free than it takes, of code `state` for a list
   *   that is in a step, or comes twice.
   */
  begin(op: string, argument: string, lists: readonly PageList[], counts: readonly number[]): PageStep {
    for (const list of lists) expectIdle(op, list);
    if (new Set(lists).size < lists.length) throw new GatedDeltaError("state", { op, argument, message: "a sequence comes twice" });
    const needed = this.needed(lists, counts);
    if (needed > this.free) {
      const expected = `a batch that takes at most ${this.free} pages, as many as are free of ${this.capacity}`;
      throw new GatedDeltaError("out-of-memory", { op, argument, expected, received: `one that takes ${needed}` });
    }
    const added: number[] = [];
    const copies: PageCopy[] = [];
    const step: PageStep = { lists, counts, added, copies, open: true };
    // All decisions come before the first change: who leaves a shared page depends on who else does.
    const leaving = this.#leaving(lists, counts);
    for (let i = 0; i < lists.length; i++) {
      const list = lists[i]!;
      const more = this.addedBy(list, counts[i]!);
      if (leaving[i]) {
        const from = list.pages.at(-1)!;
        const to = this.#take();
        list.pages[list.pages.length - 1] = to;
        copies.push({ from, to });
      }
      for (let j = 0; j < more; j++) list.pages.push(this.#take());
      if (more > 0 || leaving[i]) list.stamp = ++this.#stamp;
      added.push(more);
      list.step = step;
    }
    return step;
  }

  /** The tokens were added. */
  finish(step: PageStep): void {
    step.open = false;
    for (let i = 0; i < step.lists.length; i++) {
      const list = step.lists[i]!;
      list.step = undefined;
      list.tokens += step.counts[i]!;
    }
    for (const { from } of step.copies) this.#drop(from);
  }

  /** Everything is as before {@link begin}. */
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
   * Takes a list's last tokens from it, so that `tokens` stay, and the pages with them that hold nothing else of it.
   *
   * @throws {BoundsError} for more tokens than it has; {@link GatedDeltaError} of code `state` for a list in a step.
   */
  cut(op: string, list: PageList, tokens: number): void {
    expectIdle(op, list);
    if (tokens > list.tokens) {
      throw new BoundsError({ op, argument: "tokens", expected: `at most ${list.tokens}, as many as there are`, received: `${tokens}` });
    }
    list.tokens = tokens;
    const kept = Math.ceil(tokens / this.pageTokens);
    if (list.pages.length > kept) list.stamp = ++this.#stamp;
    while (list.pages.length > kept) this.#drop(list.pages.pop()!);
  }

  /** How many pages a list gets with `count` more tokens, not counting one that replaces its last. */
  addedBy({ pages, tokens }: PageList, count: number): number {
    return Math.ceil((tokens + count) / this.pageTokens) - pages.length;
  }

  /** The page that already holds tokens of the list and that `count` more would be written to. */
  writtenPage({ pages, tokens }: PageList, count: number): number | undefined {
    return count > 0 && tokens % this.pageTokens !== 0 ? pages.at(-1) : undefined;
  }

  /**
   * How many of `writers` lists of a step that write to a page must leave it, since others hold it too. Where all that hold
   * it are in the step and leave it, the last one of them stays: copies are taken before anything is written.
   */
  leaving(page: number, writers: number): number {
    return writers < this.#refs[page]! ? writers : writers - 1;
  }

  /** Another number whenever a page got another holder or lost one. */
  get changes(): number {
    return this.#changes;
  }

  /** Which lists of a step leave their last page. */
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

/** How many pages a step takes to which lists are added one by one. */
export class PageNeed {
  readonly #ledger: PageLedger;
  /** Of each page that is written and was there before, by how many lists. */
  readonly #writers = new Map<number, number>();
  /** Pages of new tokens. */
  #added = 0;
  /** Copies of pages that others hold too, as of the ledger's {@link PageLedger.changes}. */
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

  /** `counts[i]` tokens are added to list i, too. */
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
  if (!list.live) throw new DisposedError({ op, expected: "a sequence that is not disposed", received: "a disposed one" });
  if (list.step !== undefined) throw new GatedDeltaError("state", { op, message: "this sequence is being run" });
}
