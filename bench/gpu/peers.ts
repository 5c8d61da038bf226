/**
 * Other projects' Metal kernels for comparison: a folder that the caller names, which is never part of this project. It
 * holds .metal files and peers.json, a list of cases that are dispatches of their kernels; see `Peer`.
 */
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { writeCuda } from "../../test/emulator/build.ts";

/** One argument of a kernel: the size of a buffer whose contents are made on the card, or the contents themselves. */
type Argument = { readonly bytes: number } | { readonly i32: readonly number[] } | { readonly f32: readonly number[] };

export type Peer = {
  readonly name: string;
  /** The group of the cases that it is timed side by side with (cases.ts). */
  readonly group: string;
  readonly kernel: string;
  /** The threads of a threadgroup, and the threadgroups. */
  readonly threads: readonly [number, number, number];
  readonly groups: readonly [number, number, number];
  /** The arguments by index; null leaves one out. */
  readonly buffers: readonly (Argument | null)[];
  /** Names of the arguments for which each launch has memory of its own. */
  readonly rotate?: readonly string[];
  /** Function constants by name: their Metal type and value. */
  readonly constants?: Readonly<Record<string, readonly ["bool" | "short" | "int" | "uint" | "float", number]>>;
  /** The bytes of threadgroup memory by index. */
  readonly threadgroupMemory?: readonly number[];
};

/** Translates the kernels of a peers' folder into `output` and returns its cases. */
export function readPeers(folder: string, output: string): readonly Peer[] {
  const list = join(folder, "peers.json");
  if (!existsSync(list)) throw new Error(`${list} is not there: it lists the peers' dispatches`);
  const peers = JSON.parse(readFileSync(list, "utf8")) as readonly Peer[];
  const files = readdirSync(folder).filter((f) => f.endsWith(".metal"));
  // With Metal's default mathematics, as their hosts compile them; this project's are compiled without.
  for (const name of writeCuda(files.map((f) => join(folder, f)), output)) {
    const manifest = join(output, `${name}.kernels`);
    writeFileSync(manifest, `fast\n${readFileSync(manifest, "utf8")}`);
  }
  return peers;
}

/** Writes a peer's dispatch as the emulator writes the outlines of this project's dispatches (test/emulator/runtime/record_file.h). */
export function writeOutline(peer: Peer, path: string): void {
  const parts: Uint8Array[] = [Buffer.from("EMUOUTL1")];
  const u32 = (n: number): void => void parts.push(new Uint8Array(Uint32Array.of(n).buffer));
  const u64 = (n: number): void => void parts.push(new Uint8Array(BigUint64Array.of(BigInt(n)).buffer));
  const text = (t: string): void => (u32(Buffer.byteLength(t)), void parts.push(Buffer.from(t)));
  text(peer.kernel);
  const constants = Object.entries(peer.constants ?? {});
  u32(constants.length);
  for (const [name, [type, value]] of constants) {
    const bytes = type === "bool" ? Uint8Array.of(value) : type === "float" ? bytesOf({ f32: [value] }) : type === "short" ? new Uint8Array(Int16Array.of(value).buffer) : bytesOf({ i32: [value] });
    text(name);
    u32(0);
    text(type);
    u64(bytes.length);
    parts.push(bytes);
  }
  u32(0); // order
  u64(0); // seed
  u32(0); // checks
  for (const i of [0, 1, 2] as const) u64(peer.groups[i] * peer.threads[i]);
  for (const n of peer.threads) u32(n);
  const memory = peer.threadgroupMemory ?? [];
  u32(memory.length);
  for (const n of memory) u32(n);
  const given = [...peer.buffers.entries()].filter(([, b]) => b !== null);
  u32(given.length);
  for (const [index, argument] of given) {
    // Contents larger than an outline's are made on the card; smaller ones are zeros here.
    const held = argument !== null && "bytes" in argument ? new Uint8Array(argument.bytes > outlineBytes ? 0 : argument.bytes) : bytesOf(argument!);
    u32(index);
    u32(0);
    u64(0);
    u32(0xffffffff);
    u64(argument !== null && "bytes" in argument ? argument.bytes : held.length);
    parts.push(held);
    u64(index + 1);
  }
  writeFileSync(path, Buffer.concat(parts));
}

/** `outline_bytes` of record_file.h. */
const outlineBytes = 512 << 10;

function bytesOf(argument: Argument): Uint8Array {
  if ("i32" in argument) return new Uint8Array(Int32Array.from(argument.i32).buffer);
  if ("f32" in argument) return new Uint8Array(Float32Array.from(argument.f32).buffer);
  return new Uint8Array(argument.bytes);
}
