/** Many clients against one server for some time: every answer is the cold run's, and at the end nothing is still held. */
import { join } from "node:path";
import { Device } from "../../../lib/index.ts";
import { LanguageModel, tinyModel } from "../../../lib/model.ts";
import { Random } from "../../support/random.ts";
import { nthSeed } from "../../support/schedules.ts";
import { casesOf } from "./cases.ts";
import type { Case } from "./cases.ts";
import { anyRequest, streamedRequest } from "./clients.ts";
import type { Done } from "./clients.ts";
import type { Figures } from "./server.ts";

export interface LoadOptions {
  readonly seed: number;
  readonly clients: number;
  readonly seconds: number;
  /** The seconds between two calls of `onFigures`, which gets the server's numbers. */
  readonly every: number;
  readonly onFigures: (figures: Figures, seconds: number) => void;
}

/** The times of many requests, in milliseconds. */
export interface Spread {
  readonly count: number;
  readonly median: number;
  readonly p99: number;
  readonly most: number;
}

export interface LoadReport {
  readonly counts: ReadonlyMap<string, number>;
  /** Streams with fewer clients than the server answers at a time: their first bytes do not wait in a queue. */
  readonly calm: { readonly first: Spread; readonly gap: Spread };
  readonly loaded: { readonly first: Spread; readonly gap: Spread };
  /** After the first requests had taken their memory, and after all clients had gone. */
  readonly begin: Figures;
  readonly end: Figures;
}

/** The requests that a handler answers, and those that it lets wait, by default. */
const room = 64 + 256;

/** The number of clients in the calm part. */
const few = 32;

/**
 * Runs the load.
 *
 * @throws at the first answer that is not the cold run's, for an unexpected status, and if something is still held at the end.
 */
export async function runLoad({ seed, clients, seconds, every, onFigures }: LoadOptions): Promise<LoadReport> {
  const cases = await cold(seed);
  const child = Bun.spawn([process.execPath, join(import.meta.dir, "server.ts")], { stdout: "pipe", stderr: "inherit" });
  try {
    const { value } = await child.stdout.getReader().read();
    const port = Number(new TextDecoder().decode(value).trim());
    const figures = async (path = "/figures"): Promise<Figures> => (await (await fetch(`http://127.0.0.1:${port}${path}`, { keepalive: false })).json()) as Figures;
    const counts = new Map<string, number>();
    const count = ({ kind, outcome }: Done): void => void counts.set(`${kind}: ${outcome}`, (counts.get(`${kind}: ${outcome}`) ?? 0) + 1);

    const calm = new Times();
    await during(few, Math.min(10, seconds / 4), nthSeed(seed, 1), async (random) => {
      const done = await streamedRequest(port, cases, random);
      count(done);
      calm.add(done);
    });
    // The process has allocated the memory that it needs once after as many clients as there will be.
    await during(clients, Math.min(10, seconds / 4), nthSeed(seed, 2), (random) => anyRequest(port, cases, random));
    await idle(figures);
    const begin = await figures("/clear");

    const loaded = new Times();
    const start = performance.now();
    let looking = Promise.resolve();
    const timer = setInterval(() => void (looking = figures().then((now) => onFigures(now, (performance.now() - start) / 1000), () => {})), 1000 * every);
    try {
      await during(clients, seconds, nthSeed(seed, 3), async (random) => {
        const done = await anyRequest(port, cases, random);
        count(done);
        loaded.add(done);
        if (done.outcome === "full") await Bun.sleep(100 + random.below(400));
      });
    } finally {
      clearInterval(timer);
      await looking;
    }
    await idle(figures);
    const end = await figures("/clear");
    expectReturned(begin, end);
    return { counts, calm: calm.spreads(), loaded: loaded.spreads(), begin, end };
  } finally {
    child.kill();
    await child.exited;
  }
}

async function cold(seed: number): Promise<Case[]> {
  using device = Device.open({ backend: "cpu", threads: 1 });
  using model = await LanguageModel.load(device, tinyModel, { states: 2, pages: 64 });
  return await casesOf(model, seed, 24);
}

/** Lets clients make one request after another for some seconds. The first failure ends all of them. */
async function during(clients: number, seconds: number, seed: number, request: (random: Random) => Promise<unknown>): Promise<void> {
  const end = performance.now() + 1000 * seconds;
  let failed = false;
  await Promise.all(Array.from({ length: clients }, async (_, i) => {
    const random = new Random(nthSeed(seed, i));
    await Bun.sleep(random.below(300));
    try {
      while (performance.now() < end && !failed) await request(random);
    } catch (error) {
      failed = true;
      throw error;
    }
  }));
}

/** Waits until no request is active, and the connections of clients that left are closed. */
async function idle(figures: () => Promise<Figures>): Promise<void> {
  const deadline = performance.now() + 60_000;
  for (let last = -1, same = 0; same < 3; ) {
    const { active, descriptors } = await figures();
    if (performance.now() > deadline) throw new Error(`${active} requests are active after all clients have gone`);
    same = active === 0 && descriptors === last ? same + 1 : 0;
    last = descriptors;
    await Bun.sleep(200);
  }
}

function expectReturned(begin: Figures, end: Figures): void {
  const wrong: string[] = [];
  const expect = (holds: boolean, text: string): void => void (holds || wrong.push(text));
  expect(end.active === 0, `${end.active} requests are active`);
  expect(end.freeStates === end.states, `${end.freeStates} of ${end.states} states are free`);
  expect(end.freePages === end.pages, `${end.freePages} of ${end.pages} pages are free`);
  expect(end.descriptors <= begin.descriptors, `${end.descriptors} descriptors are open, and ${begin.descriptors} were`);
  expect(end.heap <= 1.25 * begin.heap + 2 ** 21, `the heap has ${end.heap} bytes, and had ${begin.heap}`);
  expect(end.objects <= 1.25 * begin.objects + 5000, `the heap has ${end.objects} objects, and had ${begin.objects}`);
  expect(end.rss <= begin.rss + 96 * 2 ** 20, `${end.rss} bytes are resident, and ${begin.rss} were`);
  expect(end.mostActive <= room, `${end.mostActive} requests were active or waited`);
  expect(end.internal.length === 0, `the server failed: ${end.internal[0]}`);
  if (wrong.length > 0) throw new Error(wrong.join("\n"));
}

class Times {
  readonly #first: number[] = [];
  readonly #gap: number[] = [];

  add({ response }: Done): void {
    if (response === undefined) return;
    this.#first.push(response.first);
    this.#gap.push(response.gap);
  }

  spreads(): { readonly first: Spread; readonly gap: Spread } {
    return { first: spreadOf(this.#first), gap: spreadOf(this.#gap) };
  }
}

function spreadOf(times: number[]): Spread {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? NaN;
  return { count: sorted.length, median: at(0.5), p99: at(0.99), most: at(1) };
}
