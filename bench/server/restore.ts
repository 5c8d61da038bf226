/**
 * Measures how long a conversation takes from a store to a session that continues it, compared in the same run with moving and hashing
 * its bytes: reading the same objects one after another into new memory, and one HMAC-SHA256 over each.
 *
 *     bun bench/server/restore.ts MODEL PLACE [--tokens 4000] [--times 7]
 *
 * PLACE is a store's place: a folder, redis://…, s3://…. The conversation is read once, which takes a while on a CPU, and written, unless
 * the store has it.
 */
import { createHmac } from "node:crypto";
import { parseArgs } from "node:util";
import { Device } from "../../lib/index.ts";
import { LanguageModel } from "../../lib/model.ts";
import { openStore } from "../../lib/server.ts";
import type { SessionStore } from "../../lib/server.ts";
import { cacheParts } from "../../lib/model/session/prefix-cache.ts";
import { Prefixes } from "../../lib/server/store/prefixes.ts";

const { values, positionals } = parseArgs({ allowPositionals: true, options: { tokens: { type: "string", default: "4000" }, times: { type: "string", default: "7" } } });
const [folder, place] = positionals;
if (folder === undefined || place === undefined) throw new Error("usage: bun bench/server/restore.ts MODEL PLACE [--tokens 4000] [--times 7]");
const count = Number(values.tokens);
const secret = Buffer.from("the bench's secret, which is none");

using device = Device.open("cpu");
using model = await LanguageModel.load(device, folder, { states: 6, pages: 3 * Math.ceil(count / 64) + 8 });
await model.identity();
const store = openStore(place);

/** The objects that a restored conversation reads. */
let read: { readonly name: string; readonly bytes: number }[] = [];
const noted: SessionStore = Object.assign(Object.create(store) as SessionStore, {
  read: (name: string, into: Uint8Array<ArrayBuffer>) => {
    read.push({ name, bytes: into.length });
    return store.read(name, into);
  },
});
for (const name of ["members", "add", "has", "write", "remove", "close"] as const) Object.assign(noted, { [name]: (store[name] as Function).bind(store) });

const tokens = Array.from({ length: count + 1 }, (_, i) => 3 + ((i * 7919) % 50_000));
async function written(): Promise<boolean> {
  using cache = model.cache({ bytes: Number.MAX_SAFE_INTEGER });
  using session = model.session({ cache });
  return (await new Prefixes({ model, cache: cacheParts(cache)!, store, secret }).restore(session.append(tokens), "")) === count;
}

if (!(await written())) {
  using cache = model.cache({ bytes: Number.MAX_SAFE_INTEGER });
  using session = model.session({ cache });
  const begun = performance.now();
  await session.append(tokens).logits();
  console.log(`${count + 1} tokens read in ${((performance.now() - begun) / 1000).toFixed(1)} s`);
  const prefixes = new Prefixes({ model, cache: cacheParts(cache)!, store, secret });
  const writing = performance.now();
  prefixes.keepPrompt(session, "");
  await prefixes.flush();
  console.log(`written: ${prefixes.figures.bytesWritten} bytes in ${Math.round(performance.now() - writing)} ms`);
}

interface Times {
  readonly found: number;
  readonly whole: number;
  readonly moved: number;
  readonly hashed: number;
  /** Processor time of all threads: for restoring, and for moving and hashing. */
  readonly wholeWork: number;
  readonly bytesWork: number;
}

/** Milliseconds of processor time so far, of all threads. */
function work(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** Milliseconds of a step of the session. */
async function stepOf(session: { append(tokens: number[]): { logits(): Promise<unknown> } }): Promise<number> {
  const begun = performance.now();
  await session.append([5]).logits();
  return performance.now() - begun;
}

async function once(): Promise<Times> {
  using cache = model.cache({ bytes: Number.MAX_SAFE_INTEGER });
  using session = model.session({ cache });
  session.append(tokens);
  const prefixes = new Prefixes({ model, cache: cacheParts(cache)!, store: noted, secret });
  await Bun.sleep(20);
  read = [];
  const before = work();
  const begun = performance.now();
  const restored = await prefixes.restore(session, "");
  const found = performance.now() - begun;
  await session.logits();
  const ready = performance.now() - begun;
  const worked = work() - before;
  if (restored !== count) throw new Error(`expected ${count} tokens, got ${restored}`);
  const beforeStep = work();
  const step = Math.min(await stepOf(session), await stepOf(session));
  const stepWork = (work() - beforeStep) / 2;
  await Bun.sleep(20);

  const beforeMoving = work();
  const moving = performance.now();
  const objects: Uint8Array[] = [];
  for (const { name, bytes } of read) {
    const into = new Uint8Array(bytes);
    if (!(await store.read(name, into))) throw new Error(`${name} is missing`);
    objects.push(into);
  }
  const hashing = performance.now();
  for (const object of objects) createHmac("sha256", secret).update(object).digest();
  const hashed = performance.now() - hashing;
  return { found, whole: ready - step, moved: hashing - moving, hashed, wholeWork: worked - stepWork, bytesWork: work() - beforeMoving };
}

const all: Times[] = [];
await once();
for (let i = 0; i < Number(values.times); i++) all.push(await once());
const sorted = (of: (times: Times) => number): number[] => all.map(of).sort((a, b) => a - b);
const row = (name: string, of: (times: Times) => number): void => {
  const times = sorted(of);
  console.log(`| ${name} | ${times[0]!.toFixed(0)} ms | ${times[times.length >> 1]!.toFixed(0)} ms |`);
};
const bytes = read.reduce((sum, object) => sum + object.bytes, 0);
console.log(`${(bytes / 1e6).toFixed(1)} MB in ${read.length} objects\n| | best | median |\n|---|---|---|`);
row("read and verified", ({ found }) => found);
row("until the session goes on", ({ whole }) => whole);
row("moving", ({ moved }) => moved);
row("hashing", ({ hashed }) => hashed);
const ratio = (of: (values: number[]) => number) => (of(sorted(({ whole }) => whole)) / of(sorted(({ moved, hashed }) => moved + hashed))).toFixed(2);
row("processor time of restoring", ({ wholeWork }) => wholeWork);
row("processor time of moving and hashing", ({ bytesWork }) => bytesWork);
console.log(`restored ÷ (moving + hashing): ${ratio((times) => times[0]!)} at best, ${ratio((times) => times[times.length >> 1]!)} at the median`);
await store.close();
process.exit(0);
