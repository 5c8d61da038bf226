/** The accounting of pages against a plain model: every history of calls, with the tokens that each list must hold. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { PageLedger, PageNeed } from "../lib/model/page-ledger.ts";
import type { PageList, PageStep } from "../lib/model/page-ledger.ts";
import { thrownBy } from "./support/devices.ts";
import { Random } from "./support/random.ts";

const op = "test";

interface Entry {
  readonly list: PageList;
  /** The expected contents: a unique number for each token. */
  tokens: readonly number[];
}

interface Run {
  readonly step: PageStep;
  readonly members: readonly Entry[];
  readonly added: readonly (readonly number[])[];
  ran: boolean;
}

/** The expected contents of the lists, and the contents of the pages. */
class Model {
  readonly ledger: PageLedger;
  readonly #cells: number[][];
  readonly entries: Entry[] = [];
  readonly runs: Run[] = [];
  #next = 1;

  constructor(pages: number, pageTokens: number) {
    this.ledger = new PageLedger(pages, pageTokens);
    this.#cells = Array.from({ length: pages }, () => Array<number>(pageTokens).fill(NaN)); // like fresh memory
  }

  get live(): Entry[] {
    return this.entries.filter(({ list }) => list.live);
  }

  get idle(): Entry[] {
    return this.live.filter(({ list }) => list.step === undefined);
  }

