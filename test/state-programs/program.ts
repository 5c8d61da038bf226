/** One random program: its pools, states and passes on both sides, and how a call is compared with the model. */
import { Draft, GatedDeltaError, PrefixCache, StatePool } from "../../lib/index.ts";
import type { Op, Plan, PoolStep, StateHandle, StepPlaceholder } from "../../lib/index.ts";
import { failAt } from "../support/faults.ts";
import { Difference } from "../support/schedules.ts";
import type { Counts } from "../support/schedules.ts";
import type { Inputs, Machine, OpName } from "./machine.ts";
import { Pool, World, usablePass } from "./model.ts";
import type { Content, Group, Kind, Pass, State, Verdict } from "./model.ts";
import { channels, dim, layers, nothing, past, tokenOf, wrongInConv, wrongInState } from "./values.ts";
import type { Pattern } from "./values.ts";

/** An error of a caller's own callback. */
export class CallersError extends Error {}

/** The outcome of a call. */
export type Result<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly injected: boolean };

/** A pool on both sides. */
export interface PoolPair {
  readonly model: Pool;
  readonly real: StatePool;
  cache: CachePair | undefined;
}

/** A prefix cache on both sides; its entries from the least to the most recently used. */
export interface CachePair {
  readonly real: PrefixCache;
  readonly budget: number;
  entries: { readonly key: readonly number[]; readonly state: State; readonly bytes: number }[];
}

/** A pass on both sides. */
export interface PassPair {
  readonly model: Pass;
  readonly real: PoolStep | Draft;
  readonly pool: PoolPair;
  readonly inputs: Inputs;
  /** The layers of a draft whose convolution already has its input. It is written once, since an op may read it later. */
  readonly filled: Set<number>;
}

/** An op that was made and may be encoded at any time. */
export interface MadeOp {
  readonly op: Op;
  readonly name: OpName;
  readonly pass: PassPair;
  readonly layer: number;
}

/** A plan over a pool's placeholder. */
export interface PlanPair {
  readonly id: number;
  readonly real: Plan;
  readonly placeholder: StepPlaceholder;
  readonly pool: PoolPair;
  readonly uses: readonly { readonly layer: number; readonly kinds: readonly Kind[] }[];
  readonly inputs: Inputs;
  lists: readonly (readonly number[])[];
  ticket: number;
}

/** A file of states. */
export interface SavedFile {
  readonly path: string;
  readonly conv: boolean;
  readonly patterns: readonly Pattern[];
  readonly damaged: boolean;
}

export class Program {
  readonly machine: Machine;
  readonly world = new World();
  readonly pools: PoolPair[] = [];
  readonly passes: PassPair[] = [];
  readonly made: MadeOp[] = [];
  readonly plans: PlanPair[] = [];
  readonly files: SavedFile[] = [];
  readonly handles = new Map<State, StateHandle>();
  readonly lines: string[] = [];
  readonly counts: Counts;
  readonly folder: string;
  /** Whether the process can write only short files. */
  readonly shortFiles: boolean;
  #ids = 0;
  readonly #tokens = new Map<State, number>();
  #armed = { encode: false, commit: false };

  constructor(machine: Machine, folder: string, counts: Counts, shortFiles: boolean) {
    this.machine = machine;
    this.shortFiles = shortFiles;
    this.folder = folder;
    this.counts = counts;
    machine.reset();
  }

  get device() {
    return this.machine.device;
  }

  newId(): number {
    return ++this.#ids;
  }

  /** Counts an event. */
  count(what: string): void {
    this.counts.add(what);
  }

