/** Actions on steps and drafts that are left open across other actions: their ops, and how they end. */
import { Draft, copySlots } from "../../lib/index.ts";
import type { Op, PoolStep, StateHandle, StepOptions } from "../../lib/index.ts";
import type { Random } from "../support/random.ts";
import { allocateIn, anyPool, statesOf } from "./actions-states.ts";
import type { Action } from "./actions-states.ts";
import { kindsOf } from "./machine.ts";
import type { OpName } from "./machine.ts";
import { complete, firstOf, legal, refused, usablePass } from "./model.ts";
import type { OpUse, Pass, State, Verdict } from "./model.ts";
import type { MadeOp, PassPair, PoolPair, Program } from "./program.ts";
import { after, channels, dim, layers, past, writeConv, writeState } from "./values.ts";

/** The arguments with which a program opens a pass; sometimes wrong ones. */
export interface Wanted {
  readonly pool: PoolPair;
  readonly states: readonly State[];
  readonly lists: readonly (readonly number[])[];
  readonly handles: readonly StateHandle[];
  readonly text: string;
  /** Why the handles are refused before the pass begins, if they are. */
  readonly verdict: Verdict;
}

/** Chooses states and tokens for a pass: one token each if `single`, and `count` states if there are as many. */
export function wanted(program: Program, random: Random, single: boolean, of?: PoolPair, count?: number): Wanted {
  const pool = of ?? anyPool(program, random);
  const usable = () => [...pool.model.states].some((state) => program.handles.has(state) && state.pass === undefined && !state.content.bad);
  if (!pool.model.disposed && !usable() && random.below(8) > 0) allocateIn(program, pool);
  const candidates = statesOf(program, random, random.below(25) === 0 ? undefined : pool);
  // States that are in a pass are sometimes chosen as well, and must be refused.
  const idle = candidates.filter((state) => (state.pass === undefined && !state.content.bad) || random.below(12) === 0);
  const states: State[] = [];
  const most = count ?? 1 + random.below(3);
  while (states.length < most && idle.length > 0) states.push(...idle.splice(random.below(idle.length), 1));
  if (states.length > 0 && random.below(40) === 0 && count === undefined) states.push(random.pick(states));
  const lists = states.map((state) => program.tokens(state, single ? 1 : random.below(5)));
  const foreign = states.some((state) => state.pool !== pool.model);
  const verdict = firstOf(pool.model.disposed ? refused("disposed") : legal,
    states.length > pool.model.slots ? refused("shape") : legal, foreign ? refused("invalid-argument") : legal);
  const text = states.map(({ id }, i) => `h${id} + [${lists[i]!.join()}]`).join(", ");
  return { pool, states, lists, handles: states.map((state) => program.handles.get(state)!), text, verdict };
}

/** Adds an opened pass to the program. */
export function keepPass(program: Program, model: Pass, real: PoolStep | Draft, pool: PoolPair, inputs: PassPair["inputs"]): PassPair {
  const pair = { model, real, pool, inputs, filled: new Set<number>() };
  program.passes.push(pair);
  if (program.passes.length > 12) program.passes.shift();
  return pair;
}

const step: Action = (program, random) => {
  const want = wanted(program, random, random.below(2) === 0);
  const inputs = program.machine.inputs(want.lists);
  if (inputs === undefined) return;
  const undoable = random.below(3) === 0;
  const checkpoints = random.below(4) > 0 ? [] : want.lists.map(({ length }) => Array.from({ length: random.below(3) }, () => random.below(length + 1)));
  const model = program.pass("step", want.pool, want.states, want.lists, checkpoints);
  const verdict = want.verdict.must !== undefined ? want.verdict : program.world.begin(model, undoable);
  const options: StepOptions = { ...(undoable && { undoable }), ...(checkpoints.length > 0 && { checkpoints }) };
  const text = `s${model.id} = p${want.pool.model.id}.step([${want.text}], ${JSON.stringify(options)})`;
  const result = program.call(text, verdict, () => want.pool.real.step(want.handles, options));
  if (result.ok) {
    keepPass(program, model, result.value, want.pool, inputs);
    program.count("steps");
    if (checkpoints.flat().length > 0) program.count("steps with checkpoints");
    if (undoable) program.count("undoable steps");
  } else if (verdict.must === undefined) program.world.cancel(model);
};

