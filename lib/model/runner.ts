/** Takes checked batches through a model: reserves what they need, encodes and commits. Nothing here waits. */
import type { Device } from "../device/device.ts";
import type { FloatDType } from "../tensor/dtype.ts";
import type { StatePool } from "../states/state-pool.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { Activations } from "./activations.ts";
import type { Entry } from "./batch.ts";
import { DecodePlans } from "./decode-plan.ts";
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

/** What a runner works with. */
export interface RunnerParts {
  readonly device: Device;
  readonly config: ModelConfig;
  readonly weights: ModelWeights;
  readonly pool: StatePool;
  readonly pages: PagePool;
  readonly dtype: FloatDType;
  /** The most tokens that go through the layers at a time. */
  readonly batchTokens: number;
}

/** What can be wanted of tokens. */
type Kind = "logits" | "hidden";

/** Where what is wanted of a batch goes. */
interface Destination {
  readonly memory: Tensor<"f32">;
  readonly width: number;
  /** Whether the memory is for this run alone. */
  readonly own: boolean;
  /** Of each entry, the row of its first token, or of its last one. */
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
  /** Of the last run's results. */
  #lease = new Lease();

  constructor(parts: RunnerParts) {
    const { device, config, weights, pool, pages, dtype, batchTokens } = parts;
    this.#parts = parts;
    this.#activations = new Activations(device, config, dtype, batchTokens);
    this.#graph = new ModelGraph(config, weights, this.#activations, pages);
    this.#plans = new DecodePlans(device);
    const kept = pool.capacity;
    const outgrown = (): void => {
      this.#plans[Symbol.dispose]();
      this.#lease.end(runSince);
    };
    this.#memory = {
      logits: new RowMemory(device, { what: "logits", width: config.vocabSize, kept, outgrown }),
      hidden: new RowMemory(device, { what: "hidden states", width: config.hiddenSize, kept, outgrown: () => this.#lease.end(runSince) }),
    };
  }

  /**
   * Commits a batch: as one submission, or, where it has more tokens than go through the layers at a time, as several.
   * If anything throws, no sequence has changed; where some of several submissions were committed before, the batch's
   * sequences are invalid.
   *
   * @returns what can be read when the work is done.
   */
  run(op: string, entries: readonly Entry[]): RunResult[] {
    const { pages, batchTokens } = this.#parts;
    const lists = entries.map(({ parts }) => parts.list);
    const counts = entries.map(({ tokens }) => tokens.length);
    const step = pages.ledger.begin(op, "batch", lists, counts);
    const passes = counts.every((count) => count === 1) && counts.length <= batchTokens ? [] : cutIntoPasses(counts, batchTokens);
    let committed = 0;
    let destinations: Destinations = { logits: undefined, hidden: undefined };
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
        this.#pass(entries, pass, step, committed === 0, destinations);
        committed++;
      }
      pages.ledger.finish(step);
      return this.#leased(entries, viewsOf(entries, destinations), ownOf(destinations));
    } catch (error) {
      for (const memory of ownOf(destinations)) memory[Symbol.dispose]();
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

  /** Commits one pass. */
  #pass(entries: readonly Entry[], pieces: readonly Piece[], step: PageStep, first: boolean, destinations: Destinations): void {
    const { pool, pages } = this.#parts;
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
      decode: pieces.every(({ start, end }) => end - start === 1),
      logits: wantedOf(entries, pieces, cuSeqlens, "logits", destinations),
      hidden: wantedOf(entries, pieces, cuSeqlens, "hidden", destinations),
    };
    const copies = first ? pages.copies(step.copies) : [];
    pool.run(pieces.map(({ entry }) => entries[entry]!.parts.handle), (poolStep) => [
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
    return { memory, width: memory.shape[1]!, own: !this.#memory[kind].keeps(wanted), starts };
  }

  /** The results of a run, which end those of the last one. */
  #leased(entries: readonly Entry[], rows: readonly ResultRows[], own: readonly Tensor[]): RunResult[] {
    this.#lease.end(runSince);
    const lease = (this.#lease = new Lease());
    lease.own(own);
    const { vocabSize } = this.#parts.config;
    return entries.map((entry, i) => makeResult(entry.sequence, lease, rows[i]!, vocabSize));
  }

  /** The sequences of a batch that was committed in part: nobody knows their tokens any more. */
  #lose(entries: readonly Entry[], step: PageStep, error: Error): void {
    this.#parts.pages.ledger.finish(step);
    for (const { parts } of entries) parts.lost = error;
    this.#lease.end(runSince);
  }
}

/** Whether a batch of one token each is what a plan does. */
function isDecoding(entries: readonly Entry[]): boolean {
  return entries.some(({ logits }) => logits !== "none") && entries.every(({ hidden }) => hidden === "none");
}

function wantedRows(entry: Entry, kind: Kind): number {
  return entry[kind] === "none" ? 0 : entry[kind] === "last" ? 1 : entry.tokens.length;
}

/** The rows of a pass of which something is wanted, and where it goes. */
function wantedOf(entries: readonly Entry[], pieces: readonly Piece[], cuSeqlens: Int32Array, kind: Kind, destinations: Destinations): WantedRows {
  const rows: number[] = [];
  const runs: { start: number; end: number }[] = [];
  const destination = destinations[kind];
  if (destination === undefined) return { rows, outs: [] };
  for (const [i, { entry, start, end }] of pieces.entries()) {
    const { [kind]: wanted, tokens } = entries[entry]!;
    const all = wanted === "all";
    if (!all && (wanted === "none" || end < tokens.length)) continue;
    const from = all ? start : end - 1;
    for (let token = from; token < end; token++) rows.push(cuSeqlens[i]! + token - start);
    const to = destination.starts[entry]! + (all ? start : 0);
    const last = runs.at(-1);
    if (last?.end === to) last.end = to + end - from;
    else runs.push({ start: to, end: to + end - from });
  }
  return { rows, outs: runs.map(({ start, end }) => destination.memory.slice(start, end)) };
}

/** What was wanted of each entry. */
function viewsOf(entries: readonly Entry[], destinations: Destinations): ResultRows[] {
  const view = (entry: Entry, i: number, kind: Kind): Float32Array | undefined => {
    const destination = destinations[kind];
    if (destination === undefined || entry[kind] === "none") return undefined;
    const { memory: { data }, width, starts } = destination;
    return data.subarray(starts[i]! * width, (starts[i]! + wantedRows(entry, kind)) * width);
  };
  return entries.map((entry, i) => ({ logits: view(entry, i, "logits"), hidden: view(entry, i, "hidden") }));
}

/** Memory that goes with the results. */
function ownOf(destinations: Destinations): Tensor[] {
  return Object.values(destinations).flatMap((destination) => (destination?.own ? [destination.memory] : []));
}