  /** Makes a call that the model has judged. Throws a {@link Difference} if the library does something else. */
  call<T>(text: string, { must, may = false, full = false }: Verdict | (Omit<Verdict, "must"> & { must: "caller" }), body: () => T): Result<T> {
    const line = this.lines.push(text) - 1;
    const say = (what: string) => void (this.lines[line] += `  → ${what}`);
    let value: T;
    try {
      value = body();
    } catch (error) {
      if (error instanceof Difference) throw error;
      if (error instanceof CallersError && must === "caller") {
        say("the callback's error");
        return { ok: false, injected: false };
      }
      if (!(error instanceof GatedDeltaError)) throw new Difference(`${text}: threw ${String(error)}`, { cause: error });
      say(`${error.code}: ${error.message}`);
      if (full && error.code === "file" && must === undefined) {
        this.count("failed: save, no room");
        return { ok: false, injected: true };
      }
      if (error.code === must || (may && error.code === "state")) {
        this.count(`refused: ${error.code}`);
        return { ok: false, injected: false };
      }
      if (this.#wasInjected(error)) return { ok: false, injected: true };
      throw new Difference(`${text}: ${error.code} (${error.message}) where ${must ?? "success"} was expected`, { cause: error });
    }
    if (must !== undefined) {
      say("done");
      throw new Difference(`${text}: succeeded where ${must} was expected`);
    }
    return { ok: true, value };
  }

  /** Requests a failure. */
  inject(stage: "encode" | "commit" | "run", count: number): void {
    this.lines.push(`the next ${stage} ${count === 1 ? "" : `but ${count - 1} `}fails`);
    failAt(this.device, stage, count);
    if (stage === "run") this.world.failingOp = count;
    else this.#armed[stage] = true;
  }

  #wasInjected(error: GatedDeltaError): boolean {
    if (error.code !== "device" || error.received !== "a failure that a test asked for") return false;
    const stage = error.expected === "the commit to succeed" ? "commit" : "encode";
    if (!this.#armed[stage]) return false;
    this.#armed[stage] = false;
    this.count(`failed: ${stage}`);
    return true;
  }

  /** Waits until nothing is pending and every failure was reported, and then compares everything. */
  settle(): void {
    while (this.wait()) continue;
    this.check();
  }

  /** Calls wait once; returns whether it reported a failure. */
  wait(): boolean {
    const failure = this.world.noteWait();
    if (failure !== undefined) this.count("failed: run");
    return !this.call("device.wait()", { must: failure }, () => this.device.wait()).ok;
  }

  addState(pool: PoolPair, handle: StateHandle | undefined, content: Content, fresh: boolean, group?: Group): State {
    const state: State = {
      id: this.newId(), pool: pool.model, content, fresh, group: group ?? { refs: 1, away: 0 }, pass: undefined, freed: false,
    };
    pool.model.states.add(state);
    if (handle !== undefined) this.handles.set(state, handle);
    return state;
  }

  addPool(slots: number, conv: boolean): void {
    const model = new Pool(this.newId(), slots, conv);
    const sizes = { layers, keyHeads: 1, valueHeads: 1, keyDim: dim, valueDim: dim };
    const real = StatePool.create(this.device, { slots, ...sizes, ...(conv ? { convWidth: past + 1 } : { conv }) });
    for (let layer = 0; layer < layers; layer++) {
      real.state(layer).data.fill(NaN);
      if (conv) real.conv(layer).data.fill(NaN);
    }
    this.lines.push(`p${model.id} = a pool of ${slots} slots${conv ? "" : ", conv: false"}`);
    this.pools.push({ model, real, cache: undefined });
  }

  /** New tokens that belong to one state. */
  tokens(state: State, count: number): number[] {
    const used = this.#tokens.get(state) ?? 0;
    this.#tokens.set(state, used + count);
    return Array.from({ length: count }, (_, i) => tokenOf(state.id, used + i));
  }

  /** A new pass on the model's side. */
  pass(kind: Pass["kind"], pool: PoolPair, states: readonly State[], lists: Pass["lists"], checkpoints: Pass["checkpoints"] = []): Pass {
    const marks = Array.from({ length: layers }, () => ({ state: "none", conv: "none" }) as Record<Kind, "none">);
    return {
      id: this.newId(), kind, pool: pool.model, states, lists, checkpoints, places: [], extra: 0, marks, open: true,
      left: false, whole: false, ran: false, bad: false, ticket: 0,
    };
  }

  /** Makes an op of a pass. */
  makeOp({ model, real, inputs, filled }: PassPair, name: OpName, layer: number): Op {
    const states = real.layer(layer);
    if (!(real instanceof Draft)) return this.machine.op(name, layer, states, inputs);
    if (name === "delta") return this.machine.draftDelta(layer, states, inputs);
    const x = model.pool.conv ? real.convInput(layer, "f32") : undefined;
    if (x !== undefined && !filled.has(layer)) this.machine.fill(x, inputs, layer);
    filled.add(layer);
    return this.machine.op(name, layer, states, inputs, name === "conv" ? x : undefined);
  }

  /** Compares slots in use with the model. */
  checkFree(): void {
    for (const { model, real } of this.pools) {
      if (!model.disposed && real.free !== model.free) throw new Difference(`p${model.id}.free is ${real.free}, not ${model.free}`);
    }
  }

  /** Compares every state with the model. Nothing is pending. */
  check(): void {
    for (const { model, real, cache } of this.pools) {
      if (model.disposed) continue;
      const state = Array.from({ length: layers }, (_, layer) => real.state(layer).data as Float32Array);
      const conv = model.conv ? state.map((_, layer) => real.conv(layer).data as Float32Array) : undefined;
      for (const each of model.states) {
        const handle = this.handles.get(each);
        if (handle === undefined) continue; // a cache's
        const name = `h${each.id}`;
        if (handle.valid === each.content.bad) throw new Difference(`${name}.valid is ${handle.valid}`);
        if (handle.shared !== each.group.refs > 1) throw new Difference(`${name}.shared is ${handle.shared}`);
        const { slot } = handle;
        if (slot < 0 !== each.fresh) throw new Difference(`${name}.slot is ${slot}`);
        const { content, pass } = each;
        const overwritten = pass?.ran && pass.kind === "step"
          && pass.states.some(({ group }, i) => group === each.group && pass.places[i] === "over");
        if (slot < 0 || content.bad || overwritten) continue;
        for (let layer = 0; layer < layers; layer++) {
          const wrong = wrongInState(state[layer]!.subarray(slot * dim * dim, (slot + 1) * dim * dim), content.pattern, layer)
            ?? (conv && wrongInConv(conv[layer]!.subarray(slot * channels * past, (slot + 1) * channels * past), content.pattern, layer));
          if (wrong !== undefined) throw new Difference(`${name}, slot ${slot}, layer ${layer}: ${wrong}`);
        }
        this.count("states compared");
      }
      if (cache !== undefined && cache.real.size !== cache.entries.length) throw new Difference(`the cache of p${model.id} has ${cache.real.size} entries, not ${cache.entries.length}`);
    }
  }

  /** Ends the program: afterwards nothing is encoded or pending, and every slot is free. */
  end(): void {
    for (const stage of ["encode", "commit", "run"] as const) failAt(this.device, stage, 0);
    this.#armed = { encode: false, commit: false };
    this.world.failingOp = 0;
    this.settle();
    for (const { model, real } of this.passes) {
      if (usablePass(model).must === undefined && !real.open) throw new Difference(`pass ${model.id} is not open`);
      real[Symbol.dispose]();
      this.world.leave(model);
    }
    this.device.discard();
    this.world.discard();
    this.settle();
    for (const { model, real, cache } of this.pools) {
      cache?.real[Symbol.dispose]();
      for (const state of model.states) this.handles.get(state)?.[Symbol.dispose]();
      if (!model.disposed && real.free !== model.slots) throw new Difference(`p${model.id} has lost ${model.slots - real.free} slots`);
    }
  }

  /** Releases everything, even after a difference. */
  [Symbol.dispose](): void {
    for (const stage of ["encode", "commit", "run"] as const) failAt(this.device, stage, 0);
    for (const { real } of this.plans) real[Symbol.dispose]();
    this.device.discard();
    for (;;) {
      try {
        this.device.wait();
        break;
      } catch {
        // a failure that the program asked for
      }
    }
    for (const { real } of this.pools) real[Symbol.dispose]();
  }
}

export const freshContent: Content = { pattern: nothing, bad: false, ticket: 0 };
