/** Actions that take states through a pass in one call: `pool.run`, `draft.run`, and plans. */
import { Draft } from "../../lib/index.ts";
import type { Op, PoolStep, StepPlaceholder } from "../../lib/index.ts";
import type { Random } from "../support/random.ts";
import { canFuse, keepPass, missingOps, nameOf, noteDone, useOf, wanted } from "./actions-passes.ts";
import type { Wanted } from "./actions-passes.ts";
import { anyPool } from "./actions-states.ts";
import type { Action } from "./actions-states.ts";
import { kindsOf } from "./machine.ts";
import type { OpName } from "./machine.ts";
import { complete, firstOf, legal, refused, usablePass } from "./model.ts";
import type { OpUse, Verdict } from "./model.ts";
import { CallersError } from "./program.ts";
import type { MadeOp, PassPair, PlanPair, PoolPair, Program } from "./program.ts";
import { layers } from "./values.ts";

const shapes = ["full", "full", "full", "full", "missing", "twice", "throws", "promise", "nested", "other", "by hand", "ended", "disposed", "no ops", "stale"] as const;
type Shape = (typeof shapes)[number];

/** The outcome of a run's callback, and the verdict on the run. */
interface Script {
  readonly returns: unknown;
  /** The required outcome of the run after the callback. */
  readonly verdict: Verdict | { readonly must: "caller" };
  /** The ops that it commits. */
  readonly uses: readonly OpUse[];
  /** Whether the run reaches the device, which drops the encoded ops if it refuses. */
  readonly reaches: boolean;
}

/** Runs the callback that belongs to a shape. */
function script(program: Program, random: Random, pass: PassPair, shape: Shape, want: Wanted): Script {
  const { world } = program;
  const { model } = pass;
  const made = missingOps(program, pass, canFuse(pass) && random.below(2) === 0);
  const uses = made.map(({ name, layer }) => useOf(pass, name, layer));
  const ops = made.map(({ op }) => op);
  const full = { returns: ops, verdict: world.committable(uses), uses, reaches: true };
  const needed = model.kind === "step" ? model.states.length > 0 : model.lists.flat().length > 0;
  switch (shape) {
    case "missing": {
      const at = random.below(ops.length);
      const rest = uses.filter((_, i) => i !== at);
      return { returns: ops.filter((_, i) => i !== at), verdict: world.committable(rest), uses: rest, reaches: true };
    }
    case "twice":
      return { ...full, returns: [...ops, random.pick(ops)], verdict: refused("state") };
    case "throws":
    case "promise": {
      for (const each of made.slice(0, random.below(made.length + 1))) encodeInside(program, each);
      if (shape === "throws") throw new CallersError("the callback's own");
      return { returns: Promise.resolve(ops), verdict: refused("invalid-argument"), uses: [], reaches: false };
    }
    case "nested": {
      const again = () => want.pool.real.run(want.handles.slice(0, 1), () => []);
      if (needed && model.states.length > 0) program.call("  nested run of the same state", refused("state"), again);
      return full;
    }
    case "other": {
      runStep(program, random, "full", undefined);
      // The encoded ops, and whether they can be committed, may have changed.
      return { ...full, verdict: model.pool.disposed ? refused("disposed") : world.committable(uses) };
    }
    case "by hand":
    case "ended": {
      const text = `  device.run(${made.map(({ name, layer }) => `${name} of layer ${layer}`).join(", ")})`;
      const result = program.call(text, world.committable(uses), () => program.device.run(...ops));
      if (!result.ok) world.discard();
      else {
        world.encode(...uses);
        world.commit();
      }
      if (shape === "ended" && model.kind === "step") {
        program.call("  step.done() inside its run", refused("state"), () => (pass.real as PoolStep).done());
        program.call("  step.abort() inside its run", refused("state"), () => pass.real.abort());
      }
      const verdict = complete(model, "written") ? world.committable() : refused("state");
      return { returns: [], verdict, uses: [], reaches: true };
    }
    case "disposed":
      want.pool.real[Symbol.dispose]();
      want.pool.model.disposed = true;
      program.lines.push(`  p${want.pool.model.id}[Symbol.dispose]()`);
      return { ...full, verdict: refused("disposed") };
    case "no ops":
      return { returns: random.pick([undefined, 7, [undefined], [{}], {}]), verdict: refused("invalid-argument"), uses: [], reaches: false };
    case "stale": {
      const over = program.made.filter((each) => usablePass(each.pass.model).must === "state");
      if (over.length === 0) return full;
      return { ...full, returns: [random.pick(over).op, ...ops], verdict: refused("state") };
    }
    default:
      return full;
  }
}

