/**
 * Random histories of a pool against a plain model: every state is what its tokens make it, no slot is lost, and memory
 * does not grow.
 */
import { expect, test } from "bun:test";
import type { StateHandle } from "../lib/index.ts";
import { openDevice, thrownBy } from "./support/devices.ts";
import { scratch } from "./support/files.ts";
import { SimplePool, after, nothing } from "./support/pool-model.ts";
import type { Content } from "./support/pool-model.ts";
import { Random } from "./support/random.ts";

const device = openDevice();
const operations = device.emulated ? 300 : 100_000;
const files = scratch();
const capacity = 12;

interface Live {
  readonly handle: StateHandle;
  content: Content;
}

const random = new Random(2026);
const kinds = ["allocate", "fork", "fork", "free", "free", "zero", "step", "step", "step", "checkpoint", "undo", "abort", "deltas", "snapshots", "drop", "refuse"] as const;
const someTokens = (most: number) => Array.from({ length: random.below(most + 1) }, () => 1 + random.below(1000));

test(`${operations} random operations on a pool`, () => {
  using simple = new SimplePool(device, capacity);
  const { pool } = simple;
  for (const tensor of [pool.state(0), pool.conv(0)]) tensor.data.fill(NaN);
  const live: Live[] = [];
  const done = new Map<string, number>();
  let baseline = 0;

  const keep = (handle: StateHandle, content: Content) => void live.push({ handle, content });
  /** Some states, the last of which is `one`. */
  const membersWith = (one: Live) => [...live.filter((other) => other !== one && random.below(3) === 0), one];

  function perform(kind: (typeof kinds)[number] | "file"): boolean {
    if (kind === "allocate") {
      if (pool.free === 0) expect(thrownBy(() => pool.allocate()).code).toBe("out-of-memory");
      else keep(pool.allocate(), nothing);
      return true;
    }
    if (live.length === 0) return false;
    const one = random.pick(live);
    const members = membersWith(one);
    const handles = members.map(({ handle }) => handle);
    const lists = members.map(() => someTokens(4));
    switch (kind) {
      case "fork":
        if (pool.free === 0) expect(thrownBy(() => one.handle.fork()).code).toBe("out-of-memory");
        else keep(one.handle.fork(), one.content);
        return true;
      case "free":
        live.splice(live.indexOf(one), 1);
        one.handle.free();
        return true;
      case "zero":
        pool.zero(one.handle);
        one.content = nothing;
        return true;
      case "step":
      case "checkpoint": {
        const checkpoints = kind === "step" ? undefined : lists.map((list) => Array.from({ length: random.below(3) }, () => random.below(list.length + 1)));
        const extra = checkpoints?.flat().length ?? 0;
        if (extra > pool.free) {
          expect(thrownBy(() => pool.step(handles, { checkpoints })).code).toBe("range");
          return true;
        }
        // States that part take a slot each until the step is done.
        if (extra > 0 && extra + members.length > pool.free) return false;
        const step = pool.step(handles, { checkpoints });
        simple.run(step, lists);
        step.done();
        for (const [i, member] of members.entries()) {
          for (const [j, position] of (checkpoints?.[i] ?? []).entries()) {
            const saved = { handle: step.saved[i]![j]!, content: after(member.content, lists[i]!.slice(0, position)) };
            simple.expectContent(saved.handle, saved.content);
            if (random.below(2) === 0) saved.handle.free();
            else live.push(saved);
          }
          member.content = after(member.content, lists[i]!);
        }
        break;
      }
      case "undo": {
        if (pool.free < members.length) return false;
        const step = pool.step(handles, { undoable: true });
        simple.run(step, lists);
        step.abort();
        break;
      }
      case "abort":
        pool.step(handles).abort();
        break;
      case "deltas":
      case "snapshots":
      case "drop": {
        const records = kind === "drop" ? random.pick(["deltas", "snapshots"] as const) : kind;
        const counts = lists.map((list) => list.length);
        if (records === "snapshots" && counts.reduce((sum, n) => sum + n, 0) > pool.free) {
          expect(thrownBy(() => pool.draft(handles, counts, { records })).code).toBe("range");
          return true;
        }
        const draft = pool.draft(handles, counts, { records });
        simple.run(draft, lists);
        expect(thrownBy(() => pool.draft([one.handle], [1])).code).toBe("state");
        if (kind === "drop") {
          draft.abort();
          break;
        }
        const accepted = counts.map((n) => random.below(n + 1));
        draft.commit(accepted);
        for (const [i, member] of members.entries()) member.content = after(member.content, lists[i]!.slice(0, accepted[i]!));
        device.wait();
        break;
      }
      case "refuse": {
        const free = pool.free;
        expect(thrownBy(() => pool.step([one.handle, one.handle])).code).toBe("state");
        expect(thrownBy(() => pool.draft([one.handle, one.handle], [1, 1])).code).toBe("state");
        expect(pool.free).toBe(free);
        return true;
      }
      case "file": {
        const path = `${files.folder}/states`;
        pool.save(handles, path);
        if (pool.free < members.length) {
          expect(thrownBy(() => pool.load(path)).code).toBe("out-of-memory");
          return true;
        }
        for (const [i, handle] of pool.load(path).entries()) keep(handle, members[i]!.content);
        break;
      }
    }
    for (const { handle, content } of members) simple.expectContent(handle, content);
    return true;
  }

  for (let n = 0; n < operations; n++) {
    const kind = n % 250 === 249 ? "file" : random.pick(kinds);
    if (perform(kind)) done.set(kind, (done.get(kind) ?? 0) + 1);
    if (pool.free !== capacity - live.length) expect(pool.free).toBe(capacity - live.length);
    if (n % 50 === 0) for (const { handle, content } of live) simple.expectContent(handle, content);
    if (n === Math.floor(operations / 2)) {
      Bun.gc(true);
      baseline = process.memoryUsage.rss();
    }
  }
  for (const { handle, content } of live) {
    simple.expectContent(handle, content);
    handle.free();
  }
  expect(pool.free).toBe(capacity);
  expect([...done.keys()].sort()).toEqual([...new Set([...kinds, "file"])].sort());
  Bun.gc(true);
  // A leak of one small tensor per operation would cost hundreds of times as much.
  expect(process.memoryUsage.rss() - baseline).toBeLessThan(64 * 2 ** 20);
}, 300_000);
