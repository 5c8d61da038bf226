/** Runs checked batches: reserves memory, encodes and commits. Nothing here waits. */
import type { Device } from "../device/device.ts";
import type { FloatDType } from "../tensor/dtype.ts";
import { DraftGroup } from "../states/draft-group.ts";
import type { Draft } from "../states/draft.ts";
import type { DraftMemory } from "../states/draft-memory.ts";
import type { StatePool } from "../states/state-pool.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { makeActivations, type Activations } from "./activations.ts";
import type { Entry } from "./batch.ts";
import { BestMemory } from "./best-memory.ts";
import type { BestRows } from "./best-memory.ts";
import { DecodePlans } from "./decode-plan.ts";
import { fitDrafts } from "./fit-drafts.ts";
import { ModelGraph } from "./graph.ts";
import type { ModelConfig } from "./model-config.ts";
import type { ModelWeights } from "./model-weights.ts";
import type { PageStep } from "./page-ledger.ts";
import type { PagePool } from "./page-pool.ts";
import { cutIntoPasses } from "./passes.ts";
import type { Piece } from "./passes.ts";
import { Lease, makeResult } from "./run-result.ts";
import type { ResultRows, RunResult } from "./run-result.ts";
import { RowMemory } from "./row-memory.ts";
import { RunAhead, paysAhead } from "./run-ahead.ts";
import { bestCount } from "./sampling/best-logits.ts";
import { Verification } from "./verification.ts";
import { temporaryOf, viewsOf, wantedBest, wantedOf, wantedRows } from "./wanted-rows.ts";
import type { Destination, Destinations, Kind } from "./wanted-rows.ts";

/** The model's parts that a runner uses. */
export interface RunnerParts {
  readonly device: Device;
  readonly config: ModelConfig;
  readonly weights: ModelWeights;
  readonly weightBytes: number;
  readonly pool: StatePool;
  readonly pages: PagePool;
  /** Memory for the records of guesses that are verified. */
  readonly records: DraftMemory;
  /** Called after work that no run waits for was committed. */
  readonly committed: () => void;
  readonly dtype: FloatDType;
  /** The most tokens that go through the layers at a time. */
  readonly batchTokens: number;
  /** Whether read tokens use the GPU's matrix units and other tokens do not. */
  readonly byRole: boolean;
}

const runSince = "the model has run since, and its logits lie where these did: keep what is needed with logits.slice()";

export class Runner implements Disposable {
  readonly #parts: RunnerParts;
  readonly #activations: Activations;
  readonly #graph: ModelGraph;
  readonly #plans: DecodePlans;
  readonly #ahead: RunAhead;
  readonly #memory: Readonly<Record<Kind, RowMemory>>;
  readonly #best: BestMemory;
  /** The lease of the last run's results. */
  #lease = new Lease();

