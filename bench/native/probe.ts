/** The probes of probe.c: how much memory this machine streams, and how many multiply-adds it does, in a second. */
import { dlopen } from "bun:ffi";
import type { Pointer } from "bun:ffi";
import { existsSync } from "node:fs";

/** An op's use of memory: overwrites its input, reads one or two arrays and writes another, or only reads. */
export type Pattern = "in-place" | "copy" | "two-to-one" | "read";

const patterns = ["in-place", "copy", "two-to-one", "read"] as const satisfies readonly Pattern[];

/** The arrays that each pattern streams. In place, one array is counted twice: it is read and written. */
const arrays = { "in-place": 1, copy: 2, "two-to-one": 3, read: 1 } as const;
const bytesMoved = { "in-place": 2, copy: 2, "two-to-one": 3, read: 1 } as const;

/** The number of probe.c's ways of going through memory: prefetching or not, one part or four, past the caches or not. */
const ways = 8;

const symbols = {
  probe_allocate: { args: ["u64"], returns: "ptr" },
  probe_stream: { args: ["i32", "i32", "ptr", "ptr", "ptr", "i64", "i32", "i32", "ptr"], returns: "i32" },
  probe_peak: { args: ["i64", "i32", "i32", "ptr"], returns: "i32" },
  probe_multiply_adds: { args: ["i64"], returns: "f64" },
  probe_name: { args: [], returns: "cstring" },
} as const;

/** The place where the build puts the probes. */
export const probePath = `${import.meta.dir}/../../.build/bench/libprobe.${process.platform === "darwin" ? "dylib" : "so"}`;

/** The least number of bytes to stream in order to probe memory and not a cache. */
export const coldBytes = 512 * 2 ** 20;

/** The loaded probes, which keep memory of their own: a fresh page costs more than the measured work. */
export class Probe {
  readonly #native;
  readonly #memory: Pointer;
  /** The fastest ways found for earlier requests: trying them all each time would take longer than the benchmark. */
  readonly #ways = new Map<string, number>();

  constructor(path = probePath) {
    if (!existsSync(path)) throw new Error("the probes are not built: `npm run bench` builds them");
    this.#native = dlopen(path, symbols).symbols;
    const memory = this.#native.probe_allocate(BigInt(coldBytes + 4096));
    if (typeof memory !== "number") throw new Error("not enough memory for the probes: 512 MiB are needed");
    this.#memory = memory;
  }

  /** The instruction set in use. */
  get isa(): string {
    return String(this.#native.probe_name());
  }

  /**
   * Bytes a second, in the fastest of several passes over `workingSet` bytes in all (up to 512 MiB); `milliseconds` is
   * the approximate time that they may take.
   */
  bandwidth(pattern: Pattern, workingSet: number, threads: number, milliseconds: number): number {
    const { moved, way, pass } = this.#fastestWay(pattern, workingSet, threads);
    return moved / Math.min(...pass(way, passesIn(milliseconds, Math.min(...pass(way, 2)))));
  }

  /** The same in each of two consecutive passes, after one in which the threads begin: for medians of work timed in turns with them. */
  bandwidths(pattern: Pattern, workingSet: number, threads: number): number[] {
    const { moved, way, pass } = this.#fastestWay(pattern, workingSet, threads);
    return pass(way, 3).slice(1).map((seconds) => moved / seconds);
  }

  /** The fastest way, a function that makes passes in any way and gives their seconds, and the bytes that each pass moves. */
  #fastestWay(pattern: Pattern, workingSet: number, threads: number) {
    const each = Math.floor(Math.min(workingSet, coldBytes) / arrays[pattern] / 64) * 64;
    const [a, b, c] = [0, 1, 2].map((i) => (this.#memory + (i < arrays[pattern] ? i * each : 0)) as Pointer);
    const pass = (way: number, passes: number) =>
      secondsOf(passes, (out) =>
        this.#native.probe_stream(patterns.indexOf(pattern), way, a!, b!, c!, BigInt(each / 4), threads, passes, out),
      );
    const kind = `${pattern} ${workingSet} ${threads}`;
    let way = this.#ways.get(kind);
    if (way === undefined) {
      const tried = Array.from({ length: ways }, (_, i) => Math.min(...pass(i, 3)));
      way = tried.indexOf(Math.min(...tried));
      this.#ways.set(kind, way);
    }
    return { moved: each * bytesMoved[pattern], way, pass };
  }

  /** Multiply-adds of single floats a second, on `threads` threads together. */
  multiplyAdds(threads: number, milliseconds: number): number {
    const rounds = 20_000;
    const pass = (passes: number) =>
      Math.min(...secondsOf(passes, (out) => this.#native.probe_peak(BigInt(rounds), threads, passes, out)));
    return (threads * this.#native.probe_multiply_adds(BigInt(rounds))) / pass(passesIn(milliseconds, pass(3)));
  }
}

function passesIn(milliseconds: number, seconds: number): number {
  return Math.max(3, Math.min(5000, Math.round(milliseconds / 1000 / seconds)));
}

/** Seconds of each pass. */
function secondsOf(passes: number, run: (seconds: Float64Array) => number): number[] {
  const seconds = new Float64Array(passes);
  if (run(seconds) !== 0) throw new Error("the probe has no room for so many threads");
  return [...seconds];
}
