/**
 * Runs one kernel of a built library: writes the dispatch to a file (in the format of runtime/record.h) and has the runner
 * play it in a separate process. For the emulator's own tests.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Sanitizer } from "./compile.ts";
import { build, buildRunner } from "./build.ts";

export type Bytes =
  | Float32Array
  | Float64Array
  | Uint32Array
  | Int32Array
  | Uint16Array
  | Int16Array
  | Uint8Array
  | Int8Array
  | BigUint64Array
  | BigInt64Array;

/** Buffers that hold the same array share memory. */
export type BoundBuffer = { readonly data: Bytes; readonly offset?: number; readonly readOnly?: boolean };

export type Constant = { readonly name: string; readonly type: string; readonly value: number | boolean };

export type Dispatch = {
  readonly kernel: string;
  readonly buffers?: Readonly<Record<number, Bytes | BoundBuffer>>;
  readonly constants?: readonly Constant[];
  readonly threadgroupBytes?: readonly number[];
  /** Threads of the grid and of a threadgroup. */
  readonly grid: readonly [number, number?, number?];
  readonly threads: readonly [number, number?, number?];
  readonly order?: "forward" | "reverse" | `random:${number}` | "environment";
  /** 1 races, 2 uninitialised threadgroup memory; both by default. "environment" leaves it to GATED_DELTA_EMULATOR_CHECKS. */
  readonly checks?: number | "environment";
};

export type Outcome = {
  /** The fault or error, or "". */
  readonly error: string;
  /** The runner's exit status: 0 ran, 1 fault, otherwise a sanitizer's status or a crash. */
  readonly status: number | null;
};