  constructor(parts: RunnerParts) {
    const { device, config, weights, weightBytes, pool, pages, records, dtype, batchTokens } = parts;
    this.#parts = parts;
    this.#activations = makeActivations(device, config, dtype, batchTokens);
    this.#graph = new ModelGraph(config, weights, this.#activations, pages);
    this.#plans = new DecodePlans(device, pool.capacity);
    this.#best = new BestMemory(device);
    const kept = pool.capacity + records.capacity;
    const onReplace = (): void => {
      this.#plans.clear(0);
      this.#lease.end(runSince);
    };
    this.#memory = {
      logits: new RowMemory(device, { what: "logits", width: config.vocabSize, kept, onReplace }),
      hidden: new RowMemory(device, { what: "hidden states", width: config.hiddenSize, kept, onReplace: () => this.#lease.end(runSince) }),
    };
    const shared = { device, pool, ledger: pages.ledger, graph: this.#graph, plans: this.#plans, logits: this.#memory.logits };
    this.#ahead = new RunAhead({ ...shared, vocabSize: config.vocabSize, pays: paysAhead(device, weightBytes) });
  }

  /**
   * Commits a batch: as one submission, or as several if it has more tokens than go through the layers at a time. If
   * anything throws, no sequence has changed, unless an earlier one of several submissions was committed: then the batch's
   * sequences are invalid.
   *
   * @returns the results, which can be read when the work is done.
   */
  run(op: string, given: readonly Entry[]): RunResult[] {
    const { pages, records, batchTokens } = this.#parts;
    const known = this.#ahead.take(op, given);
    if (known !== undefined) return this.#leased(given, known, []);
    for (const { parts } of given) parts.verification?.leave();
    const entries = fitDrafts(given, { ledger: pages.ledger, rows: records.free, batchTokens });
    const lists = entries.map(({ parts }) => parts.list);
    const counts = entries.map(({ tokens }) => tokens.length);
    const step = pages.ledger.begin(op, "batch", lists, counts);
    const passes = this.#passes(entries, counts);
    let committed = 0;
    let destinations: Destinations = { logits: undefined, hidden: undefined, best: [] };
    const drafts = new Map<number, Draft>();
    try {
      if (passes.length === 0 && isDecoding(entries)) {
        const rows = this.#decode(op, entries, step);
        pages.ledger.finish(step);
        return this.#leased(entries, rows, []);
      }
      destinations = { ...destinations, logits: this.#destination(op, entries, "logits") };
      destinations = { ...destinations, hidden: this.#destination(op, entries, "hidden") };
      destinations = { ...destinations, best: this.#bestRows(entries) };
      const cut = passes.length > 0 ? passes : [entries.map((_, entry) => ({ entry, start: 0, end: 1 }))];
      for (const pass of cut) {
        this.#pass(entries, pass, step, committed === 0, destinations, drafts);
        committed++;
      }
      const had = lists.map(({ tokens }) => tokens);
      pages.ledger.finish(step);
      return this.#leased(entries, viewsOf(entries, destinations), temporaryOf(destinations), this.#verifications(entries, drafts, had));
    } catch (error) {
      for (const memory of temporaryOf(destinations)) memory[Symbol.dispose]();
      for (const draft of drafts.values()) draft[Symbol.dispose]();
      if (committed === 0) pages.ledger.abort(step);
      else this.#lose(entries, step, error as Error);
      throw error;
    }
  }

  /**
   * Commits the next step of the batch that was run last, if all its sequences continue and nothing prevents it. If {@link run} comes
   * next with these sequences and tokens, it returns the step's results; otherwise the step has no visible effect.
   *
   * @returns the ticket of the batch, if the step was committed.
   */
  runAhead(entries: readonly Entry[]): number | undefined {
    return this.#ahead.run(entries);
  }

  [Symbol.dispose](): void {
    this.#lease.end("the model was disposed");
    this.#ahead[Symbol.dispose]();
    this.#plans[Symbol.dispose]();
    this.#memory.logits[Symbol.dispose]();
    this.#memory.hidden[Symbol.dispose]();
    this.#best[Symbol.dispose]();
    this.#activations[Symbol.dispose]();
  }

  /** The passes of a batch, each of one role if bits depend on roles; none for single tokens that a plan may run. */
  #passes(entries: readonly Entry[], counts: readonly number[]): Piece[][] {
    const { batchTokens, byRole } = this.#parts;
    const roles = new Set(entries.map(({ role }) => role));
    if (!(byRole && roles.has("read")) && counts.every((count) => count === 1) && counts.length <= batchTokens) return [];
    if (!byRole) return cutIntoPasses(counts, batchTokens);
    return (["read", "generated"] as const).flatMap((role) => cutIntoPasses(counts.map((count, i) => (entries[i]!.role === role ? count : 0)), batchTokens));
  }

  /** One token of each sequence. */
  #decode(op: string, entries: readonly Entry[], step: PageStep): readonly ResultRows[] {
    const { device, config, pool, pages } = this.#parts;
    const logits = this.#memory.logits.reserve(op, entries.length);
    const wanted = Math.max(...entries.map(({ best }) => best));
    const plan = this.#plans.find(step.lists, wanted > 0 ? bestCount(wanted, config.vocabSize) : 0);
    for (let i = 0; i < entries.length; i++) plan.set(i, entries[i]!.tokens[0]!, step.lists[i]!);
    const recorded = plan.recorded({ device, pool, graph: this.#graph }, logits);
    try {
      for (const copy of pages.copies(step.copies)) device.encode(copy);
      const ticket = pool.run(entries.map(({ parts }) => parts.handle), recorded);
      this.#ahead.follows(entries, plan, ticket);
    } catch (error) {
      if (step.copies.length > 0 && !device.closed) device.discard();
      throw error;
    }
    const { logits: rows, best } = plan;
    return entries.map((entry, i) => ({
      logits: entry.logits === "none" ? undefined : rows[i],
      hidden: undefined,
      best: entry.best === 0 ? undefined : best.slice(i, i + 1),
    }));
  }

  /** Commits one pass, and adds the drafts that it verifies to `drafts`, by entry. */
  #pass(
    entries: readonly Entry[],
    given: readonly Piece[],
    step: PageStep,
    first: boolean,
    destinations: Destinations,
    drafts: Map<number, Draft>,
  ): void {
    const { pool, pages, records, byRole } = this.#parts;
    const [verified, stepped] = [true, false].map((drafting) => given.filter(({ entry }) => entries[entry]!.drafts > 0 === drafting));
    const pieces = [...stepped!, ...verified!];
    const handlesOf = (some: readonly Piece[]) => some.map(({ entry }) => entries[entry]!.parts.handle);
    const group = verified!.length === 0
      ? undefined
      : new DraftGroup(pool, records, handlesOf(verified!), verified!.map(({ start, end }) => end - start));
    group?.drafts.forEach((draft, i) => drafts.set(verified![i]!.entry, draft));
    const sequences = pieces.length;
    const cuSeqlens = new Int32Array(sequences + 1);
    for (const [i, { start, end }] of pieces.entries()) cuSeqlens[i + 1] = cuSeqlens[i]! + end - start;
    const lists = pieces.map(({ entry }) => step.lists[entry]!);
    const perSequence = lists.reduce((most, list) => Math.max(most, list.pages.length), 1);
    const pageTable = new Int32Array(sequences * perSequence);
    for (const [i, list] of lists.entries()) pageTable.set(list.pages, i * perSequence);
    const inputs = {
      tokens: cuSeqlens[sequences]!,
      ids: Int32Array.from(pieces.flatMap(({ entry, start, end }) => entries[entry]!.tokens.slice(start, end))),
      cuSeqlens,
      pageTable,
      pastTokens: Int32Array.from(pieces, ({ start }, i) => lists[i]!.tokens + start),
      decode: stepped!.every(({ start, end }) => end - start === 1),
      drafts: group,
      products: byRole && entries[pieces[0]!.entry]!.role === "read" ? ("matrix" as const) : undefined,
      logits: { ...wantedOf(entries, pieces, cuSeqlens, "logits", destinations), best: wantedBest(entries, pieces, destinations) },
      hidden: wantedOf(entries, pieces, cuSeqlens, "hidden", destinations),
    };
    const copies = first ? pages.copies(step.copies) : [];
    pool.run(handlesOf(stepped!), (poolStep) => [
      ...copies,
      ...this.#graph.ops({ ...inputs, step: poolStep }),
    ]);
  }

  #destination(op: string, entries: readonly Entry[], kind: Kind): Destination | undefined {
    let wanted = 0;
    const starts = entries.map((entry) => {
      const start = wanted;
      wanted += wantedRows(entry, kind);
      return start;
    });
    if (wanted === 0) return undefined;
    const memory = this.#memory[kind].reserve(op, wanted);
    return { memory, width: memory.shape[1]!, temporary: !this.#memory[kind].keeps(wanted), starts };
  }

  /** Memory for the largest logits of entries that request them. */
  #bestRows(entries: readonly Entry[]): (BestRows | undefined)[] {
    const { vocabSize } = this.#parts.config;
    const counts = entries.map((entry) => (entry.best === 0 ? 0 : wantedRows(entry, "logits")));
    const all = counts.reduce((sum, count) => sum + count, 0);
    if (all > 0) this.#best.reserve(all);
    let first = 0;
    return entries.map(({ best }, i) => {
      const rows = counts[i]!;
      first += rows;
      return rows === 0 ? undefined : this.#best.rows(first - rows, rows, bestCount(best, vocabSize));
    });
  }

  /** The results of a run; the previous run's results end. */
  #leased(
    entries: readonly Entry[],
    rows: readonly ResultRows[],
    temporary: readonly Tensor[],
    verifications: readonly (Verification | undefined)[] = [],
  ): RunResult[] {
    this.#lease.end(runSince);
    const lease = (this.#lease = new Lease());
    lease.hold(temporary);
    const { vocabSize } = this.#parts.config;
    return entries.map((entry, i) => makeResult(entry.sequence, lease, rows[i]!, vocabSize, verifications[i]));
  }

  /** @param had the number of tokens of each sequence before the run. */
  #verifications(entries: readonly Entry[], drafts: ReadonlyMap<number, Draft>, had: readonly number[]): (Verification | undefined)[] {
    const { committed } = this.#parts;
    return entries.map(({ parts: sequence, tokens, drafts: guesses }, i) => {
      const draft = drafts.get(i);
      return draft && new Verification({ sequence, draft, certain: tokens.length - guesses, drafts: guesses, committed }, had[i]!);
    });
  }

  /** Marks the sequences of a partly committed batch: those that were written are invalid. */
  #lose(entries: readonly Entry[], step: PageStep, error: Error): void {
    const { ledger } = this.#parts.pages;
    ledger.finish(step);
    for (const { parts, tokens, drafts } of entries) {
      if (drafts === 0) parts.lost = error;
      else ledger.cut("model.run", parts.list, parts.list.tokens - tokens.length);
    }
    this.#lease.end(runSince);
  }
}

/** Whether a plan can run a batch of one token each. */
function isDecoding(entries: readonly Entry[]): boolean {
  return entries.some(({ logits }) => logits !== "none") && entries.every(({ hidden }) => hidden === "none");
}
