/**
 * Plans for one token of each of n sequences, recorded once for each n and replayed for every token. The values that change (ids,
 * pages, numbers of earlier tokens) are in i32 tensors, which are rewritten before each replay. A replay reads these tensors before
 * it returns, so they may be rewritten while it is pending.
 */
import type { Device } from "../device/device.ts";
import type { Plan } from "../device/plan.ts";
import type { StatePool } from "../states/state-pool.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { BestMemory, bestOf } from "./best-memory.ts";
import type { BestRows } from "./best-memory.ts";
import type { ModelGraph } from "./graph.ts";
import type { PageList } from "./page-ledger.ts";
import type { BestLogits } from "./sampling/best-logits.ts";

/** The shape of a plan's batches. */
export interface PlanShape {
  readonly sequences: number;
  /** The most pages that a sequence has in the table. */
  readonly pages: number;
  /** How many of the largest logits of each sequence are found; 0 for none. */
  readonly best: number;
}

/**
 * One of two places in which a plan leaves logits. A plan takes its tokens from the best ones that a step has left in the other place, or
 * from the host; in the latter case it leaves its logits in place 0.
 */
export type Bank = 0 | 1;

/** The tensors that a plan uses but does not own. */
export interface PlanBank {
  readonly bank: Bank;
  /** The tokens that the plan reads; undefined if they come from the host. */
  readonly deviceIds: Tensor<"id32"> | undefined;
  /** The place of the largest logits; undefined if they have separate memory or are not found. */
  readonly best: BestRows | undefined;
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
  readonly #deviceIds: Tensor<"id32"> | undefined;
  readonly #rows: BestRows | undefined;
  /** Where the plan leaves its logits. */
  readonly bank: Bank;
  /** Each sequence's largest logits after a replay, if they are found. */
  readonly best: readonly BestLogits[];
  #plan: Plan | undefined;
  #logits: readonly Float32Array[] = [];

  constructor(device: Device, shape: PlanShape, { bank, deviceIds, best: rows }: PlanBank) {
    const { sequences, pages, best } = shape;
    this.#shape = shape;
    this.#stamps = Array<number>(sequences).fill(0);
    const tensors = [sequences, sequences * pages, sequences].map((length) => device.tensor("i32", [length]));
    const [ids, table, past] = tensors.map(({ data }) => data);
    this.#tensors = tensors;
    this.#ids = ids!;
    this.#pageTable = table!;
    this.#pastTokens = past!;
    this.bank = bank;
    this.#deviceIds = deviceIds;
    this.#memory = new BestMemory(device);
    if (best > 0 && rows === undefined) this.#memory.reserve(sequences);
    this.#rows = rows ?? (best > 0 ? this.#memory.rows(0, sequences, best) : undefined);
    this.best = this.#rows === undefined ? [] : bestOf(this.#rows);
  }

  /** Each sequence's logits after a replay. */
  get logits(): readonly Float32Array[] {
    return this.#logits;
  }

  /** Sets the input of sequence `i` for the next replay. The token is used only if tokens come from the host. */
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
    const { sequences: tokens } = this.#shape;
    const [ids, pageTable, pastTokens] = this.#tensors;
    const rows = Array.from({ length: tokens }, (_, i) => i);
    const out = logits.slice(0, tokens);
    const ops = graph.ops({
      tokens,
      ids: this.#deviceIds ?? ids!,
      cuSeqlens: Int32Array.from([...rows, tokens]),
      pageTable: pageTable!,
      pastTokens: pastTokens!,
      step: pool.placeholder(tokens),
      decode: true,
      logits: { rows, outs: [out], best: this.#rows === undefined ? [] : [{ logits: out, rows: this.#rows }] },
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
 * Numbers of recently used plans to keep, within which each number of sequences of a model has plans of two numbers of pages, and of
 * the three places where tokens come from: sessions that end one by one, and others that begin, then record none again.
 */
const [fewestPlans, mostPlans] = [16, 128];
/** The fewest pages that a plan has room for, so that a short sequence does not soon need another plan. */
const fewestPages = 8;

/** The decode plans of a model, recorded when they are needed. */
export class DecodePlans implements Disposable {
  readonly #device: Device;
  readonly #states: number;
  readonly #most: number;
  /** In order of use, least recently used first. */
  readonly #plans = new Map<number, DecodePlan>();
  /** The best tokens of the two banks. */
  readonly #best: readonly BestMemory[];

  /** @param states of the model: the most sequences of a plan. */
  constructor(device: Device, states: number) {
    this.#device = device;
    this.#states = states;
    this.#most = Math.min(Math.max(fewestPlans, 6 * states), mostPlans);
    this.#best = [new BestMemory(device), new BestMemory(device)];
  }

  /** Number of kept plans. */
  get size(): number {
    return this.#plans.size;
  }

  /**
   * The plan for some sequences, with room for at least their pages; room grows by doubling.
   *
   * @param best how many of the largest logits the plan finds: 0 .. 128.
   * @param from the bank with the best tokens of the same number of sequences, in their order, which the plan reads; the plan then
   *   finds the best token. @default the host's
   */
  find(lists: readonly PageList[], best = 0, from?: Bank): DecodePlan {
    const sequences = lists.length;
    let pages = fewestPages;
    for (const list of lists) while (list.pages.length > pages) pages *= 2;
    const key = ((sequences * 64 + Math.log2(pages)) * 256 + best) * 4 + (from === undefined ? 0 : 1 + from);
    const known = this.#plans.get(key);
    if (known !== undefined) {
      this.#plans.delete(key);
      this.#plans.set(key, known);
      return known;
    }
    const made = new DecodePlan(this.#device, { sequences, pages, best }, this.#bank(sequences, best, from));
    for (const [oldest, plan] of this.#plans) {
      if (this.#plans.size < this.#most) break;
      this.#plans.delete(oldest);
      plan[Symbol.dispose]();
    }
    this.#plans.set(key, made);
    return made;
  }

  /** Ends the plans that leave their logits in a bank, whose memory is replaced. */
  clear(bank: Bank): void {
    for (const [key, plan] of this.#plans) {
      if (plan.bank !== bank) continue;
      this.#plans.delete(key);
      plan[Symbol.dispose]();
    }
  }

  /** Ends all plans. */
  [Symbol.dispose](): void {
    for (const plan of this.#plans.values()) plan[Symbol.dispose]();
    this.#plans.clear();
    for (const memory of this.#best) memory[Symbol.dispose]();
  }

  #bank(sequences: number, best: number, from: Bank | undefined): PlanBank {
    const bank = from === 0 ? 1 : 0;
    if (best !== 1) return { bank, deviceIds: undefined, best: undefined };
    const rowsOf = (which: Bank): BestRows => {
      this.#best[which]!.reserve(this.#states); // at once, since plans end with their tensors
      return this.#best[which]!.rows(0, sequences, 1);
    };
    return { bank, deviceIds: from === undefined ? undefined : rowsOf(from).ids.view({ shape: [sequences] }), best: rowsOf(bank) };
  }
}
