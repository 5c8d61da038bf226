/** Actions on states, prefix caches, files and pools. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PrefixCache } from "../../lib/index.ts";
import type { Random } from "../support/random.ts";
import { firstOf, legal, refused } from "./model.ts";
import type { State, Verdict } from "./model.ts";
import { freshContent } from "./program.ts";
import type { CachePair, PoolPair, Program } from "./program.ts";

/** One kind of action; it does nothing if the program lacks something that it needs. */
export type Action = (program: Program, random: Random) => void;

/** A pool, most often one that is not disposed of. */
export function anyPool({ pools }: Program, random: Random): PoolPair {
  const alive = pools.filter(({ model }) => !model.disposed);
  return random.pick(alive.length > 0 && random.below(20) > 0 ? alive : pools);
}

/** States with a handle, most often those that are not freed. */
export function statesOf(program: Program, random: Random, pool?: PoolPair): State[] {
  const all = [...program.handles.keys()].filter((state) => pool === undefined || state.pool === pool.model);
  return random.below(25) === 0 ? all : all.filter(({ freed }) => !freed);
}

/** One state, or none. */
function oneState(program: Program, random: Random, pool?: PoolPair): State | undefined {
  const states = statesOf(program, random, pool);
  return states.length === 0 ? undefined : random.pick(states);
}

const alive = ({ model }: PoolPair): Verdict => (model.disposed ? refused("disposed") : legal);
const pairOf = (program: Program, state: State) => program.pools.find(({ model }) => model === state.pool)!;

function release(state: State): void {
  state.freed = true;
  state.group.refs--;
  state.pool.states.delete(state);
}

const allocate: Action = (program, random) => allocateIn(program, anyPool(program, random));

/** Allocates a state in a pool, or is refused. */
export function allocateIn(program: Program, pool: PoolPair): void {
  const verdict = firstOf(alive(pool), pool.model.free > 0 ? legal : refused("out-of-memory"));
  const result = program.call(`p${pool.model.id}.allocate()`, verdict, () => pool.real.allocate());
  if (!result.ok) return;
  const state = program.addState(pool, result.value, freshContent, true);
  program.lines[program.lines.length - 1] += `  → h${state.id}`;
}

const fork: Action = (program, random) => {
  const state = oneState(program, random);
  if (state === undefined) return;
  const pool = pairOf(program, state);
  const room = pool.model.free > 0 ? legal : refused("out-of-memory");
  const verdict = firstOf(program.world.idle(state), program.world.usable(state.content), room);
  const result = program.call(`h${state.id}.fork()`, verdict, () => program.handles.get(state)!.fork());
  if (!result.ok) return;
  program.count("forks");
  const made = program.addState(pool, result.value, state.content, state.fresh, share(state));
  program.lines[program.lines.length - 1] += `  → h${made.id}`;
};

/** A second state in the group of a state; that of a fresh state shares nothing. */
function share(state: State) {
  if (state.fresh) return undefined;
  state.group.refs++;
  return state.group;
}

const free: Action = (program, random) => {
  const state = oneState(program, random);
  if (state === undefined) return;
  const result = program.call(`h${state.id}.free()`, program.world.idle(state), () => program.handles.get(state)!.free());
  if (result.ok) release(state);
};

const drop: Action = (program, random) => {
  const state = oneState(program, random);
  if (state === undefined) return;
  program.call(`h${state.id}[Symbol.dispose]()`, legal, () => program.handles.get(state)![Symbol.dispose]());
  if (state.freed || state.pool.disposed) return;
  if (state.pass !== undefined) program.world.leave(state.pass);
  release(state);
};

const zero: Action = (program, random) => {
  const state = oneState(program, random);
  if (state === undefined) return;
  const pool = random.below(10) === 0 ? anyPool(program, random) : pairOf(program, state);
  const { group } = state;
  const parts = group.refs === 1 || group.refs > 1 + group.away || pool.model.free > 0;
  const mine = pool.model === state.pool ? legal : refused("invalid-argument");
  const verdict = firstOf(alive(pool), mine, program.world.idle(state), parts ? legal : refused("state"));
  const result = program.call(`p${pool.model.id}.zero(h${state.id})`, verdict, () => pool.real.zero(program.handles.get(state)!));
  if (!result.ok) return;
  if (group.refs > 1) {
    group.refs--;
    state.group = { refs: 1, away: 0 };
  }
  state.fresh = true;
  state.content = freshContent;
};

const keyOf = (random: Random) => Array.from({ length: random.below(4) }, () => 1 + random.below(2));