const draft: Action = (program, random) => {
  const want = wanted(program, random, false);
  const inputs = program.machine.inputs(want.lists);
  if (inputs === undefined) return;
  const records = random.pick(["deltas", "snapshots"] as const);
  const model = program.pass(records, want.pool, want.states, want.lists);
  const verdict = want.verdict.must !== undefined ? want.verdict : program.world.begin(model, false);
  const counts = want.lists.map(({ length }) => length);
  const text = `d${model.id} = p${want.pool.model.id}.draft([${want.text}], ${records})`;
  const result = program.call(text, verdict, () => want.pool.real.draft(want.handles, counts, { records }));
  if (result.ok) {
    keepPass(program, model, result.value, want.pool, inputs);
    program.count(`drafts of ${records}`);
  } else if (verdict.must === undefined) program.world.cancel(model);
};

/** A pass, most often one that is open. */
function somePass(program: Program, random: Random, kind?: "step" | "draft"): PassPair | undefined {
  const passes = program.passes.filter(({ model }) => kind === undefined || (model.kind === "step") === (kind === "step"));
  const open = passes.filter(({ model }) => usablePass(model).must === undefined);
  const from = open.length > 0 && random.below(8) > 0 ? open : passes;
  return from.length === 0 ? undefined : random.pick(from);
}

export const nameOf = ({ model }: PassPair) => `${model.kind === "step" ? "s" : "d"}${model.id}`;

/** Why making an op of a pass is refused, if it is. */
export function makable({ model }: PassPair, name: OpName): Verdict {
  const kind = name !== "delta" && !model.pool.conv ? refused("invalid-argument") : legal;
  const several = name === "fused" && (model.kind !== "step" || model.checkpoints.flat().length > 0) ? refused("invalid-argument") : legal;
  return firstOf(usablePass(model), kind, several);
}

/** Why encoding an op is refused, if it is. */
function encodable({ model }: PassPair, name: OpName, layer: number): Verdict {
  const twice = kindsOf[name].some((kind) => model.marks[layer]![kind] !== "none");
  return firstOf(usablePass(model), twice ? refused("state") : legal);
}

export const useOf = ({ model }: PassPair, name: OpName, layer: number): OpUse => ({ pass: model, layer, kinds: kindsOf[name] });

/** An op that fits the pass, most often one that is missing. */
function chooseOp(pass: PassPair, random: Random): { name: OpName; layer: number } {
  const { model } = pass;
  const missing = model.marks.flatMap((marks, layer) => model.pool.kinds.filter((kind) => marks[kind] === "none").map((kind) => ({ kind, layer })));
  const single = model.lists.length > 0 && model.lists.every(({ length }) => length === 1);
  const layer = random.below(layers);
  if (random.below(12) === 0 || missing.length === 0) return { name: random.pick(["conv", "delta", single ? "fused" : "conv"]), layer };
  const one = random.pick(missing);
  const fused = single && makable(pass, "fused").must === undefined && model.marks[one.layer]!.state === "none" && model.marks[one.layer]!.conv === "none";
  return { name: fused && random.below(2) === 0 ? "fused" : one.kind === "conv" ? "conv" : "delta", layer: one.layer };
}

function make(program: Program, random: Random): MadeOp | undefined {
  const pass = somePass(program, random);
  if (pass === undefined) return undefined;
  const { name, layer } = chooseOp(pass, random);
  const result = program.call(`make ${name} of ${nameOf(pass)}.layer(${layer})`, makable(pass, name), () => program.makeOp(pass, name, layer));
  return result.ok ? { op: result.value, name, pass, layer } : undefined;
}

function encode(program: Program, { op, name, pass, layer }: MadeOp): void {
  const verdict = encodable(pass, name, layer);
  const result = program.call(`device.encode(${name} of ${nameOf(pass)}.layer(${layer}))`, verdict, () => program.device.encode(op));
  if (!result.ok) return;
  program.world.encode(useOf(pass, name, layer));
  program.count("ops encoded");
}

const encodeOp: Action = (program, random) => {
  const made = make(program, random);
  if (made === undefined) return;
  program.made.push(made);
  if (program.made.length > 8) program.made.shift();
  if (random.below(6) > 0) encode(program, made);
};

