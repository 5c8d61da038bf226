/**
 * Workers that end at random while their steps run. Meanwhile the main thread checks its arrays, the memory that it lends them, and
 * its pools in random programs.
 */
import { Device } from "../../lib/index.ts";
import type { BackendName } from "../../lib/index.ts";
import { Random } from "../support/random.ts";
import { runSchedules } from "../support/schedules.ts";
import { Machine } from "./machine.ts";
import { StatePrograms } from "./runner.ts";
import { wrappedBytes } from "./step-worker.ts";
import type { Order } from "./step-worker.ts";

const ends = ["exit", "throw", "terminate"] as const;
/** The number of Workers at a time. */
const together = 3;
/** The number of bytes of the main thread's own memory that are watched. */
const mostWatched = 128 * 2 ** 20;

/** The results of a run. */
export interface WorkersReport {
  readonly ended: Record<(typeof ends)[number], number>;
  readonly programs: number;
  readonly arrays: number;
  /** The faults found, one line each. */
  readonly wrong: readonly string[];
}

/** Arrays of the main thread, each filled with its own number. */
class Watched {
  readonly #arrays: Float32Array[] = [];
  #bytes = 0;
  #made = 0;

  get count(): number {
    return this.#made;
  }

  /** Memory of the same sizes as a Worker's: it may be in the same place. */
  add(): void {
    for (const bytes of [wrappedBytes.out, wrappedBytes.gates, 16384]) {
      this.#keep(new Float32Array(new SharedArrayBuffer(bytes)));
      this.#keep(new Float32Array(bytes / 4));
    }
  }

  #keep(array: Float32Array): void {
    array.fill(++this.#made + 0.5);
    this.#arrays.push(array);
    this.#bytes += array.byteLength;
    while (this.#bytes > mostWatched) this.#bytes -= this.#arrays.shift()!.byteLength;
  }

  /** Says which arrays have changed. */
  changed(): string[] {
    const first = this.#made - this.#arrays.length;
    return this.#arrays.flatMap((array, i) => {
      const foreign = array.find((each) => each !== first + i + 1.5);
      return foreign === undefined ? [] : [`array ${first + i + 1} of the main thread holds ${foreign}`];
    });
  }
}

/** Starts and ends this many Workers. */
export async function endWorkers(backend: BackendName, seed: number, count: number, folder: string): Promise<WorkersReport> {
  const random = new Random(seed);
  const ended = { exit: 0, throw: 0, terminate: 0 };
  const wrong: string[] = [];
  const watched = new Watched();
  using device = Device.open({ backend, threads: 1 });
  const machine = new StatePrograms(new Machine(device));
  let started = 0;
  let running = 0;
  let programs = 0;

  /** One Worker from its start to its end. */
  async function one(): Promise<void> {
    const number = ++started;
    const end = random.pick(ends);
    // The Worker's output is between two parts of the buffer that are not its own.
    const outOffset = 16384;
    const out = new SharedArrayBuffer(2 * outOffset + wrappedBytes.out);
    const around = new Float32Array(out);
    around.fill(-number);
    const mine = around.subarray(outOffset / 4, (outOffset + wrappedBytes.out) / 4).fill(0);
    const worker = new Worker(new URL("./step-worker.ts", import.meta.url).href);
    const closed = new Promise((resolve) => worker.addEventListener("close", resolve));
    const busy = new Promise<void>((resolve) => {
      worker.onmessage = ({ data }) => {
        if (data === "busy") resolve();
        else wrong.push(String(data));
      };
      worker.onerror = (event) => {
        event.preventDefault();
        if (!event.message.includes("ends on purpose")) wrong.push(`Worker ${number}: ${event.message}`);
        resolve();
      };
    });
    const order: Order = { backend, seed: random.below(2 ** 31), number, out, outOffset, end, steps: random.below(20), inFlight: 20 + random.below(100) };
    const delay = random.below(12);
    worker.postMessage(order);
    await busy;
    if (end !== "exit") {
      await Bun.sleep(delay);
      worker.terminate();
    }
    let over = false;
    void closed.then(() => (over = true));
    // The Worker's memory is handed out again as it ends.
    for (let after = 0; after < 20; after += over ? 1 : 0) {
      watched.add();
      await Bun.sleep(1);
    }
    ended[end]++;
    wrong.push(...watched.changed());
    const before = mine.slice();
    const foreign = before.find((each) => each !== 0 && each !== number);
    if (foreign !== undefined) wrong.push(`the output of Worker ${number} holds ${foreign}`);
    await Bun.sleep(5);
    if (mine.some((each, i) => each !== before[i])) wrong.push(`the output of Worker ${number} changes after its end`);
    const outside = around.findIndex((each, i) => each !== -number && (i < outOffset / 4 || i >= (outOffset + wrappedBytes.out) / 4));
    if (outside >= 0) wrong.push(`Worker ${number} has written outside its output: ${around[outside]}`);
  }

  const lanes = Array.from({ length: together }, async () => {
    running++;
    while (started < count && wrong.length === 0) await one();
    running--;
  });
  // The main thread's own states, meanwhile.
  while (running > 0 && wrong.length === 0) {
    const report = await runSchedules(machine, folder, seed, programs, 1);
    programs++;
    if (report.failure !== undefined) wrong.push(report.failure);
    if (programs % 32 === 0) wrong.push(...watched.changed());
    await Bun.sleep(1);
  }
  await Promise.all(lanes);
  wrong.push(...watched.changed());
  return { ended, programs, arrays: watched.count, wrong };
}
