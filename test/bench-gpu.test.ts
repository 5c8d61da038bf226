/** The parts of the GPU benchmark that need no card: peers' dispatches, and a run's page. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readPeers, writeOutline, type Peer } from "../bench/gpu/peers.ts";
import { report } from "../bench/gpu/report.ts";

let folder = "";
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "gated-delta-bench-gpu-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const peer: Peer = {
  name: "decode/B1/toy",
  group: "decode/f32/B1",
  kernel: "toy",
  threads: [32, 4, 1],
  groups: [2, 3, 5],
  buffers: [{ bytes: 1 << 20 }, null, { i32: [7, -1] }, { bytes: 12 }],
  rotate: ["state"],
  constants: { WIDTH: ["uint", 128], FAST: ["bool", 1], SHIFT: ["short", -2] },
  threadgroupMemory: [64],
};

/** Reads the same fields as test/emulator/runtime/record_file.h, in its order. */
function decode(data: Buffer) {
  let at = 8;
  const u32 = (): number => data.readUInt32LE((at += 4) - 4);
  const u64 = (): number => Number(data.readBigUInt64LE((at += 8) - 8));
  const bytes = (n: number): Buffer => data.subarray(at, (at += n));
  const text = (): string => bytes(u32()).toString();
  const kernel = text();
  const constants = Array.from({ length: u32() }, () => {
    const name = text();
    u32();
    return [name, text(), [...bytes(u64())]];
  });
  u32();
  u64();
  u32();
  const grid = [u64(), u64(), u64()];
  const threads = [u32(), u32(), u32()];
  const lengths = Array.from({ length: u32() }, u32);
  const buffers = Array.from({ length: u32() }, () => {
    const index = u32();
    u32();
    const offset = u64();
    const same = u32();
    const size = u64();
    const held = bytes(size > 512 << 10 ? 0 : size).length;
    return { index, offset, same, size, held, identity: u64() };
  });
  return { kernel, constants, grid, threads, lengths, buffers, rest: data.length - at };
}

test("a peer's dispatch is an outline as the emulator writes them", () => {
  const path = join(folder, "toy.emurec");
  writeOutline(peer, path);
  const data = readFileSync(path);
  expect(data.subarray(0, 8).toString()).toBe("EMUOUTL1");
  expect(decode(data)).toEqual({
    kernel: "toy",
    constants: [
      ["WIDTH", "uint", [128, 0, 0, 0]],
      ["FAST", "bool", [1]],
      ["SHIFT", "short", [254, 255]],
    ],
    grid: [64, 12, 5],
    threads: [32, 4, 1],
    lengths: [64],
    buffers: [
      { index: 0, offset: 0, same: 0xffffffff, size: 1 << 20, held: 0, identity: 1 },
      { index: 2, offset: 0, same: 0xffffffff, size: 8, held: 8, identity: 3 },
      { index: 3, offset: 0, same: 0xffffffff, size: 12, held: 12, identity: 4 },
    ],
    rest: 0,
  });
});

test("a folder of peers is translated, and one without a list is refused", () => {
  expect(() => readPeers(folder, folder)).toThrow(/peers\.json is not there/);
  const source = "#include <metal_stdlib>\nusing namespace metal;\nkernel void toy(device float* state [[buffer(0)]], uint i [[thread_position_in_grid]]) { state[i] *= 2.0f; }\n";
  writeFileSync(join(folder, "toy.metal"), source);
  writeFileSync(join(folder, "peers.json"), JSON.stringify([peer]));
  expect(readPeers(folder, folder)).toEqual([peer]);
  // Compiled with fast mathematics, unlike this project's.
  expect(readFileSync(join(folder, "toy.kernels"), "utf8")).toMatch(/^fast\nkernel toy /);
});

test("the page says of each target whether the run met it", () => {
  const kernels = [{ name: "gd_decode_f32_f32_k128", registers: 56, spilled: 0, threads: 64, resident: 8 }];
  const line = (name: string, group: string, microseconds: number): string =>
    JSON.stringify({ case: name, group, bytes: 1, microseconds, error: "", kernels });
  writeFileSync(
    join(folder, "bench.jsonl"),
    [
      JSON.stringify({ card: "A card" }),
      line("decode/B64", "decode/f32/B64", 70),
      line("copy", "decode/f32/B64", 65),
      line("decode/B8", "decode/f32/B8", 10),
      line("copy", "decode/f32/B8", 5),
    ].join("\n"),
  );
  const page = report(folder);
  expect(page).toContain("| decode/B64 | 70.00 | 65.00 | 92.9 % | 56 | 0 |");
  expect(page).toContain("| decode B = 64 | 78 % | ≥ 92 % of the copy | 92.9 % | met |");
  expect(page).toContain("| decode B = 8 | 83 % | ≥ 86 % of the copy | 50.0 % | missed |");
  expect(page).toContain("| fused step B = 1 | 14.2 µs | ≤ 6.7 µs |  | not run |");
});