/** Encodes an op inside a callback, if it is legal there. */
function encodeInside(program: Program, { op, name, pass, layer }: MadeOp): void {
  const result = program.call(`  device.encode(${name} of layer ${layer})`, legal, () => program.device.encode(op));
  if (result.ok) program.world.encode(useOf(pass, name, layer));
}

/** pool.run with a callback. */
function runStep(program: Program, random: Random, shape: Shape, of: PoolPair | undefined): void {
  const { world } = program;
  const want = wanted(program, random, random.below(3) > 0, of);
  const inputs = program.machine.inputs(want.lists);
  if (inputs === undefined) return;
  const undoable = random.below(6) === 0;
  const checkpoints = random.below(6) > 0 ? [] : want.lists.map(({ length }) => Array.from({ length: random.below(3) }, () => random.below(length + 1)));
  const model = program.pass("step", want.pool, want.states, want.lists, checkpoints);
  const begun = want.verdict.must !== undefined ? want.verdict : world.begin(model, undoable);
  const text = `p${want.pool.model.id}.run([${want.text}], ${shape}${undoable ? ", undoable" : ""}${checkpoints.length > 0 ? `, checkpoints ${JSON.stringify(checkpoints)}` : ""})`;
  const said: { pair?: PassPair; script?: Script } = {};
  // The required outcome is known only after the callback.
  const verdict = { get must() { return said.script === undefined ? (said.pair === undefined ? begun.must : "caller") : said.script.verdict.must; }, may: begun.may === true };
  const outcome = lateCall(program, text, verdict, () => want.pool.real.run(want.handles, (real) => {
    model.whole = true;
    said.pair = keepPass(program, model, real, want.pool, inputs);
    said.script = script(program, random, said.pair, shape, want);
    return said.script.returns as Op[];
  }, { undoable, ...(checkpoints.length > 0 && { checkpoints }) }));
  const { pair, script: ran } = said;
  program.count(`pool.run, ${shape}`);
  if (!outcome) {
    // A refused run drops the encoded ops if its own are among them or it reached the device.
    if (ran?.reaches || world.pending(model)) world.discard();
    if (pair !== undefined) world.leave(model);
    else if (begun.must === undefined) world.cancel(model);
    return;
  }
  world.encode(...ran!.uses);
  world.commit();
  noteDone(program, pair!);
}

/** A call whose verdict is known only after its callback has run. */
function lateCall(program: Program, text: string, verdict: { readonly must: Verdict["must"] | "caller"; readonly may?: boolean }, body: () => unknown): boolean {
  const line = program.lines.length;
  program.lines.push(text);
  let thrown: { readonly error: unknown } | undefined;
  try {
    body();
  } catch (error) {
    thrown = { error };
  }
  program.lines[line] = "";
  const { must, may = false } = verdict;
  const again = () => {
    if (thrown !== undefined) throw thrown.error;
  };
  const inside = program.lines.splice(line);
  const { ok } = tryCall(program, text, { must, may } as Verdict, again, inside);
  return ok;
}

function tryCall(program: Program, text: string, verdict: Verdict, body: () => void, inside: readonly string[]) {
  const lines = inside.filter((each) => each !== "");
  try {
    return program.call(text, verdict, body);
  } finally {
    program.lines.push(...lines);
  }
}

const poolRun: Action = (program, random) => {
  const shape = random.pick(shapes);
  // Disposing of a pool ends everything in it, so it is rarer.
  runStep(program, random, shape === "disposed" && random.below(4) > 0 ? "full" : shape, undefined);
};

