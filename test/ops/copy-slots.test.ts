import fc from "fast-check";
import { expect, test } from "bun:test";
import { OverlapError, copySlots } from "../../lib/index.ts";
import type { FloatDType, Tensor } from "../../lib/index.ts";
import { formats, slotsOf } from "../support/arbitraries.ts";
import { onEachBackend } from "../support/backends.ts";
import { firstDifference } from "../support/difference.ts";
import { bytesOf } from "../support/layouts.ts";
import { forAll } from "../support/property.ts";
import { Random } from "../support/random.ts";

const widths = { f32: 4, f16: 2, bf16: 2 } as const;

onEachBackend("copySlots", (backend) => {
  const { device } = backend;

  /** A pool of random bits, including NaNs of any payload, between guards. */
  function randomPool(
    seed: number,
    format: FloatDType,
    shape: readonly number[],
    offset: number,
  ): { base: Tensor; pool: Tensor } {
    const random = new Random(seed);
    const size = shape.reduce((product, length) => product * length, 1);
    const base = device.tensor(format, [offset + size + 16]);
    const bytes = bytesOf(base);
    for (let i = 0; i < bytes.length; i++) bytes[i] = random.below(256);
    return { base, pool: base.view({ offset, shape }) };
  }

  const cases = fc.nat({ max: 6 }).chain((count) =>
    fc.record({
      seed: fc.integer({ min: 1, max: 2 ** 30 }),
      format: formats,
      rest: fc.oneof(
        fc.tuple(fc.integer({ min: 1, max: 70 })),
        fc.tuple(fc.integer({ min: 1, max: 5 }), fc.constantFrom(3, 8, 128)),
      ),
      offset: fc.nat({ max: 9 }),
      slots: slotsOf(count),
    }),
  );

  test("every slot becomes what was read before the op, bit for bit; nothing else changes", () => {
    forAll(backend, 400, cases, ({ seed, format, rest, offset, slots: { slots, readSlots, writeSlots } }) => {
      const { base, pool } = randomPool(seed, format, [slots, ...rest], offset);
      const before = bytesOf(base).slice();
      const size = (pool.size / slots) * widths[format];
      const slotOf = (bytes: Uint8Array, slot: number) =>
        bytes.subarray(offset * widths[format] + slot * size).subarray(0, size);
      const expected = before.slice();
      writeSlots.forEach((to, i) => {
        const from = readSlots[i]!;
        if (to >= 0) slotOf(expected, to).set(from < 0 ? new Uint8Array(size) : slotOf(before, from));
      });
      device.run(copySlots({ pool, readSlots, writeSlots }));
      device.wait();
      expect(firstDifference(bytesOf(base), expected)).toBeUndefined();
      base[Symbol.dispose]();
    });
  });

  test("long cycles, and a slot copied to all others", () => {
    const slots = 300;
    const ring = Array.from({ length: slots }, (_, i) => i);
    using pool = device.tensorFrom(
      "f32",
      [slots, 3],
      Array.from({ length: slots * 3 }, (_, i) => i),
    );
    const slotNumbers = () => ring.map((slot) => Math.floor(pool.data[slot * 3]! / 3));
    device.run(copySlots({ pool, readSlots: ring.map((i) => (i + 1) % slots), writeSlots: ring }));
    device.wait();
    expect(slotNumbers()).toEqual(ring.map((i) => (i + 1) % slots));
    device.run(copySlots({ pool, readSlots: ring.map(() => 7), writeSlots: ring }));
    device.wait();
    expect(slotNumbers()).toEqual(ring.map(() => 8));
  });

  test("nothing to copy is legal, and so is copying nothing", () => {
    using pool = device.tensorFrom("f32", [2, 2], [1, 2, 3, 4]);
    using empty = device.tensor("f32", [3, 0]);
    using none = device.tensor("f32", [0, 3]);
    device.run(
      copySlots({ pool, readSlots: [], writeSlots: [] }),
      copySlots({ pool, readSlots: [0, -1], writeSlots: [-1, -1] }),
      copySlots({ pool: empty, readSlots: [0, 1], writeSlots: [1, 2] }),
      copySlots({ pool: none, readSlots: [-1], writeSlots: [-1] }),
    );
    device.wait();
    expect([...pool.data]).toEqual([1, 2, 3, 4]);
  });

  test("a slot written twice is refused, and nothing is written", () => {
    using pool = device.tensorFrom("f32", [3, 2], [1, 2, 3, 4, 5, 6]);
    expect(() => device.run(copySlots({ pool, readSlots: [0, 1], writeSlots: [2, 2] }))).toThrow(OverlapError);
    device.wait();
    expect([...pool.data]).toEqual([1, 2, 3, 4, 5, 6]);
  });

  test("copies of one pass are made in order", () => {
    using pool = device.tensorFrom("f32", [3, 1], [1, 2, 3]);
    device.run(
      copySlots({ pool, readSlots: [0], writeSlots: [1] }),
      copySlots({ pool, readSlots: [1, 2], writeSlots: [2, 0] }),
    );
    device.wait();
    expect([...pool.data]).toEqual([3, 1, 1]);
  });
});
