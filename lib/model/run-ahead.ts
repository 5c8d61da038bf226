/**
 * The step after a batch of single tokens, run before its tokens are known to JavaScript: each is the token of the largest logit,
 * which the device finds itself. So the device need not wait for JavaScript between two tokens.
 *
 * A step ahead takes no state and no page, and does not count until a run asks for what it has computed: the same sequences,
 * unchanged, with these tokens. Its results are then that run's. Any other run drops it. The step writes each sequence's keys and
 * values behind its last token, where nothing is read before it is written, and two banks of logits take turns, so that the
 * results of the previous step stay.
 */
import type { Device } from "../device/device.ts";
import type { StatePool } from "../states/state-pool.ts";
import { StepAhead } from "../states/step-ahead.ts";
import type { Entry } from "./batch.ts";
import type { DecodePlan, DecodePlans } from "./decode-plan.ts";
import type { ModelGraph } from "./graph.ts";
import type { PageLedger, PageList } from "./page-ledger.ts";
import { RowMemory } from "./row-memory.ts";
import type { ResultRows } from "./run-result.ts";

/** The parts of a runner that steps ahead use. */
export interface AheadParts {
  readonly device: Device;
  readonly pool: StatePool;
  readonly ledger: PageLedger;
  readonly graph: ModelGraph;
  readonly plans: DecodePlans;
  /** The logits of bank 0. */
  readonly logits: RowMemory;
  readonly vocabSize: number;
  /** The result of {@link paysAhead}. */
  readonly pays: boolean;
}

/** Bytes of weights from which steps take so long that the pause between two steps hardly matters. */
const longStep = 256e6;

/**
 * Whether steps ahead pay off. On a CPU a step is slower while JavaScript handles the previous one on the same cores, and a state that
 * moves to another slot takes longer than one in place. Long steps lose more by this, up to a sixth, than the half millisecond between
 * two steps.
 */
export function paysAhead({ backend }: Pick<Device, "backend">, weightBytes: number): boolean {
  return backend !== "cpu" || weightBytes < longStep;
}

/** A sequence in a step. Holds no handle, so that an abandoned sequence can be collected. */
interface Member {
  readonly list: PageList;
  /** Number of the sequence's tokens after the step. */
  readonly tokens: number;
}

/** A step of single tokens that was committed. */
interface Decoded {
  readonly plan: DecodePlan;
  readonly ticket: number;
}

/** A step that runs ahead of another. */
interface Ahead extends Decoded {
  /** In the order of the plan's rows. */
  readonly members: readonly Member[];
  readonly states: StepAhead;
  /** The plan whose best tokens the step has read. */
  readonly before: DecodePlan;
}

/** After steps ahead were dropped, the most steps that pass before another one is tried. */
const longestPause = 31;

export class RunAhead implements Disposable {
  readonly #parts: AheadParts;
  /** Logits of bank 1. */
  readonly #logits: RowMemory;
  /** The last run's step, if another one can follow it. */
  #last: Decoded | undefined;
  #ahead: Ahead | undefined;
  /** Number of steps before the next one ahead; it doubles with each consecutive one that is dropped. */
  #pause = 0;
  #skip = 0;

  constructor(parts: AheadParts) {
    const { device, pool, plans, vocabSize } = parts;
    this.#parts = parts;
    this.#logits = new RowMemory(device, { what: "logits", width: vocabSize, kept: pool.capacity, onReplace: () => plans.clear(1) });
  }

  /** Records the step that a run has just committed. */
  follows(entries: readonly Entry[], plan: DecodePlan, ticket: number): void {
    if (entries.every(goesOn)) this.#last = { plan, ticket };
  }

  /**
   * Commits the next step of the batch that was run last, if it can.
   *
   * @returns the ticket of that batch if there is a step ahead of it.
   */
  run(entries: readonly Entry[]): number | undefined {
    const before = this.#last;
    this.#last = undefined;
    const { device, pool, ledger, graph, plans } = this.#parts;
    if (before === undefined || !this.#parts.pays || !entries.every(goesOn)) return undefined;
    if (this.#skip > 0) {
      this.#skip--;
      return undefined;
    }
    const lists = entries.map(({ parts: { list } }) => list);
    if (!lists.every((list) => ledger.staysInPage(list))) return undefined;
    try {
      const logits = before.plan.bank === 0 ? this.#logits : this.#parts.logits;
      const memory = logits.reserve("model.run", lists.length);
      const plan = plans.find(lists, 1, before.plan.bank);
      for (const [i, list] of lists.entries()) plan.set(i, 0, list);
      const states = StepAhead.run(entries.map(({ parts }) => parts.handle), plan.recorded({ device, pool, graph }, memory));
      if (states === undefined) return undefined;
      const members = lists.map((list) => ({ list, tokens: list.tokens + 1 }));
      this.#ahead = { members, plan, ticket: states.ticket, states, before: before.plan };
      return before.ticket;
    } catch {
      // Too little memory for another plan, or a device that fails: the next run does without, or meets the same error.
      return undefined;
    }
  }

  /**
   * Takes the results of the step ahead if these entries ask for them: their sequences then have its tokens. Otherwise the step is
   * dropped.
   */
  take(op: string, entries: readonly Entry[]): ResultRows[] | undefined {
    const ahead = this.#ahead;
    this.#ahead = this.#last = undefined;
    if (ahead === undefined) return undefined;
    const rows = entries.map((entry) => this.#row(ahead, entry));
    if (rows.includes(-1) || rows.length === 0 || new Set(rows).size < rows.length) {
      this.#skip = this.#pause = Math.min(2 * this.#pause + 1, longestPause);
      return undefined;
    }
    this.#pause = 0;
    const { ledger } = this.#parts;
    const step = ledger.begin(op, "batch", entries.map(({ parts }) => parts.list), entries.map(() => 1));
    for (const row of rows) ahead.states.take(row);
    ledger.finish(step);
    const { plan: { logits, best }, plan, ticket } = ahead;
    // The next step reads its tokens by row.
    if (rows.every((row, i) => row === i) && entries.every(goesOn)) this.#last = { plan, ticket };
    return entries.map((entry, i) => ({
      logits: entry.logits === "none" ? undefined : logits[rows[i]!],
      hidden: undefined,
      best: entry.best === 0 ? undefined : best.slice(rows[i]!, rows[i]! + 1),
    }));
  }

  [Symbol.dispose](): void {
    this.#ahead = this.#last = undefined;
    this.#logits[Symbol.dispose]();
  }

  /** The row of the step with an entry's result; −1 if it has none. */
  #row({ members, states, before }: Ahead, { parts, tokens, role, hidden, drafts, best }: Entry): number {
    const { list, handle, lost, verification } = parts;
    const row = members.findIndex((member) => member.list === list);
    if (row < 0 || tokens.length !== 1 || role !== "generated" || hidden !== "none" || drafts > 0 || best > 1) return -1;
    if (lost !== undefined || verification !== undefined || handle.freed) return -1;
    if (list.tokens + 1 !== members[row]!.tokens || !this.#parts.ledger.staysInPage(list)) return -1;
    return before.best[row]!.ids[0] === tokens[0] && states.canTake(row, handle) ? row : -1;
  }
}

function goesOn({ goesOn: on, best, tokens, drafts }: Entry): boolean {
  return on && best === 1 && tokens.length === 1 && drafts === 0;
}