/** Drops an entry. */
function evict(cache: CachePair, entry: CachePair["entries"][number]): void {
  cache.entries = cache.entries.filter((other) => other !== entry);
  release(entry.state);
}

/** Drops the least recently used entry whose slot would then be free; returns whether there is one. */
function evictForSlot(cache: CachePair, except?: CachePair["entries"][number]): boolean {
  for (const entry of cache.entries) {
    const { refs, away } = entry.state.group;
    if (entry === except || (refs > 1 && Math.max(refs - 1, 1 + away) === Math.max(refs, 1 + away))) continue;
    evict(cache, entry);
    return true;
  }
  return false;
}

const cache: Action = (program, random) => {
  const pool = anyPool(program, random);
  if (pool.model.disposed) return;
  const id = pool.model.id;
  if (pool.cache === undefined) {
    const entries = 1 + random.below(4);
    const budget = entries * (pool.real.slotBytes + 16);
    program.lines.push(`c${id} = new PrefixCache(p${id}, { bytes: ${budget} })`);
    pool.cache = { real: new PrefixCache(pool.real, { bytes: budget }), budget, entries: [] };
  }
  program.settle(); // then it is known whether an entry is valid
  for (let times = 1 + random.below(4); times > 0; times--) useCache(program, random, pool, pool.cache);
};

function useCache(program: Program, random: Random, pool: PoolPair, held: CachePair): void {
  const { id } = pool.model;
  const key = keyOf(random);
  const what = random.below(16);
  if (what < 7) insert(program, random, pool, held, key);
  else if (what < 14) lookup(program, pool, held, key);
  else if (what === 14) {
    const wanted = random.below(pool.model.slots + 1);
    const result = program.call(`c${id}.makeRoom(${wanted})`, legal, () => held.real.makeRoom(wanted));
    while (pool.model.free < wanted) if (!evictForSlot(held)) break;
    if (result.ok && result.value !== pool.model.free >= wanted) throw new Error(`makeRoom returned ${result.value}`);
  } else {
    program.call(`c${id}.clear()`, legal, () => held.real.clear());
    for (const entry of held.entries) evict(held, entry);
  }
}

function insert(program: Program, random: Random, pool: PoolPair, held: CachePair, key: number[]): void {
  const state = oneState(program, random);
  if (state === undefined) return;
  const { world } = program;
  const known = held.entries.find((entry) => entry.key.join() === key.join());
  const bytes = pool.real.slotBytes + key.length * 4;
  const mine = state.pool === pool.model ? legal : refused("invalid-argument");
  const before = firstOf(mine, world.idle(state));
  let answer: boolean | undefined = true;
  let verdict = before;
  if (before.must === undefined && known !== undefined && !known.state.content.bad) {
    held.entries = [...held.entries.filter((entry) => entry !== known), known];
  } else if (before.must === undefined) {
    if (known !== undefined) evict(held, known);
    while (bytes <= held.budget && held.entries.reduce((sum, entry) => sum + entry.bytes, bytes) > held.budget) evict(held, held.entries[0]!);
    let room = bytes <= held.budget;
    while (room && pool.model.free === 0) room = evictForSlot(held);
    answer = room;
    if (room) verdict = world.usable(state.content);
    if (room && verdict.must === undefined) {
      held.entries.push({ key, bytes, state: program.addState(pool, undefined, state.content, state.fresh, share(state)) });
      program.count("cache entries");
    }
  }
  const result = program.call(`c${pool.model.id}.insert([${key.join()}], h${state.id})`, verdict, () => held.real.insert(key, program.handles.get(state)!));
  if (result.ok && result.value !== answer) throw new Error(`insert returned ${result.value}`);
}

function lookup(program: Program, pool: PoolPair, held: CachePair, key: readonly number[]): void {
  const prefixes = () => held.entries.filter((entry) => entry.key.every((token, i) => token === key[i]));
  const longest = () => prefixes().sort((a, b) => b.key.length - a.key.length)[0];
  let entry = longest();
  while (entry?.state.content.bad) {
    evict(held, entry);
    entry = longest();
  }
  if (entry !== undefined) {
    held.entries = [...held.entries.filter((other) => other !== entry), entry];
    while (pool.model.free === 0) if (!evictForSlot(held, entry)) break;
  }
  const verdict = entry !== undefined && pool.model.free === 0 ? refused("out-of-memory") : legal;
  const result = program.call(`c${pool.model.id}.lookup([${key.join()}])`, verdict, () => held.real.lookup(key));
  if (!result.ok) return;
  if (result.value?.length !== entry?.key.length) throw new Error(`lookup found ${result.value?.length} tokens, not ${entry?.key.length}`);
  if (entry === undefined) return;
  program.count("cache hits");
  const state = program.addState(pool, result.value!.state, entry.state.content, entry.state.fresh, share(entry.state));
  program.lines[program.lines.length - 1] += `  → h${state.id}`;
}

