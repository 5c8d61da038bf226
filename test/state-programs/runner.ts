/** Makes programs of a seed, runs them, and cuts a failing one down to the actions that it needs. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { anyCalls, nthSeed } from "../support/programs.ts";
import type { Call } from "../support/programs.ts";
import { Random } from "../support/random.ts";
import { passActions } from "./actions-passes.ts";
import { runActions } from "./actions-runs.ts";
import { stateActions } from "./actions-states.ts";
import type { Action } from "./actions-states.ts";
import type { Machine } from "./machine.ts";
import { Difference, Program } from "./program.ts";

const actions = { ...stateActions, ...passActions, ...runActions } satisfies Record<string, Action>;

type Name = keyof typeof actions;

/** How often each kind of action comes. */
const weights: Readonly<Record<Name, number>> = {
  allocate: 12, fork: 10, free: 4, drop: 1.5, zero: 3, cache: 5, save: 0.5, load: 0.5, disposePool: 0.3, addPool: 1, inject: 3, wait: 8, waitOnce: 2,
  step: 9, draft: 6, encodeOp: 9, encodeMade: 4, runRest: 12, submit: 5, discard: 2, wrote: 2, done: 11, abort: 3, leave: 3, commit: 6, raw: 0.5,
  poolRun: 9, draftRun: 5, record: 2, replay: 4, poolRunPlan: 5, dropPlan: 0.5,
};

/** A program: its pools come from the seed, too. */
export interface Text {
  readonly seed: number;
  readonly calls: readonly Call<Name>[];
}

/** The n-th program of a seed. */
export function makeProgram(seed: number, n: number, other: RunOptions["weights"] = {}): Text {
  const own = nthSeed(seed, n);
  const random = new Random(own);
  const length = 30 + random.below(60);
  const all = { ...weights, ...other };
  const calls = anyCalls<Name>(random, all, length);
  return { seed: own, calls };
}

/** How a program failed, and what it did. */
export interface Failure {
  readonly error: Error;
  readonly lines: readonly string[];
}

/** Runs a program; undefined where library and model agree throughout. */
export function runProgram(machine: Machine, folder: string, { seed, calls }: Text, counts: Map<string, number>, shortFiles: boolean): Failure | undefined {
  using program = new Program(machine, folder, counts, shortFiles);
  try {
    const random = new Random(seed);
    const pools = 1 + random.below(3);
    for (let i = 0; i < pools; i++) program.addPool(2 + random.below(7), i === 0 || random.below(3) > 0);
    for (const call of calls) {
      actions[call.name](program, new Random(call.seed));
      program.checkFree();
      program.count(`action ${call.name}`);
    }
    program.end();
    return undefined;
  } catch (error) {
    return { error: error instanceof Error ? error : new Difference(String(error)), lines: program.lines };
  } finally {
    if (program.files.length > 0) rmSync(folder, { recursive: true, force: true });
  }
}

/** The fewest actions found that still fail: parts are left out, halves first, single actions last. */
function shrink(machine: Machine, folder: string, text: Text, shortFiles: boolean): { readonly text: Text; readonly failure: Failure } {
  const unused = new Map<string, number>();
  const attempt = (calls: readonly Call<Name>[]) => runProgram(machine, folder, { seed: text.seed, calls }, unused, shortFiles);
  let { calls } = text;
  let failure = attempt(calls)!;
  for (let size = Math.ceil(calls.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let at = 0; at < calls.length; ) {
      const fewer = [...calls.slice(0, at), ...calls.slice(at + size)];
      const still = attempt(fewer);
      if (still === undefined) at += size;
      else [calls, failure] = [fewer, still];
    }
  }
  return { text: { seed: text.seed, calls }, failure };
}

/** What ran, and the first failure, cut down. */
export interface Report {
  readonly programs: number;
  readonly counts: Map<string, number>;
  readonly failure: string | undefined;
  /** Which program failed. */
  readonly failed: number | undefined;
}

/** What else a run of programs can be told. */
export interface RunOptions {
  /** Whether a failing program is cut down and told. @default true */
  readonly shrinking?: boolean;
  /** Whether the process can write short files only, so that saving may fail half way. @default false */
  readonly shortFiles?: boolean;
  /** Makes some kinds of action more or less frequent. @default as often as makes sense */
  readonly weights?: Partial<Record<string, number>>;
}

/** Runs programs of a seed until one fails. */
export function runPrograms(machine: Machine, folder: string, seed: number, first: number, count: number, options: RunOptions = {}): Report {
  const { shrinking = true, shortFiles = false } = options;
  const counts = new Map<string, number>();
  for (let n = first; n < first + count; n++) {
    const text = makeProgram(seed, n, options.weights);
    const place = join(folder, `${n}`);
    const failure = runProgram(machine, place, text, counts, shortFiles);
    if (failure === undefined) continue;
    const told = shrinking ? tell(machine, place, text, seed, n, failure, shortFiles) : failure.error.message;
    return { programs: n - first + 1, counts, failure: told, failed: n };
  }
  return { programs: count, counts, failure: undefined, failed: undefined };
}

function tell(machine: Machine, folder: string, text: Text, seed: number, n: number, first: Failure, shortFiles: boolean): string {
  const again = runProgram(machine, folder, text, new Map(), shortFiles);
  const { failure, text: small } = again === undefined ? { failure: first, text } : shrink(machine, folder, text, shortFiles);
  const note = again === undefined ? ["It did not fail a second time."] : [];
  return [
    `program ${n} of seed ${seed} differs from the model, after ${small.calls.length} of its ${text.calls.length} actions:`,
    ...failure.lines.map((line) => `  ${line}`),
    failure.error instanceof Difference ? failure.error.message : failure.error.stack ?? failure.error.message,
    ...note,
  ].join("\n");
}
