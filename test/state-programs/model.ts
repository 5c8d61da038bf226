/**
 * A model of legal calls, in plain TypeScript: pools, states, passes and submissions as the documentation describes them. It
 * shares no code with the library. A call is judged before it is made ({@link Verdict}), then noted.
 */
import type { ErrorCode } from "../../lib/index.ts";
import { layers } from "./values.ts";
import type { Pattern } from "./values.ts";

export type Kind = "state" | "conv";

/** The required outcome of a call: success (undefined) or a refusal. `may`: it may also be refused, depending on how far the device is. */
export interface Verdict {
  readonly must: ErrorCode | undefined;
  readonly may?: boolean;
  /** Whether a file may find no room. */
  readonly full?: boolean;
}

export const legal: Verdict = { must: undefined };
export const refused = (must: ErrorCode): Verdict => ({ must });
/** Legal, or refused as invalid if the device has reached the failure. */
export const perhapsInvalid: Verdict = { must: undefined, may: true };

/** The first verdict that is not plainly legal. */
export function firstOf(...verdicts: readonly Verdict[]): Verdict {
  let may = false;
  for (const verdict of verdicts) {
    may ||= verdict.may === true;
    if (verdict.must !== undefined) return { must: verdict.must, may };
  }
  return { must: undefined, may };
}

/** Content that one or several states share. */
export interface Content {
  readonly pattern: Pattern;
  /** Whether work that made it has failed or will fail. */
  readonly bad: boolean;
  /** The submission whose end shows whether the work failed. */
  readonly ticket: number;
}

/** States that share one slot: `refs` of them, `away` of which are in an open pass that writes elsewhere. */
export interface Group {
  refs: number;
  away: number;
}

/** One state. */
export interface State {
  readonly id: number;
  readonly pool: Pool;
  content: Content;
  group: Group;
  /** Reads as zeros and has no slot. */
  fresh: boolean;
  pass: Pass | undefined;
  freed: boolean;
}

type Mark = "none" | "encoded" | "written";

/** A step or draft. */
export interface Pass {
  readonly id: number;
  readonly kind: "step" | "deltas" | "snapshots";
  readonly pool: Pool;
  readonly states: readonly State[];
  /** The tokens that every layer's ops give each state. */
  readonly lists: readonly (readonly number[])[];
  /** For each state: whether the pass writes over its content, into another slot, or into a slot without content. */
  readonly places: ("over" | "elsewhere" | "fresh")[];
  /** The numbers of tokens after which each state is kept. */
  readonly checkpoints: readonly (readonly number[])[];
  /** The number of slots that the pass has besides those of its states' groups. */
  extra: number;
  readonly marks: Record<Kind, Mark>[];
  open: boolean;
  /** Whether it was ended by neither done nor abort. */
  left: boolean;
  /** Whether a submission must hold all missing ops. */
  whole: boolean;
  ran: boolean;
  bad: boolean;
  ticket: number;
}

/** One pool. */
export class Pool {
  readonly id: number;
  readonly slots: number;
  readonly conv: boolean;
  disposed = false;
  readonly states = new Set<State>();
  readonly passes = new Set<Pass>();

  constructor(id: number, slots: number, conv: boolean) {
    this.id = id;
    this.slots = slots;
    this.conv = conv;
  }

  get kinds(): readonly Kind[] {
    return this.conv ? ["state", "conv"] : ["state"];
  }

  /** A group needs a slot for each of its states, or for its content and each state that is away, whichever is more. */
  get free(): number {
    const groups = new Set([...this.states].map(({ group }) => group));
    let used = 0;
    for (const { refs, away } of groups) used += Math.max(refs, 1 + away);
    for (const { extra } of this.passes) used += extra;
    return this.slots - used;
  }
}

/** An op of a pass in the open submission or a plan. */
export interface OpUse {
  readonly pass: Pass;
  readonly layer: number;
  readonly kinds: readonly Kind[];
}

/** The device: its open submission, and what was committed. */
export class World {
  open: OpUse[] = [];
  last = 0;
  waited = 0;
  /** Submissions that failed and were not reported by a call yet. */
  unreported = 0;
  /** The number, counted from the next op, of the op that fails; 0 for none. */
  failingOp = 0;

  /** Whether `content` can be used. */
  usable(content: Content): Verdict {
    if (!content.bad) return legal;
    return content.ticket <= this.waited ? refused("state") : perhapsInvalid;
  }

  /** Everything that is encoded becomes a submission. */
  commit(): void {
    const ops = this.open;
    this.open = [];
    // Ops over no sequences have nothing to do, and an empty submission is ignored.
    const count = ops.filter(({ pass }) => pass.states.length > 0).length;
    const fails = this.failingOp > 0 && this.failingOp <= count;
    this.failingOp = fails ? 0 : Math.max(0, this.failingOp - count);
    if (count > 0) this.last++;
    if (fails) this.unreported++;
    for (const { pass, layer, kinds } of ops) {
      pass.ran = true;
      pass.bad ||= fails;
      pass.ticket = this.last;
      for (const kind of kinds) pass.marks[layer]![kind] = "written";
    }
  }

  encode(...ops: readonly OpUse[]): void {
    for (const op of ops) {
      for (const kind of op.kinds) op.pass.marks[op.layer]![kind] = "encoded";
      this.open.push(op);
    }
  }

  discard(): void {
    for (const { pass, layer, kinds } of this.open) for (const kind of kinds) pass.marks[layer]![kind] = "none";
    this.open = [];
  }