/** An op that was made before: its pass may be over, or have written the layer. */
const encodeMade: Action = (program, random) => {
  if (program.made.length > 0) encode(program, random.pick(program.made));
};

/** The ops that a pass still needs, as `conv` and `delta` or `fused`. */
export function missingOps(program: Program, pass: PassPair, fuse: boolean): MadeOp[] {
  const made: MadeOp[] = [];
  for (const [layer, marks] of pass.model.marks.entries()) {
    const missing = pass.model.pool.kinds.filter((kind) => marks[kind] === "none");
    const names: OpName[] = missing.length === 2 && fuse ? ["fused"] : missing.map((kind) => (kind === "conv" ? "conv" : "delta"));
    for (const name of names) made.push({ op: program.makeOp(pass, name, layer), name, pass, layer });
  }
  return made;
}

export function canFuse(pass: PassPair): boolean {
  return makable(pass, "fused").must === undefined && pass.model.lists.length > 0 && pass.model.lists.every(({ length }) => length === 1);
}

/** Runs the ops that a pass still needs, all of them or all but one, as one submission. */
const runRest: Action = (program, random) => {
  const pass = somePass(program, random);
  if (pass === undefined || usablePass(pass.model).must !== undefined) return;
  const made = missingOps(program, pass, canFuse(pass) && random.below(2) === 0);
  if (random.below(10) === 0) made.pop();
  const { world } = program;
  const uses = made.map(({ name, layer }) => useOf(pass, name, layer));
  const text = `device.run(${made.map(({ name, layer }) => `${name} of ${nameOf(pass)}.layer(${layer})`).join(", ")})`;
  const result = program.call(text, world.committable(uses), () => program.device.run(...made.map(({ op }) => op)));
  if (!result.ok) return world.discard();
  program.count("submissions of a pass");
  world.encode(...uses);
  world.commit();
};

const submit: Action = (program) => {
  const result = program.call("device.submit()", program.world.committable(), () => program.device.submit());
  if (result.ok) program.world.commit();
};

const discard: Action = (program) => {
  program.call("device.discard()", legal, () => program.device.discard());
  program.world.discard();
};

/** A kernel of the caller's writes one kind of a layer's states. */
const wrote: Action = (program, random) => {
  const pass = somePass(program, random, "step");
  if (pass === undefined) return;
  const { model, pool } = pass;
  const layer = random.below(layers);
  const kind = random.pick(["state", "conv"] as const);
  if (usablePass(model).must === undefined) program.settle();
  const noSuch = model.pool.kinds.includes(kind) ? legal : refused("invalid-argument");
  const verdict = firstOf(usablePass(model), noSuch, model.marks[layer]![kind] === "none" ? legal : refused("state"));
  const result = program.call(`${nameOf(pass)}.wrote(${layer}, ${kind})`, verdict, () => (pass.real as PoolStep).wrote(layer, kind));
  if (!result.ok) return;
  model.marks[layer]![kind] = "written";
  model.ran = true;
  program.count("layers written by others");
  const { writeSlots, checkpoints } = pass.real as PoolStep;
  const length = kind === "state" ? dim * dim : channels * past;
  const data = (kind === "state" ? pool.real.state(layer) : pool.real.conv(layer)).data as Float32Array;
  const write = (slot: number, i: number, tokens: readonly number[]) => {
    const row = data.subarray(slot * length, (slot + 1) * length);
    (kind === "state" ? writeState : writeConv)(row, after(model.states[i]!.content.pattern, tokens), layer);
  };
  for (const [i, list] of model.lists.entries()) {
    write(writeSlots[i]!, i, list);
    if (checkpoints === undefined) continue;
    for (let at = checkpoints.offsets[i]!; at < checkpoints.offsets[i + 1]!; at++) write(checkpoints.slots[at]!, i, list.slice(0, checkpoints.tokens[at]!));
  }
};