class Writer {
  readonly #parts: Uint8Array[] = [];
  number(value: number, bytes: 4 | 8): this {
    const part = new Uint8Array(bytes);
    const view = new DataView(part.buffer);
    if (bytes === 4) view.setUint32(0, value >>> 0, true);
    else view.setBigUint64(0, BigInt(value), true);
    this.#parts.push(part);
    return this;
  }
  raw(data: Uint8Array): this {
    this.#parts.push(data);
    return this;
  }
  text(value: string): this {
    const data = new TextEncoder().encode(value);
    return this.number(data.length, 4).raw(data);
  }
  block(data: Uint8Array): this {
    return this.number(data.length, 8).raw(data);
  }
  bytes(): Uint8Array {
    return Buffer.concat(this.#parts);
  }
}

function bytesOf(data: Bytes): Uint8Array {
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

function constantBytes(c: Constant): Uint8Array {
  const out = new DataView(new ArrayBuffer(8));
  const value = Number(c.value);
  switch (c.type) {
    case "bool":
    case "char":
    case "uchar":
      out.setInt8(0, value);
      return new Uint8Array(out.buffer, 0, 1);
    case "short":
    case "ushort":
      out.setInt16(0, value, true);
      return new Uint8Array(out.buffer, 0, 2);
    case "float":
      out.setFloat32(0, value, true);
      return new Uint8Array(out.buffer, 0, 4);
    default:
      out.setInt32(0, value, true);
      return new Uint8Array(out.buffer, 0, 4);
  }
}

function encode(d: Dispatch): { file: Uint8Array; targets: { index: number; data: Bytes }[] } {
  const out = new Writer().raw(new TextEncoder().encode("EMUREC02")).text(d.kernel);
  const constants = d.constants ?? [];
  out.number(constants.length, 4);
  for (const c of constants) out.text(c.name).number(0, 4).text(c.type).block(constantBytes(c));
  const order = d.order ?? "forward";
  out.number(
    ["environment", "forward", "reverse"].indexOf(order) < 0 ? 3 : ["environment", "forward", "reverse"].indexOf(order),
    4,
  );
  out
    .number(order.startsWith("random:") ? Number(order.slice(7)) : 0, 8)
    .number(d.checks === "environment" ? 0x80000000 : (d.checks ?? 3), 4);
  for (let i = 0; i < 3; i += 1) out.number(d.grid[i] ?? 1, 8);
  for (let i = 0; i < 3; i += 1) out.number(d.threads[i] ?? 1, 4);
  const lengths = d.threadgroupBytes ?? [];
  out.number(lengths.length, 4);
  for (const n of lengths) out.number(n, 4);
  const targets: { index: number; data: Bytes }[] = [];
  const buffers = Object.entries(d.buffers ?? {});
  out.number(buffers.length, 4);
  for (const [key, bound] of buffers) {
    const index = Number(key);
    const buffer: BoundBuffer = "data" in bound ? bound : { data: bound };
    out
      .number(index, 4)
      .number(buffer.readOnly === true ? 1 : 0, 4)
      .number(buffer.offset ?? 0, 8);
    const same = targets.findIndex((t) => t.data === buffer.data);
    out.number(same < 0 ? 0xffffffff : same, 4).block(same < 0 ? bytesOf(buffer.data) : new Uint8Array(0));
    targets.push({ index, data: buffer.data });
  }
  return { file: out.bytes(), targets };
}

export class Library {
  readonly path: string;
  readonly #runner: string;
  readonly #folder: string;
  #count = 0;

  constructor(path: string, runner: string, folder: string) {
    this.path = path;
    this.#runner = runner;
    this.#folder = folder;
  }

  /** Runs a kernel; on success the buffers' arrays hold its results. */
  run(dispatch: Dispatch, environment: Readonly<Record<string, string>> = {}): Outcome {
    return this.runAll([dispatch], environment);
  }

  /** Runs kernels one after another in one process. The outcome is the last one's; messages of earlier ones come first. */
  runAll(dispatches: readonly Dispatch[], environment: Readonly<Record<string, string>> = {}): Outcome {
    if (this.path === "") return { error: "the emulator is for Linux", status: null };
    const encoded = dispatches.map((d) => ({
      ...encode(d),
      base: join(this.#folder, `dispatch-${process.pid}-${this.#count++}`),
    }));
    for (const { file, base } of encoded) writeFileSync(`${base}.emurec`, file);
    const result = spawnSync(
      this.#runner,
      [this.path, ...encoded.flatMap(({ base }) => [`${base}.emurec`, `${base}.out`])],
      {
        encoding: "utf8",
        timeout: 60_000,
        // The lanes' stacks are not the thread's, and AddressSanitizer's fake stacks cannot handle that.
        env: {
          ...process.env,
          ASAN_OPTIONS: "detect_stack_use_after_return=0:detect_leaks=0",
          UBSAN_OPTIONS: "print_stacktrace=0",
          ...environment,
        },
      },
    );
    for (const { base, targets } of encoded) {
      if (existsSync(`${base}.out`)) readBack(`${base}.out`, targets);
      rmSync(`${base}.emurec`, { force: true });
      rmSync(`${base}.out`, { force: true });
    }
    const messages = (result.stderr ?? "").trim();
    return {
      error: result.status === 0 ? messages : messages || String(result.error ?? result.signal),
      status: result.status,
    };
  }

  /** The library's reflection. */
  reflect(): Reflection {
    if (this.path === "") return { kernels: [] };
    const result = spawnSync(this.#runner, [this.path, "--reflect"], { encoding: "utf8", maxBuffer: 1 << 28 });
    if (result.status !== 0) throw new Error(result.stderr);
    return JSON.parse(result.stdout) as Reflection;
  }
}

export type Reflection = {
  readonly kernels: readonly {
    readonly name: string;
    readonly file: string;
    readonly line: number;
    readonly buffers: readonly {
      index: number;
      name: string;
      space: string;
      const: boolean;
      reference: boolean;
      type: string;
      bytes: number;
      align: number;
      optional: string | null;
    }[];
    readonly threadgroups: readonly { index: number; name: string; type: string; bytes: number; align: number }[];
    readonly builtins: readonly { name: string; attribute: string; type: string }[];
    readonly constants: readonly { index: number; name: string; type: string; bytes: number; required: boolean }[];
    readonly staticThreadgroupBytes: number;
    readonly maxTotalThreads: number;
  }[];
};

function readBack(path: string, targets: readonly { index: number; data: Bytes }[]): void {
  const file = readFileSync(path);
  let at = 12;
  for (const target of targets) {
    const bytes = Number(file.readBigUInt64LE(at + 4));
    if (bytes > 0) bytesOf(target.data).set(file.subarray(at + 12, at + 12 + bytes));
    at += 12 + bytes;
  }
}

let scratch: string | undefined;

/** The folder for this process's libraries and dispatches. */
function scratchFolder(): string {
  if (scratch === undefined) {
    scratch = mkdtempSync(join(tmpdir(), "gated-delta-emulator-"));
    process.on("exit", () => rmSync(scratch ?? "", { recursive: true, force: true }));
  }
  return scratch;
}

let built = 0;

/** Builds and opens a library of some files, with its runner. */
export async function openLibrary(
  files: readonly string[],
  options: { sanitizer?: Sanitizer; only?: readonly string[]; directory?: string; defines?: readonly string[] } = {},
): Promise<Library> {
  // On other systems, the tests that would use it are skipped (linux.ts).
  if (process.platform !== "linux") return new Library("", "", "");
  const folder = scratchFolder();
  const path = join(folder, `library-${built++}.so`);
  await build(files, { ...options, output: path });
  const runner = await buildRunner(options.sanitizer ?? "none");
  return new Library(path, runner, folder);
}

/** The same for source text, which messages call `name`. */
export async function openSource(
  name: string,
  source: string,
  options: { sanitizer?: Sanitizer } = {},
): Promise<Library> {
  const folder = mkdtempSync(join(scratchFolder(), "source-"));
  writeFileSync(join(folder, name), source);
  return await openLibrary([name], { ...options, directory: folder });
}