  /** Whether the open submission, with `further` ops, may be committed. */
  committable(further: readonly OpUse[] = []): Verdict {
    const passes = new Set([...this.open, ...further].map(({ pass }) => pass));
    for (const pass of passes) {
      if (pass.left) return refused("state");
      if (pass.whole && !complete(pass, "encoded", further)) return refused("state");
    }
    return legal;
  }

  pending(pass: Pass): boolean {
    return this.open.some((op) => op.pass === pass);
  }

  /** Notes that all committed work is done; the caller has seen one failure if there was one. */
  noteWait(): "device" | undefined {
    this.waited = this.last;
    if (this.unreported === 0) return undefined;
    this.unreported--;
    return "device";
  }

  /** Begins a pass, or refuses and changes nothing. */
  begin(pass: Pass, undoable: boolean): Verdict {
    const { pool, states, places } = pass;
    let verdict = legal;
    const undo = () => {
      for (const [i, place] of places.entries()) {
        states[i]!.pass = undefined;
        if (place === "elsewhere") states[i]!.group.away--;
      }
      places.length = 0;
      pass.extra = 0;
      pool.passes.delete(pass);
    };
    const snapshots = pass.lists.reduce((sum, { length }) => sum + length, 0);
    if (pass.kind === "snapshots" && snapshots > pool.free) return refused("range");
    if (pass.kind === "snapshots") pass.extra = snapshots;
    pool.passes.add(pass);
    for (const state of states) {
      verdict = firstOf(verdict, this.idle(state), this.usable(state.content));
      if (verdict.must === undefined) verdict = firstOf(verdict, this.#place(pass, state, undoable));
      if (verdict.must !== undefined) {
        undo();
        return verdict;
      }
      state.pass = pass;
    }
    const extra = pass.checkpoints.reduce((sum, { length }) => sum + length, 0);
    if (extra > pool.free) {
      undo();
      return { ...verdict, must: "range" };
    }
    pass.extra += extra;
    return verdict;
  }

  /** Undoes {@link begin}. */
  cancel(pass: Pass): void {
    for (const [i, state] of pass.states.entries()) {
      state.pass = undefined;
      if (pass.places[i] === "elsewhere") state.group.away--;
    }
    pass.extra = 0;
    pass.pool.passes.delete(pass);
    pass.open = false;
  }

  idle(state: State): Verdict {
    if (state.freed || state.pool.disposed) return refused("disposed");
    return state.pass === undefined ? legal : refused("state");
  }

  #place(pass: Pass, state: State, undoable: boolean): Verdict {
    const { group, fresh } = state;
    if (pass.kind === "snapshots") {
      pass.places.push("fresh");
      return legal;
    }
    const alone = group.refs === 1;
    if (fresh || (alone && !undoable)) {
      pass.places.push(fresh ? "fresh" : "over");
      return legal;
    }
    if (group.refs > 1 + group.away || pass.pool.free > 0) {
      group.away++;
      pass.places.push("elsewhere");
      return legal;
    }
    if (alone || undoable) return refused("range");
    const others = pass.states.filter((other) => other !== state && other.group === group);
    if (others.length !== group.refs - 1) return refused("state");
    pass.places.push("over");
    return legal;
  }

  /** The content that a pass makes from a state's. */
  made(pass: Pass, from: Content, pattern: Pattern): Content {
    return { pattern, bad: pass.bad || from.bad, ticket: Math.max(pass.ticket, from.ticket) };
  }

  /** The state moves to a slot of its own, or stays where the pass has written over it. */
  move(state: State, content: Content, away: boolean, leaves: boolean): void {
    state.pass = undefined;
    state.fresh = false;
    state.content = content;
    if (!leaves) return;
    if (away) state.group.away--;
    state.group.refs--;
    state.group = { refs: 1, away: 0 };
  }

  /** Ends an abandoned pass: overwritten contents are lost. */
  leave(pass: Pass): void {
    if (!pass.open || pass.pool.disposed) return;
    if (this.pending(pass)) pass.left = true;
    const lost = new Set<Group>();
    if (pass.ran && pass.kind === "step") {
      for (const [i, place] of pass.places.entries()) if (place === "over") lost.add(pass.states[i]!.group);
    }
    this.cancel(pass);
    for (const state of pass.states) {
      if (lost.has(state.group)) state.content = { pattern: state.content.pattern, bad: true, ticket: 0 };
    }
  }
}

/** Whether every layer and kind is written, or at least encoded, or about to be. */
export function complete(pass: Pass, least: "encoded" | "written", further: readonly OpUse[] = []): boolean {
  if (!required(pass)) return true;
  for (let layer = 0; layer < layers; layer++) {
    for (const kind of pass.pool.kinds) {
      const mark = pass.marks[layer]![kind];
      if (mark === "written" || (mark === "encoded" && least === "encoded")) continue;
      if (!further.some((op) => op.pass === pass && op.layer === layer && op.kinds.includes(kind))) return false;
    }
  }
  return true;
}

/** A step over no states and a draft without tokens have nothing to write. */
function required({ kind, states, lists }: Pass): boolean {
  return kind === "step" ? states.length > 0 : lists.some(({ length }) => length > 0);
}

/** Whether a pass can be used. */
export function usablePass(pass: Pass): Verdict {
  if (pass.pool.disposed) return refused("disposed");
  return pass.open ? legal : refused("state");
}
