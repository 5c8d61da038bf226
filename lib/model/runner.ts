/** Takes checked batches through a model: reserves what they need, encodes and commits. Nothing here waits. */
import type { Device } from "../device/device.ts";
import type { FloatDType } from "../tensor/dtype.ts";
import type { StatePool } from "../states/state-pool.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { Activations } from "./activations.ts";
import type { Entry } from "./batch.ts";
import { DecodePlans } from "./decode-plan.ts";
import { ModelGraph } from "./graph.ts";
import { LogitsMemory } from "./logits.ts";
import type { ModelConfig } from "./model-config.ts";
import type { ModelWeights } from "./model-weights.ts";
import type { PageStep } from "./page-ledger.ts";
import type { PagePool } from "./page-pool.ts";
import { cutIntoPasses } from "./passes.ts";
import type { Piece } from "./passes.ts";
import { Lease, makeResult } from "./run-result.ts";
import type { RunResult } from "./run-result.ts";

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

/** Where the logits of a batch go. */
interface Destination {
  readonly memory: Tensor<"f32">;
  /** Of each entry, the row of its first token's logits, or of its last one's. */
  readonly starts: readonly number[];
}

const runSince = "the model has run since, and its logits lie where these did: keep what is needed with logits.slice()";

export class Runner implements Disposable {
  readonly #parts: RunnerParts;
  readonly #activations: Activations;
  readonly #graph: ModelGraph;
  readonly #plans: DecodePlans;
  readonly #logits: LogitsMemory;
  /** Of the last run's results. */
  #lease = new Lease();

  constructor(parts: RunnerParts) {
    const { device, config, weights, pool, pages, dtype, batchTokens } = parts;
    this.#parts = parts;
    this.#activations = new Activations(device, config, dtype, batchTokens);
    this.#graph = new ModelGraph(config, weights, this.#activations, pages);
    this.#plans = new DecodePlans(device);
    this.#logits = new LogitsMemory(device, config.vocabSize, pool.capacity, () => {
      this.#plans[Symbol.dispose]();
      this.#lease.end(runSince);
    });
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
    let own: Tensor | undefined;
    try {
      const wanted = entries.reduce((sum, entry) => sum + wantedRows(entry), 0);
      const results = passes.length === 0 && wanted > 0 ? this.#decode(op, entries, step) : undefined;
      if (results !== undefined) {
        pages.ledger.finish(step);
        return this.#leased(entries, results, undefined);
      }
      const destination = this.#destination(op, entries, wanted);
      if (wanted > 0 && !this.#logits.keeps(wanted)) own = destination?.memory;
      const cut = passes.length > 0 ? passes : [entries.map((_, entry) => ({ entry, start: 0, end: 1 }))];
      for (const pass of cut) {
        this.#pass(entries, pass, step, committed === 0, destination);
        committed++;
      }
      pages.ledger.finish(step);
      return this.#leased(entries, viewsOf(entries, destination, this.#parts.config.vocabSize), own);
    } catch (error) {
      own?.[Symbol.dispose]();
      if (committed === 0) pages.ledger.abort(step);
      else this.#lose(entries, step, error as Error);
      throw error;
    }
  }

  [Symbol.dispose](): void {
    this.#lease.end("the model was disposed");
    this.#plans[Symbol.dispose]();
    this.#logits[Symbol.dispose]();
    this.#activations[Symbol.dispose]();
  }

  /** One token of each sequence. */
  #decode(op: string, entries: readonly Entry[], step: PageStep): readonly Float32Array[] {
    const { device, pool, pages } = this.#parts;
    const logits = this.#logits.reserve(op, entries.length);
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
  #pass(entries: readonly Entry[], pieces: readonly Piece[], step: PageStep, first: boolean, destination: Destination | undefined): void {
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
      wanted: wantedOf(entries, pieces, cuSeqlens, destination),
    };
    const copies = first ? pages.copies(step.copies) : [];
    pool.run(pieces.map(({ entry }) => entries[entry]!.parts.handle), (poolStep) => [
      ...copies,
      ...this.#graph.ops({ ...inputs, step: poolStep }),
    ]);
  }

  #destination(op: string, entries: readonly Entry[], wanted: number): Destination | undefined {
    if (wanted === 0) return undefined;
    let next = 0;
    const starts = entries.map((entry) => {
      const start = next;
      next += wantedRows(entry);
      return start;
    });
    return { memory: this.#logits.reserve(op, wanted), starts };
  }

  /** The results of a run, which end those of the last one. */
  #leased(entries: readonly Entry[], logits: readonly (Float32Array | undefined)[], own: Tensor | undefined): RunResult[] {
    this.#lease.end(runSince);
    const lease = (this.#lease = new Lease());
    if (own !== undefined) lease.own(own);
    const { vocabSize } = this.#parts.config;
    return entries.map((entry, i) => makeResult(entry.sequence, lease, entry.logits === "none" ? undefined : logits[i], vocabSize));
  }

  /** The sequences of a batch that was committed in part: nobody knows their tokens any more. */
  #lose(entries: readonly Entry[], step: PageStep, error: Error): void {
    this.#parts.pages.ledger.finish(step);
    for (const { parts } of entries) parts.lost = error;
    this.#lease.end(runSince);
  }
}

function wantedRows({ logits, tokens }: Entry): number {
  return logits === "none" ? 0 : logits === "last" ? 1 : tokens.length;
}

/** The rows of a pass whose logits are wanted, and where they go. */
function wantedOf(entries: readonly Entry[], pieces: readonly Piece[], cuSeqlens: Int32Array, destination: Destination | undefined) {
  const rows: number[] = [];
  const runs: { start: number; end: number }[] = [];
  if (destination === undefined) return { rows, outs: [] };
  for (const [i, { entry, start, end }] of pieces.entries()) {
    const { logits, tokens } = entries[entry]!;
    const all = logits === "all";
    if (!all && (logits === "none" || end < tokens.length)) continue;
    const from = all ? start : end - 1;
    for (let token = from; token < end; token++) rows.push(cuSeqlens[i]! + token - start);
    const to = destination.starts[entry]! + (all ? start : 0);
    const last = runs.at(-1);
    if (last?.end === to) last.end = to + end - from;
    else runs.push({ start: to, end: to + end - from });
  }
  return { rows, outs: runs.map(({ start, end }) => destination.memory.slice(start, end)) };
}

/** The logits of each entry. */
function viewsOf(entries: readonly Entry[], destination: Destination | undefined, vocabSize: number): (Float32Array | undefined)[] {
  if (destination === undefined) return entries.map(() => undefined);
  const { memory, starts } = destination;
  const { data } = memory;
  return entries.map((entry, i) => data.subarray(starts[i]! * vocabSize, (starts[i]! + wantedRows(entry)) * vocabSize));
}