/** Notes that a step is done: its final states and its checkpoints. */
export function noteDone(program: Program, pair: Pick<PassPair, "model" | "real" | "pool">): void {
  const { model, real, pool } = pair;
  const { world } = program;
  const sources = model.states.map(({ content }) => content);
  model.open = false;
  pool.model.passes.delete(model);
  model.extra = 0;
  for (const [i, state] of model.states.entries()) {
    const place = model.places[i]!;
    const content = world.made(model, sources[i]!, after(sources[i]!.pattern, model.lists[i]!));
    world.move(state, content, place === "elsewhere", place === "elsewhere" || (place === "over" && state.group.refs > 1));
  }
  for (const [i, positions] of model.checkpoints.entries()) {
    for (const [j, position] of positions.entries()) {
      const content = world.made(model, sources[i]!, after(sources[i]!.pattern, model.lists[i]!.slice(0, position)));
      const state = program.addState(pool, (real as PoolStep).saved[i]![j]!, content, false);
      program.lines[program.lines.length - 1] += `  → h${state.id}`;
    }
  }
  program.count("steps done");
}

const done: Action = (program, random) => {
  const pass = somePass(program, random, "step");
  if (pass === undefined) return;
  const verdict = firstOf(usablePass(pass.model), complete(pass.model, "written") ? legal : refused("state"));
  const result = program.call(`${nameOf(pass)}.done()`, verdict, () => (pass.real as PoolStep).done());
  if (result.ok) noteDone(program, pass);
};

const abort: Action = (program, random) => {
  const pass = somePass(program, random);
  if (pass === undefined) return;
  const { model } = pass;
  const overwritten = model.kind === "step" && model.ran && model.places.includes("over");
  const verdict = firstOf(usablePass(model), program.world.pending(model) || overwritten ? refused("state") : legal);
  const result = program.call(`${nameOf(pass)}.abort()`, verdict, () => pass.real.abort());
  if (!result.ok) return;
  program.world.cancel(model);
  program.count("passes aborted");
};

const leave: Action = (program, random) => {
  const pass = somePass(program, random);
  if (pass === undefined) return;
  program.call(`${nameOf(pass)}[Symbol.dispose]()`, legal, () => pass.real[Symbol.dispose]());
  program.world.leave(pass.model);
  program.count("passes left");
};

const commit: Action = (program, random) => {
  const pass = somePass(program, random, "draft");
  if (pass === undefined) return;
  const { model } = pass;
  const { world } = program;
  if (model.bad) program.settle(); // then it is known that the work has failed
  const accepted = model.lists.map(({ length }) => random.below(length + 1));
  const verified = complete(model, "written") && !model.bad ? legal : refused("state");
  const before = firstOf(usablePass(model), verified);
  const deltas = model.kind === "deltas";
  const verdict = deltas ? firstOf(before, world.committable()) : before;
  const result = program.call(`${nameOf(pass)}.commit([${accepted.join()}])`, verdict, () => (pass.real as Draft).commit(accepted));
  if (!result.ok) {
    if (deltas && before.must === undefined) world.discard();
    return;
  }
  if (deltas) {
    for (let layer = 0; layer < layers; layer++) for (const _ of model.pool.kinds) world.open.push({ pass: model, layer, kinds: [] });
    world.commit();
  }
  model.open = false;
  model.extra = 0;
  model.pool.passes.delete(model);
  for (const [i, state] of model.states.entries()) {
    const count = accepted[i]!;
    const content = world.made(model, state.content, after(state.content.pattern, model.lists[i]!.slice(0, count)));
    if (!deltas && count === 0) state.pass = undefined;
    else if (!deltas) world.move(state, content, false, true);
    else world.move(state, content, model.places[i] === "elsewhere", model.places[i] === "elsewhere" || (model.places[i] === "over" && state.group.refs > 1));
  }
  program.count("drafts committed");
};

/** Ops that use a pool's tensors directly. */
const raw: Action = (program, random) => {
  const { real, model } = anyPool(program, random);
  if (model.disposed) return;
  const tensor = real.state(random.below(layers));
  const text = `device.encode of an op on p${model.id}.state`;
  const op = (): Op => (random.below(2) === 0 ? program.machine.rawOp(tensor) : copySlots({ pool: tensor, readSlots: [0], writeSlots: [1] }));
  program.call(text, refused("invalid-argument"), () => program.device.encode(op()));
};

export const passActions = { step, draft, encodeOp, encodeMade, runRest, submit, discard, wrote, done, abort, leave, commit, raw };
