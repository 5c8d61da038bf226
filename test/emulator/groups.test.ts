/** Barriers, atomics, fences between threadgroups and built-in arguments, in every lane order. */
import { expect, setDefaultTimeout } from "bun:test";
import { join } from "node:path";
import { openLibrary, type Dispatch } from "./harness.ts";
import { describe, test } from "./linux.ts";

// A first run compiles the runtime, which can take a while on a busy machine.
setDefaultTimeout(300_000);

const orders = ["forward", "reverse", "random:1", "random:99"] as const;
const lanes = Array.from({ length: 32 }, (_, i) => i);
const library = openLibrary(["groups.metal"], { directory: join(import.meta.dirname, "kernels") });
const run = async (dispatch: Dispatch): Promise<string> => (await library).run(dispatch).error;

describe("groups", () => {
  for (const order of orders) {
    test(`lanes that have returned are not active, ${order}`, async () => {
      const out = new Float32Array(32);
      expect(await run({ kernel: "partial", buffers: { 0: out }, grid: [32], threads: [32], order })).toBe("");
      expect(Array.from(out)).toEqual(lanes.map((i) => (i % 3 === 0 ? 0 : 21 + 100)));
    });

    test(`a sum over threadgroups of 160 with a ragged last one, ${order}`, async () => {
      const data = Float32Array.from({ length: 416 }, (_, i) => i % 13);
      const out = new Float32Array(416);
      expect(
        await run({
          kernel: "group_sum",
          buffers: { 0: data, 1: out },
          threadgroupBytes: [32],
          grid: [416],
          threads: [160],
          order,
        }),
      ).toBe("");
      const sums = [0, 160, 320].map((first) =>
        data.subarray(first, Math.min(first + 160, 416)).reduce((a, b) => a + b, 0),
      );
      expect(Array.from(out)).toEqual(Array.from({ length: 416 }, (_, i) => sums[Math.floor(i / 160)] ?? NaN));
    });

    test(`simdgroup_barrier orders threadgroup memory, ${order}`, async () => {
      const out = new Float32Array(128);
      expect(await run({ kernel: "simdgroup_tile", buffers: { 0: out }, grid: [128], threads: [128], order })).toBe("");
      expect(Array.from(out)).toEqual(Array.from({ length: 128 }, (_, i) => (i & ~31) + 31 - (i & 31) + 2));
    });

    test(`atomics, ${order}`, async () => {
      const count = new Uint32Array(1),
        extremes = new Int32Array([-5, 5, 12345, 0]),
        sum = new Float32Array(1),
        seen = new Uint32Array(256);
      expect(
        await run({
          kernel: "counted",
          buffers: { 0: count, 1: extremes, 2: sum, 3: seen },
          grid: [256],
          threads: [64],
          order,
        }),
      ).toBe("");
      expect(count[0]).toBe(256);
      expect(Array.from(extremes.subarray(0, 3))).toEqual([255, -255, 1]);
      expect(sum[0]).toBe(128);
      expect(Array.from(seen).sort((a, b) => a - b)).toEqual(Array.from({ length: 256 }, (_, i) => i));
      if (order === "forward") expect(seen[0]).toBe(0);
      if (order === "reverse") expect(seen[0]).toBe(255);
    });

    test(`the last threadgroup sees the others' work through fences, ${order}`, async () => {
      const out = new Uint32Array(32);
      const buffers = { 0: new Uint32Array(1), 1: new Uint32Array(160), 2: out };
      expect(await run({ kernel: "last_arrives", buffers, grid: [160], threads: [32], order })).toBe("");
      expect(Array.from(out)).toEqual(lanes.map(() => 10));
      const unfenced = await run({
        kernel: "last_arrives_unfenced",
        buffers: { 0: new Uint32Array(1), 1: new Uint32Array(160), 2: out },
        grid: [160],
        threads: [32],
        order,
      });
      expect(unfenced).toMatch(/data race: read of buffer 1 "parts".*another threadgroup/);
    });

    test(`positions, ${order}`, async () => {
      const [gx, gy, gz] = [7, 3, 2];
      const out = new Uint32Array(gx * gy * gz * 16);
      expect(
        await run({ kernel: "builtins", buffers: { 0: out }, grid: [gx, gy, gz], threads: [4, 2, 2], order }),
      ).toBe("");
      for (let z = 0; z < gz; z += 1)
        for (let y = 0; y < gy; y += 1)
          for (let x = 0; x < gx; x += 1) {
            const size = [x < 4 ? 4 : 3, y < 2 ? 2 : 1, 2] as const;
            const local = [x % 4, y % 2, z] as const;
            const index = local[0] + size[0] * (local[1] + size[1] * local[2]);
            const row = ((z * gy + y) * gx + x) * 16;
            expect(Array.from(out.subarray(row, row + 16))).toEqual([
              x,
              y,
              z,
              ...local,
              size[0] * 10000 + size[1] * 100 + size[2],
              40202,
              Math.floor(y / 2) * 2 + Math.floor(x / 4),
              index,
              index % 32,
              Math.floor(index / 32),
              1,
              32,
              Math.floor(index / 4),
              index % 4,
            ]);
          }
    });
  }
});
