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
import { DecodePlans } from "./decode-plan.ts";
import { fitDrafts } from "./fit-drafts.ts";
import { ModelGraph } from "./graph.ts";
import type { WantedRows } from "./graph.ts";
import type { ModelConfig } from "./model-config.ts";
import type { ModelWeights } from "./model-weights.ts";
import type { PageStep } from "./page-ledger.ts";
import type { PagePool } from "./page-pool.ts";
import { cutIntoPasses } from "./passes.ts";
import type { Piece } from "./passes.ts";
import { Lease, makeResult } from "./run-result.ts";
import type { ResultRows, RunResult } from "./run-result.ts";
import { RowMemory } from "./row-memory.ts";
import { Verification } from "./verification.ts";

/** The model's parts that a runner uses. */
export interface RunnerParts {
  readonly device: Device;
  readonly config: ModelConfig;
  readonly weights: ModelWeights;
  readonly pool: StatePool;
  readonly pages: PagePool;
  /** For the records of guesses that are verified. */
  readonly records: DraftMemory;
  /** Called after work that no run waits for was committed. */
  readonly committed: () => void;
  readonly dtype: FloatDType;
  /** The most tokens that go through the layers at a time. */
  readonly batchTokens: number;
}

/** The kinds of results. */
type Kind = "logits" | "hidden";

/** The memory for a batch's results of one kind. */
interface Destination {
  readonly memory: Tensor<"f32">;
  readonly width: number;
  /** Whether the memory is only for this run. */
  readonly temporary: boolean;
  /** For each entry, the first row of its results. */
  readonly starts: readonly number[];
}

type Destinations = Readonly<Record<Kind, Destination | undefined>>;

const runSince = "the model has run since, and its logits lie where these did: keep what is needed with logits.slice()";

export class Runner implements Disposable {
  readonly #parts: RunnerParts;
  readonly #activations: Activations;
  readonly #graph: ModelGraph;
  readonly #plans: DecodePlans;
  readonly #memory: Readonly<Record<Kind, RowMemory>>;
  /** The lease of the last run's results. */
  #lease = new Lease();

  constructor(parts: RunnerParts) {
    const { device, config, weights, pool, pages, records, dtype, batchTokens } = parts;
    this.#parts = parts;
    this.#activations = makeActivations(device, config, dtype, batchTokens);
    this.#graph = new ModelGraph(config, weights, this.#activations, pages);
    this.#plans = new DecodePlans(device);
    const kept = pool.capacity + records.capacity;
    const onReplace = (): void => {
      this.#plans[Symbol.dispose]();
      this.#lease.end(runSince);
    };
    this.#memory = {
      logits: new RowMemory(device, { what: "logits", width: config.vocabSize, kept, onReplace }),
      hidden: new RowMemory(device, { what: "hidden states", width: config.hiddenSize, kept, onReplace: () => this.#lease.end(runSince) }),
    };
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
    for (const { parts } of given) parts.verification?.leave();
    const entries = fitDrafts(given, { ledger: pages.ledger, rows: records.free, batchTokens });
    const lists = entries.map(({ parts }) => parts.list);
    const counts = entries.map(({ tokens }) => tokens.length);
    const step = pages.ledger.begin(op, "batch", lists, counts);
    const passes = counts.every((count) => count === 1) && counts.length <= batchTokens ? [] : cutIntoPasses(counts, batchTokens);
    let committed = 0;
    let destinations: Destinations = { logits: undefined, hidden: undefined };
    const drafts = new Map<number, Draft>();
    try {
      if (passes.length === 0 && isDecoding(entries)) {
        const logits = this.#decode(op, entries, step);
        pages.ledger.finish(step);
        return this.#leased(entries, logits.map((row, i) => ({ logits: entries[i]!.logits === "none" ? undefined : row, hidden: undefined })), []);
      }
      destinations = { ...destinations, logits: this.#destination(op, entries, "logits") };
      destinations = { ...destinations, hidden: this.#destination(op, entries, "hidden") };
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

  [Symbol.dispose](): void {
    this.#lease.end("the model was disposed");
    this.#plans[Symbol.dispose]();
    this.#memory.logits[Symbol.dispose]();
    this.#memory.hidden[Symbol.dispose]();
    this.#activations[Symbol.dispose]();
  }

  /** One token of each sequence. */
  #decode(op: string, entries: readonly Entry[], step: PageStep): readonly Float32Array[] {
    const { device, pool, pages } = this.#parts;
    const logits = this.#memory.logits.reserve(op, entries.length);
    const plan = this.#plans.find(step.lists);
    for (let i = 0; i < entries.length; i++) plan.set(i, entries[i]!.tokens[0]!, step.lists[i]!);
    const recorded = plan.recorded({ device, pool, graph: this.#graph }, logits);
    try {
      for (const copy of pages.copies(step.copies)) device.encode(copy);
      pool.run(entries.map(({ parts }) => parts.handle), recorded);
    } catch (error) {
      if (step.copies.length > 0 && !device.closed) device.discard();
      throw error;
    }
    return plan.logits;
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
    const { pool, pages, records } = this.#parts;
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
      logits: wantedOf(entries, pieces, cuSeqlens, "logits", destinations),
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

  /** The results of a run; those of the previous run end. */
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

  /** Marks the sequences of a partly committed batch: those that it wrote are invalid. */
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

function wantedRows(entry: Entry, kind: Kind): number {
  return entry[kind] === "none" ? 0 : entry[kind] === "last" ? 1 + entry.drafts : entry.tokens.length;
}

/** The rows of a pass with requested results, and the memory for these. */
function wantedOf(entries: readonly Entry[], pieces: readonly Piece[], cuSeqlens: Int32Array, kind: Kind, destinations: Destinations): WantedRows {
  const rows: number[] = [];
  const runs: { start: number; end: number }[] = [];
  const destination = destinations[kind];
  if (destination === undefined) return { rows, outs: [] };
  for (const [i, { entry, start, end }] of pieces.entries()) {
    const { [kind]: wanted, tokens, drafts } = entries[entry]!;
    const all = wanted === "all";
    if (!all && (wanted === "none" || end < tokens.length)) continue;
    const from = all ? start : end - 1 - drafts; // an entry with guesses is one piece
    for (let token = from; token < end; token++) rows.push(cuSeqlens[i]! + token - start);
    const to = destination.starts[entry]! + (all ? start : 0);
    const last = runs.at(-1);
    if (last?.end === to) last.end = to + end - from;
    else runs.push({ start: to, end: to + end - from });
  }
  return { rows, outs: runs.map(({ start, end }) => destination.memory.slice(start, end)) };
}

/** The results of each entry. */
function viewsOf(entries: readonly Entry[], destinations: Destinations): ResultRows[] {
  const view = (entry: Entry, i: number, kind: Kind): Float32Array | undefined => {
    const destination = destinations[kind];
    if (destination === undefined || entry[kind] === "none") return undefined;
    const { memory: { data }, width, starts } = destination;
    return data.subarray(starts[i]! * width, (starts[i]! + wantedRows(entry, kind)) * width);
  };
  return entries.map((entry, i) => ({ logits: view(entry, i, "logits"), hidden: view(entry, i, "hidden") }));
}

/** Memory to free with the results. */
function temporaryOf(destinations: Destinations): Tensor[] {
  return Object.values(destinations).flatMap((destination) => (destination?.temporary ? [destination.memory] : []));
}