const draftRun: Action = (program, random) => {
  const open = program.passes.filter(({ model }) => model.kind !== "step" && usablePass(model).must === undefined);
  if (open.length === 0) return;
  const pass = random.pick(open);
  const { model, pool } = pass;
  if (missingKinds(pass) === 0) return;
  const shape = random.pick(["full", "full", "missing", "throws", "promise", "no ops", "by hand"] as const);
  const { world } = program;
  const want = { pool, states: model.states, lists: model.lists, handles: [], text: "", verdict: legal };
  const said: { script?: Script } = {};
  const verdict = { get must() { return said.script === undefined ? ("caller" as const) : said.script.verdict.must; } };
  const ok = lateCall(program, `${nameOf(pass)}.run(${shape})`, verdict, () => (pass.real as Draft).run(() => {
    said.script = script(program, random, pass, shape, want);
    // From here on the draft's submission must be complete, which the verdicts take into account.
    const reaches = said.script.reaches;
    if (reaches) model.whole = true;
    if (reaches && shape !== "by hand") said.script = { ...said.script, verdict: complete(model, "encoded", said.script.uses) ? world.committable(said.script.uses) : refused("state") };
    return said.script.returns as Op[];
  }));
  program.count(`draft.run, ${shape}`);
  if (!ok) {
    if (said.script?.reaches) world.discard();
    return;
  }
  world.encode(...said.script!.uses);
  world.commit();
};

function missingKinds({ model }: PassPair): number {
  return model.marks.reduce((sum, marks) => sum + model.pool.kinds.filter((kind) => marks[kind] === "none").length, 0);
}

/** Records a plan over a pool's placeholder, sometimes of some layers only. */
const record: Action = (program, random) => {
  const pool = anyPool(program, random);
  if (pool.model.disposed || program.plans.length >= 3) return;
  const sequences = 1 + random.below(2);
  const lists = Array.from({ length: sequences }, () => [0]);
  const inputs = program.machine.inputs(lists);
  if (inputs === undefined) return;
  const fused = pool.model.conv && random.below(2) === 0;
  const names: OpName[] = fused ? ["fused"] : pool.model.conv ? ["conv", "delta"] : ["delta"];
  const all = Array.from({ length: layers }, (_, layer) => names.map((name) => ({ name, layer }))).flat();
  if (random.below(4) === 0) all.splice(random.below(all.length), 1);
  const twice = random.below(12) === 0 && all.length > 0;
  if (twice) all.push(all[0]!);
  const id = program.newId();
  let placeholder: StepPlaceholder | undefined;
  const text = `plan${id} = device.plan(${all.map(({ name, layer }) => `${name} of layer ${layer}`).join(", ")}; p${pool.model.id}.placeholder(${sequences}))`;
  const result = program.call(text, twice ? refused("state") : legal, () => {
    placeholder = pool.real.placeholder(sequences);
    const ops = all.map(({ name, layer }) => program.machine.op(name, layer, placeholder!.layer(layer), inputs));
    if (random.below(6) === 0) program.call("  device.encode of an op of a placeholder", refused("invalid-argument"), () => program.device.encode(ops[0]!));
    return program.device.plan((pass) => ops.forEach((op) => pass.encode(op)));
  });
  if (!result.ok) return;
  program.count("plans recorded");
  const uses = all.map(({ name, layer }) => ({ layer, kinds: kindsOf[name] }));
  program.plans.push({ id, real: result.value, placeholder: placeholder!, pool, uses, inputs, lists, ticket: 0 });
};

/** Why a replay over a pass is refused, if it is. */
function replayable(plan: PlanPair, pass: PassPair, uses: readonly OpUse[], world: Program["world"]): Verdict {
  const { model } = pass;
  const is = (wrong: boolean, code: "invalid-argument" | "shape" | "state" | "disposed") => (wrong ? refused(code) : legal);
  return firstOf(
    is(plan.pool.model.disposed, "disposed"),
    is(model.kind !== "step", "invalid-argument"),
    is(model.pool !== plan.pool.model, "invalid-argument"),
    usablePass(model),
    is(model.states.length !== plan.placeholder.sequences, "shape"),
    is(model.checkpoints.flat().length > 0, "invalid-argument"),
    is(uses.some(({ layer, kinds }) => kinds.some((kind) => model.marks[layer]![kind] !== "none")), "state"),
    world.committable(uses),
  );
}

