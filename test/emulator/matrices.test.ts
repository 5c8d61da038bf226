/** Simdgroup matrices: products of every element type, the lane map, loads and stores, in every lane order. */
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

function halfBits(x: number): number {
  const bits = new Uint32Array(new Float32Array([x]).buffer)[0] ?? 0;
  return x === 0 ? 0 : ((bits >>> 16) & 0x8000) | ((((bits >>> 23) & 255) - 112) << 10) | ((bits >>> 13) & 1023);
}
function halfValue(h: number): number {
  return h & 0x7fff ? (h & 0x8000 ? -1 : 1) * 2 ** (((h >> 10) & 31) - 15) * (1 + (h & 1023) / 1024) : 0;
}

describe("matrices", () => {
  // Small integers: every sum is exact in every type.
  const a = Array.from({ length: 80 }, (_, i) => ((i * 7) % 5) - 2),
    b = Array.from({ length: 64 }, (_, i) => ((i * 3) % 7) - 3);
  const c = Array.from({ length: 64 }, (_, i) => i % 9);
  const expected = Array.from({ length: 64 }, (_, i) => {
    let sum = c[i] ?? 0;
    for (let k = 0; k < 8; k += 1) sum += (a[(i >> 3) * 10 + k] ?? 0) * (b[(i & 7) * 8 + k] ?? 0);
    return sum;
  });
  const halves = (values: readonly number[]): Uint16Array => Uint16Array.from(values, halfBits);
  const brains = (values: readonly number[]): Uint16Array =>
    Uint16Array.from(values, (v) => (new Uint32Array(new Float32Array([v]).buffer)[0] ?? 0) >>> 16);
  for (const order of orders) {
    for (const kind of ["float", "half", "mixed", "bfloat"] as const) {
      test(`${kind} product, ${order}`, async () => {
        const operand =
          kind === "float" ? (v: readonly number[]) => Float32Array.from(v) : kind === "bfloat" ? brains : halves;
        const out = kind === "half" ? halves(c) : Float32Array.from(c);
        const elements = new Float32Array(64);
        expect(
          await run({
            kernel: `product_${kind}`,
            buffers: { 0: operand(a), 1: operand(b), 2: out, 3: elements },
            grid: [32],
            threads: [32],
            order,
          }),
        ).toBe("");
        expect(Array.from(out, (v) => (kind === "half" ? halfValue(v) : v))).toEqual(expected);
        // The lane map: two adjacent elements of a row in each lane.
        lanes.forEach((lane) => {
          const row = 4 * ((lane >> 4) & 1) + ((lane >> 1) & 3),
            column = 4 * ((lane >> 3) & 1) + 2 * (lane & 1);
          expect([elements[2 * lane], elements[2 * lane + 1]]).toEqual(
            [a[row * 10 + column] ?? 0, a[row * 10 + column + 1] ?? 0].map((v) => v + 0),
          );
        });
      });
    }
  }

  test("diagonal, filled, origin and transposition", async () => {
    const out = new Float32Array(256);
    expect(await run({ kernel: "diagonal", buffers: { 0: out }, grid: [32], threads: [32] })).toBe("");
    for (let r = 0; r < 16; r += 1)
      for (let k = 0; k < 16; k += 1) {
        expect(out[r * 16 + k]).toBe(r < 8 && k < 8 ? (r === k ? 3 : 0) : r >= 8 && k >= 8 ? 6 : 0);
      }
  });
});