const save: Action = (program, random) => {
  const pool = anyPool(program, random);
  const states = statesOf(program, random, random.below(10) === 0 ? undefined : pool).filter(() => random.below(2) === 0);
  const { world } = program;
  if (states.some(({ content }) => world.usable(content).may)) program.settle(); // then it is known which are invalid
  const target = random.below(9);
  mkdirSync(program.folder, { recursive: true });
  const failing = [join(program.folder, "missing", "x"), program.folder, join(program.folder, "x".repeat(300))];
  // An existing file is replaced now and then; if that fails, it stays as it was.
  const index = program.files.length > 0 && random.below(3) === 0 ? random.below(program.files.length) : program.files.length;
  const path = failing[target] ?? join(program.folder, `${index}`);
  const exports = random.below(6) === 0;
  const mine = (state: State) => (state.pool === pool.model ? legal : refused("invalid-argument"));
  let verdict = firstOf(alive(pool), ...states.flatMap((state) => [mine(state), world.idle(state), world.usable(state.content)]));
  if (verdict.must === undefined) {
    const failure = world.noteWait();
    if (failure !== undefined) program.count("failed: run");
    verdict = firstOf(failure === undefined ? legal : refused(failure), failing[target] === undefined ? legal : refused("file"));
  }
  const where = ["a missing folder", "a folder", "a name too long"][target] ?? (exports ? "a file" : `file ${index}`);
  const text = `p${pool.model.id}.${exports ? "export" : "save"}([${states.map(({ id }) => `h${id}`).join()}], ${where})`;
  const handles = states.map((state) => program.handles.get(state)!);
  const result = program.call(text, { ...verdict, full: program.shortFiles }, () => {
    if (exports) pool.real.export(handles, failing[target] ?? join(program.folder, "exported"), { layout: random.pick(["mlx", "hf", "ggml"] as const) });
    else pool.real.save(handles, path);
  });
  if (verdict.must === "file") program.count("failed: save");
  if (!result.ok) return;
  program.count(exports ? "files exported" : "files saved");
  if (exports) return;
  const patterns = states.map(({ content }) => content.pattern);
  let damaged = false;
  if (patterns.length > 0 && random.below(4) === 0) {
    const bytes = readFileSync(path);
    bytes[bytes.length - 1 - random.below(64)]! ^= 1 << random.below(8);
    writeFileSync(path, bytes);
    damaged = true;
  }
  program.files[index] = { path, conv: pool.model.conv, patterns, damaged };
};

const load: Action = (program, random) => {
  if (program.files.length === 0) save(program, random);
  if (program.files.length === 0) return;
  const index = random.below(program.files.length);
  const { path, conv, patterns, damaged } = program.files[index]!;
  const pool = anyPool(program, random);
  let verdict = firstOf(alive(pool), conv === pool.model.conv ? legal : refused("file"));
  if (verdict.must === undefined) {
    const failure = program.world.noteWait();
    if (failure !== undefined) program.count("failed: run");
    const room = patterns.length <= pool.model.free ? legal : refused("out-of-memory");
    verdict = firstOf(failure === undefined ? legal : refused(failure), room, damaged ? refused("file") : legal);
  }
  const result = program.call(`p${pool.model.id}.load(file ${index})`, verdict, () => pool.real.load(path));
  if (!result.ok) return;
  program.count("files loaded");
  for (const [i, handle] of result.value.entries()) {
    const state = program.addState(pool, handle, { pattern: patterns[i]!, bad: false, ticket: 0 }, false);
    program.lines[program.lines.length - 1] += `${i === 0 ? "  → " : ", "}h${state.id}`;
  }
};

const disposePool: Action = (program, random) => {
  const pool = random.pick(program.pools);
  program.call(`p${pool.model.id}[Symbol.dispose]()`, legal, () => pool.real[Symbol.dispose]());
  pool.model.disposed = true;
};

const addPool: Action = (program, random) => {
  if (program.pools.length < 3) program.addPool(2 + random.below(7), random.below(3) > 0);
};

const inject: Action = (program, random) => {
  const stage = random.pick(["encode", "commit", "run", "run"] as const);
  program.inject(stage, 1 + random.below(stage === "commit" ? 2 : 6));
};

const wait: Action = (program) => program.settle();
const waitOnce: Action = (program) => void program.wait();

export const stateActions = { allocate, fork, free, drop, zero, cache, save, load, disposePool, addPool, inject, wait, waitOnce };