  held({ list }: Entry): number[] {
    const { pageTokens } = this.ledger;
    return Array.from({ length: list.tokens }, (_, t) => this.#cells[list.pages[Math.floor(t / pageTokens)]!]![t % pageTokens]!);
  }

  /** The number of additional pages that a step needs, counted without the ledger. */
  needs(members: readonly Entry[], counts: readonly number[]): number {
    const { pageTokens } = this.ledger;
    const holders = Map.groupBy(this.live.flatMap(({ list }) => list.pages), (page) => page);
    const open = new Set(this.runs.flatMap(({ step }) => step.copies.map(({ from }) => from)));
    let sum = 0;
    const writers = new Map<number, number>();
    for (const [i, { list }] of members.entries()) {
      sum += Math.ceil((list.tokens + counts[i]!) / pageTokens) - Math.ceil(list.tokens / pageTokens);
      const partly = list.tokens % pageTokens > 0 && counts[i]! > 0;
      if (partly) writers.set(list.pages.at(-1)!, (writers.get(list.pages.at(-1)!) ?? 0) + 1);
    }
    for (const [page, count] of writers) {
      // One of a page's writers may keep it if only they hold it and no open step copies it.
      const alone = holders.get(page)!.length === count && !open.has(page);
      sum += alone ? count - 1 : count;
    }
    return sum;
  }

  begin(members: readonly Entry[], counts: readonly number[]): void {
    const before = members.map(({ list }) => list.pages.slice());
    const step = this.ledger.begin(op, "batch", members.map(({ list }) => list), counts);
    const added = counts.map((count) => Array.from({ length: count }, () => this.#next++));
    const run = { step, members, added, ran: false };
    for (const [i, { list }] of members.entries()) {
      expect(list.step).toBe(step);
      expect(list.pages.length).toBe(Math.ceil((list.tokens + counts[i]!) / this.ledger.pageTokens));
      // Full pages stay where they are.
      const full = Math.floor(list.tokens / this.ledger.pageTokens);
      expect(list.pages.slice(0, full)).toEqual(before[i]!.slice(0, full));
    }
    // No other list holds a page that the step writes, and no two lists of the step write the same page.
    const written = members.map(({ list }, i) => (counts[i]! > 0 ? list.pages.slice(Math.floor(list.tokens / this.ledger.pageTokens)) : []));
    expect(new Set(written.flat()).size).toBe(written.flat().length);
    for (const other of this.live.filter((entry) => !members.includes(entry))) {
      for (const page of written.flat()) expect(other.list.pages).not.toContain(page);
    }
    for (const open of this.runs) for (const { from } of open.step.copies) expect(written.flat()).not.toContain(from);
    this.runs.push(run);
  }

  run(run: Run): void {
    const { pageTokens } = this.ledger;
    for (const { from, to } of run.step.copies) this.#cells[to] = this.#cells[from]!.slice();
    for (const [i, { list }] of run.members.entries()) {
      for (const [j, token] of run.added[i]!.entries()) {
        const at = list.tokens + j;
        this.#cells[list.pages[Math.floor(at / pageTokens)]!]![at % pageTokens] = token;
      }
    }
    run.ran = true;
  }

  finish(run: Run): void {
    if (!run.ran) this.run(run);
    this.ledger.finish(run.step);
    for (const [i, member] of run.members.entries()) member.tokens = [...member.tokens, ...run.added[i]!];
    this.runs.splice(this.runs.indexOf(run), 1);
  }

  abort(run: Run): void {
    this.ledger.abort(run.step);
    this.runs.splice(this.runs.indexOf(run), 1);
  }

  cut(entry: Entry, tokens: number): void {
    const { list } = entry;
    const [before, stamp] = [list.pages.slice(), list.stamp];
    this.ledger.cut(op, list, tokens);
    entry.tokens = entry.tokens.slice(0, tokens);
    expect(list.pages).toEqual(before.slice(0, Math.ceil(tokens / this.ledger.pageTokens)));
    // A table that was written from the list is known to be old if the list now has other pages.
    expect(list.stamp !== stamp).toBe(list.pages.length !== before.length);
  }

  check(): void {
    for (const entry of this.idle) expect(this.held(entry)).toEqual([...entry.tokens]);
    const used = new Set([...this.live.flatMap(({ list }) => list.pages), ...this.runs.flatMap(({ step }) => step.copies.map(({ from }) => from))]);
    expect(this.ledger.free).toBe(this.ledger.capacity - used.size);
    const stamps = this.live.map(({ list }) => list.stamp);
    expect(new Set(stamps).size).toBe(stamps.length);
  }
}

const command = fc.record({
  kind: fc.constantFrom("create", "fork", "fork", "release", "begin", "begin", "begin", "run", "finish", "finish", "abort", "one", "one", "cut", "cut"),
  a: fc.nat(1000),
  b: fc.nat(1000),
  counts: fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 12, maxLength: 12 }),
});

describe("pages against a plain model", () => {
  test("any history keeps every token, wastes no page, and fails only when it must", () => {
    const property = fc.property(
      fc.integer({ min: 1, max: 24 }),
      fc.integer({ min: 1, max: 5 }),
      fc.array(command, { minLength: 40, maxLength: 120 }),
      (pages, pageTokens, commands) => {
        const model = new Model(pages, pageTokens);
        const { ledger } = model;
        const pick = <T>(items: readonly T[], by: number): T | undefined => items[by % Math.max(items.length, 1)];
        const begin = (members: readonly Entry[], counts: readonly number[]): boolean => {
          const enough = model.needs(members, counts) <= ledger.free;
          if (enough) model.begin(members, counts);
          else {
            const stamps = members.map(({ list }) => list.stamp);
            const error = thrownBy(() => model.begin(members, counts));
            expect([error.code, error.argument]).toEqual(["out-of-memory", "batch"]);
            expect(members.map(({ list }) => list.stamp)).toEqual(stamps);
          }
          return enough;
        };
        for (const { kind, a, b, counts } of commands) {
          const entry = pick(model.idle, a);
          const run = pick(model.runs, a);
          if (kind === "create" && model.live.length < 12) model.entries.push({ list: ledger.create(), tokens: [] });
          else if (kind === "fork" && entry && model.live.length < 12) {
            model.entries.push({ list: ledger.fork(op, entry.list), tokens: entry.tokens });
          } else if (kind === "release" && entry) ledger.release(op, entry.list);
          else if (kind === "begin" && entry) {
            const members = model.idle.filter((_, i) => (b >> (i % 10)) & 1 || i === a % model.idle.length);
            begin(members, members.map((_, i) => counts[i]!));
          } else if (kind === "run" && run && !run.ran) model.run(run);
          else if (kind === "finish" && run) model.finish(run);
          else if (kind === "abort" && run && !run.ran) model.abort(run);
          else if (kind === "cut" && entry) model.cut(entry, b % (entry.tokens.length + 1));
          else if (kind === "one" && entry && begin([entry], [1])) model.finish(model.runs.at(-1)!);
          model.check();
        }
        for (const run of [...model.runs]) model.finish(run);
        model.check();
        for (const { list } of model.live) ledger.release(op, list);
        expect(ledger.free).toBe(pages);
      },
    );
    fc.assert(property, { numRuns: 500 });
  }, 60_000);

  test("a list in a step, one that occurs twice and one that ended are refused", () => {
    const ledger = new PageLedger(4, 2);
    const list = ledger.create();
    expect(thrownBy(() => ledger.begin(op, "batch", [list, list], [1, 1])).code).toBe("state");
    const step = ledger.begin(op, "batch", [list], [3]);
    for (const call of [() => ledger.begin(op, "batch", [list], [1]), () => ledger.fork(op, list), () => ledger.release(op, list)]) {
      expect(thrownBy(call).code).toBe("state");
    }
    ledger.finish(step);
    expect([list.tokens, list.pages.length, ledger.free]).toEqual([3, 2, 2]);
    ledger.release(op, list);
    expect(thrownBy(() => ledger.fork(op, list)).code).toBe("disposed");
    expect(ledger.free).toBe(4);
  });

  test("a list that is cut gives back the pages that no other holds; it has no more tokens to lose than it had", () => {
    const ledger = new PageLedger(6, 2);
    const list = ledger.create();
    ledger.finish(ledger.begin(op, "batch", [list], [7]));
    const fork = ledger.fork(op, list);
    ledger.cut(op, list, 3);
    expect([list.tokens, list.pages, ledger.free]).toEqual([3, fork.pages.slice(0, 2), 2]);
    // It writes next to a page that the fork also has.
    const step = ledger.begin(op, "batch", [list], [1]);
    expect(step.copies.map(({ from }) => from)).toEqual([fork.pages[1]!]);
    expect(thrownBy(() => ledger.cut(op, list, 0)).code).toBe("state");
    ledger.finish(step);
    expect(thrownBy(() => ledger.cut(op, list, 5)).argument).toBe("tokens");
    ledger.cut(op, fork, 0);
    expect([fork.tokens, fork.pages, ledger.free]).toEqual([0, [], 4]);
    ledger.release(op, fork);
    expect(thrownBy(() => ledger.cut(op, fork, 0)).code).toBe("disposed");
  });

  test("of forks that all go on at once in a full ledger the last one stays where it is", () => {
    const ledger = new PageLedger(3, 4);
    const parent = ledger.create();
    ledger.finish(ledger.begin(op, "batch", [parent], [2]));
    const forks = [ledger.fork(op, parent), ledger.fork(op, parent)];
    const [page] = parent.pages;
    const step = ledger.begin(op, "batch", [parent, ...forks], [1, 1, 1]);
    expect(step.copies.map(({ from }) => from)).toEqual([page!, page!]);
    expect(forks[1]!.pages).toEqual([page!]);
    ledger.finish(step);
    expect(ledger.free).toBe(0);
    expect(thrownBy(() => ledger.begin(op, "batch", [parent], [2])).code).toBe("out-of-memory");
    ledger.finish(ledger.begin(op, "batch", [parent], [1])); // as many as its page has room for
  });
});

test("what a step takes is known as lists are added to it and taken out, while others fork and end", () => {
  const random = new Random(5);
  for (let round = 0; round < 200; round++) {
    const ledger = new PageLedger(400, 1 + random.below(4));
    const lists = Array.from({ length: 6 }, () => ledger.create());
    ledger.finish(ledger.begin(op, "lists", lists, lists.map(() => random.below(9))));
    while (lists.length < 14) lists.push(ledger.fork(op, random.pick(lists)));
    const need = new PageNeed(ledger);
    const inStep = new Map<PageList, number>();
    for (let i = 0; i < 40; i++) {
      const list = random.pick(lists);
      const count = inStep.get(list);
      const kind = random.below(4);
      if (kind === 0) lists.push(ledger.fork(op, list));
      else if (kind === 1 && count === undefined && lists.length > 3) ledger.release(op, lists.splice(lists.indexOf(list), 1)[0]!);
      else if (count !== undefined) {
        need.remove([list], [count]);
        inStep.delete(list);
      } else {
        inStep.set(list, random.below(7));
        need.add([list], [inStep.get(list)!]);
      }
      const free = ledger.free;
      expect(need.pages).toBe(ledger.needed([...inStep.keys()], [...inStep.values()]));
      const step = ledger.begin(op, "lists", [...inStep.keys()], [...inStep.values()]);
      const taken = free - ledger.free;
      ledger.abort(step);
      expect(need.pages).toBe(taken);
    }
  }
});