/** Puts the tokens of a pass where the plan reads them. Waits if a pending replay reads others. */
function giveTokens(program: Program, plan: PlanPair, lists: PlanPair["lists"]): void {
  if (lists.every((list, i) => list[0] === plan.lists[i]?.[0])) return;
  if (plan.ticket > program.world.waited) program.settle();
  program.machine.rewrite(plan.inputs, lists);
  plan.lists = lists;
}

const replay: Action = (program, random) => {
  if (program.plans.length === 0) return;
  const plan = random.pick(program.plans);
  const fits = ({ model }: PassPair) => model.lists.length === plan.placeholder.sequences && model.lists.every(({ length }) => length === 1);
  const suited = program.passes.filter((pass) => fits(pass) && pass.model.pool === plan.pool.model);
  const from = suited.length > 0 && random.below(4) > 0 ? suited : program.passes;
  if (from.length === 0) return;
  const pass = random.pick(from);
  const uses = plan.uses.map((use) => ({ ...use, pass: pass.model }));
  // A pass with other numbers of tokens would be legal here, but the model does not expect it.
  const { world } = program;
  if (replayable(plan, pass, uses, world).must === undefined) {
    if (!fits(pass)) return;
    giveTokens(program, plan, pass.model.lists);
  }
  const text = `plan${plan.id}.run({ step: ${nameOf(pass)} })`;
  const result = program.call(text, replayable(plan, pass, uses, world), () => plan.real.run({ step: pass.real }));
  if (!result.ok) return;
  commitReplay(program, plan, uses);
};

function commitReplay(program: Program, plan: PlanPair, uses: readonly OpUse[]): void {
  program.world.encode(...uses);
  program.world.commit();
  plan.ticket = program.world.last;
  program.count("plans replayed");
}

const poolRunPlan: Action = (program, random) => {
  if (program.plans.length === 0) return record(program, random);
  const plan = random.pick(program.plans);
  const pool = random.below(10) === 0 ? anyPool(program, random) : plan.pool;
  const want = wanted(program, random, true, pool, random.below(8) > 0 ? plan.placeholder.sequences : undefined);
  const { world } = program;
  // Replays of the same tokens need not wait for one another.
  const same = want.lists.length === plan.lists.length && plan.lists[0]![0] !== 0 && random.below(2) === 0;
  const lists = same ? plan.lists : want.lists;
  if (want.lists.length === plan.placeholder.sequences) giveTokens(program, plan, lists);
  const model = program.pass("step", want.pool, want.states, lists);
  const begun = want.verdict.must !== undefined ? want.verdict : world.begin(model, false);
  model.whole = true;
  const uses = plan.uses.map((use) => ({ ...use, pass: model }));
  const pair: PassPair = { model, real: undefined as never, pool: want.pool, inputs: plan.inputs, filled: new Set() };
  const verdict = firstOf(begun, begun.must === undefined ? replayable(plan, pair, uses, world) : legal);
  const text = `p${want.pool.model.id}.run([${want.text}], plan${plan.id}${same ? ", its last tokens" : ""})`;
  const result = program.call(text, verdict, () => want.pool.real.run(want.handles, plan.real));
  if (!result.ok) {
    if (begun.must === undefined) world.cancel(model);
    return;
  }
  commitReplay(program, plan, uses);
  noteDone(program, { model, real: undefined as never, pool: want.pool });
};

const dropPlan: Action = (program, random) => {
  if (program.plans.length === 0) return;
  const plan = program.plans.splice(random.below(program.plans.length), 1)[0]!;
  program.call(`plan${plan.id}[Symbol.dispose]()`, legal, () => plan.real[Symbol.dispose]());
};

export const runActions = { poolRun, draftRun, record, replay, poolRunPlan, dropPlan };
