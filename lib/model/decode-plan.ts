/**
 * Plans of one token of each of n sequences, recorded once for each n and replayed for every token. The values that change (ids,
 * pages, numbers of earlier tokens) are in i32 tensors, which are rewritten before each replay. A replay reads them before it
 * returns, so they may be rewritten while it is pending.
 */
import type { Device } from "../device/device.ts";
import type { Plan } from "../device/plan.ts";
import type { StatePool } from "../states/state-pool.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { BestMemory, bestOf } from "./best-memory.ts";
import type { ModelGraph } from "./graph.ts";
import type { PageList } from "./page-ledger.ts";
import type { BestLogits } from "./sampling/best-logits.ts";

/** The shape of a plan's batches. */
export interface PlanShape {
  readonly sequences: number;
  /** The most pages of a sequence in the table. */
  readonly pages: number;
  /** How many of the largest logits of each sequence are found; 0 for none. */
  readonly best: number;
}

/** The parts of a model from which plans are recorded. */
export interface PlanParts {
  readonly device: Device;
  readonly graph: ModelGraph;
  readonly pool: StatePool;
}

export class DecodePlan implements Disposable {
  readonly #shape: PlanShape;
  readonly #tensors: readonly Tensor<"i32">[];
  readonly #ids: Int32Array;
  readonly #pageTable: Int32Array;
  readonly #pastTokens: Int32Array;
  /** For each row of the table, the stamp of the list from which it was written. */
  readonly #stamps: number[];
  readonly #memory: BestMemory;
  /** Each sequence's largest logits after a replay, if they are found. */
  readonly best: readonly BestLogits[];
  #plan: Plan | undefined;
  #logits: readonly Float32Array[] = [];

  constructor(device: Device, shape: PlanShape) {
    const { sequences, pages, best } = shape;
    this.#shape = shape;
    this.#stamps = Array<number>(sequences).fill(0);
    const tensors = [sequences, sequences * pages, sequences].map((length) => device.tensor("i32", [length]));
    const [ids, table, past] = tensors.map(({ data }) => data);
    this.#tensors = tensors;
    this.#ids = ids!;
    this.#pageTable = table!;
    this.#pastTokens = past!;
    this.#memory = new BestMemory(device);
    if (best > 0) this.#memory.reserve(sequences);
    this.best = best > 0 ? bestOf(this.#memory.rows(0, sequences, best)) : [];
  }

  /** Each sequence's logits after a replay. */
  get logits(): readonly Float32Array[] {
    return this.#logits;
  }

  /** Sets the input of sequence `i` for the next replay. */
  set(i: number, id: number, { pages, tokens, stamp }: PageList): void {
    this.#ids[i] = id;
    this.#pastTokens[i] = tokens;
    if (this.#stamps[i] === stamp) return;
    const start = i * this.#shape.pages;
    for (let j = 0; j < pages.length; j++) this.#pageTable[start + j] = pages[j]!;
    this.#stamps[i] = stamp;
  }

  /**
   * The plan. It is recorded after all sequences are set for the first time, because recording checks their inputs.
   *
   * @param logits `[at least sequences, vocabulary]`.
   */
  recorded({ device, graph, pool }: PlanParts, logits: Tensor<"f32">): Plan {
    if (this.#plan !== undefined) return this.#plan;
    const { sequences: tokens, best } = this.#shape;
    const [ids, pageTable, pastTokens] = this.#tensors;
    const rows = Array.from({ length: tokens }, (_, i) => i);
    const out = logits.slice(0, tokens);
    const ops = graph.ops({
      tokens,
      ids: ids!,
      cuSeqlens: Int32Array.from([...rows, tokens]),
      pageTable: pageTable!,
      pastTokens: pastTokens!,
      step: pool.placeholder(tokens),
      decode: true,
      logits: { rows, outs: [out], best: best > 0 ? [{ logits: out, rows: this.#memory.rows(0, tokens, best) }] : [] },
      hidden: { rows: [], outs: [] },
    });
    this.#logits = rows.map((i) => logits.slice(i, i + 1).data);
    this.#plan = device.plan((pass) => {
      for (const op of ops) pass.encode(op);
    });
    return this.#plan;
  }

  /** Ends the plan; replays that are pending still run. */
  [Symbol.dispose](): void {
    this.#plan?.[Symbol.dispose]();
    for (const tensor of this.#tensors) tensor[Symbol.dispose]();
    this.#memory[Symbol.dispose]();
  }
}

/**
 * Numbers of recently used plans to keep, within which each number of sequences of a model has plans of two numbers of pages: sessions
 * that end one by one, and others that begin, then record none again.
 */
const [fewestPlans, mostPlans] = [16, 128];
/** The fewest pages that a plan has room for, so that a short sequence does not need another plan soon. */
const fewestPages = 8;

/** The decode plans of a model, recorded when they are needed. */
export class DecodePlans implements Disposable {
  readonly #device: Device;
  readonly #most: number;
  /** In order of use, least recently used first. */
  readonly #plans = new Map<number, DecodePlan>();

  /** @param states of the model: the most sequences of a plan. */
  constructor(device: Device, states: number) {
    this.#device = device;
    this.#most = Math.min(Math.max(fewestPlans, 2 * states), mostPlans);
  }

  /** Number of kept plans. */
  get size(): number {
    return this.#plans.size;
  }

  /**
   * The plan for some sequences, with room for at least their pages; room grows by doubling.
   *
   * @param best how many of the largest logits it finds: 0 .. 128.
   */
  find(lists: readonly PageList[], best = 0): DecodePlan {
    const sequences = lists.length;
    let pages = fewestPages;
    for (const list of lists) while (list.pages.length > pages) pages *= 2;
    const key = (sequences * 64 + Math.log2(pages)) * 256 + best;
    const known = this.#plans.get(key);
    if (known !== undefined) {
      this.#plans.delete(key);
      this.#plans.set(key, known);
      return known;
    }
    const made = new DecodePlan(this.#device, { sequences, pages, best });
    for (const [oldest, plan] of this.#plans) {
      if (this.#plans.size < this.#most) break;
      this.#plans.delete(oldest);
      plan[Symbol.dispose]();
    }
    this.#plans.set(key, made);
    return made;
  }

  /** Ends all plans. */
  [Symbol.dispose](): void {
    for (const plan of this.#plans.values()) plan[Symbol.dispose]();
    this.#plans.clear();
  }
}
