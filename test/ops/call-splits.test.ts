/** A sequence has the same bits in one call and in many, in place and elsewhere, and after a fork. */
import fc from "fast-check";
import { test } from "bun:test";
import { onEachBackend, onOnly } from "../support/backends.ts";
import { convCalls, deltaCalls } from "../support/calls.ts";
import { buildCausalConv1d, buildGatedDelta } from "../support/cases.ts";
import type { BatchSpec, GatedDeltaSpec } from "../support/cases.ts";
import { expectSameBits } from "../support/judge.ts";
import { plainDelta } from "../support/plain-specs.ts";
import { forAll, specsFor, withPool } from "../support/property.ts";
import { Random } from "../support/random.ts";
import { allF32, convFormats, deltaFormats, runCausalConv1d, runGatedDelta } from "../support/run-ops.ts";
import {
  deltaOfSpans,
  randomCuts,
  sequenceCount,
  sequenceRows,
  slotOf,
  tokenByToken,
  wholeSpan,
} from "../support/spans.ts";

/** A batch whose sequences each have their own slot, from which they read or start afresh, and which they always write. */
function inOwnSlots<S extends { readonly batch: BatchSpec; readonly seed: number }>(spec: S): S {
  const count = spec.batch.lengths.length;
  const random = new Random(spec.seed);
  const writeSlots = random.distinct(count, count + 1);
  const readSlots = writeSlots.map((slot) => (random.uniform() < 0.3 ? -1 : slot));
  return { ...spec, batch: { ...spec.batch, slots: count + 1, readSlots, writeSlots } };
}

onEachBackend("call splits", (backend) => {
  const { device } = backend;

  test("gatedDelta with f32 states: one call, token by token and any split are equal", () => {
    forAll(backend, 40, specsFor.gatedDelta(backend).filter(withPool), (spec) => {
      const given = buildGatedDelta(inOwnSlots({ ...spec, stateFormat: "f32" }));
      const formats = { ...deltaFormats(spec), state: "f32" } as const;
      const whole = runGatedDelta(device, given, formats);
      const random = new Random(spec.seed);
      for (const calls of [tokenByToken(given), randomCuts(random, given, 2), randomCuts(random, given, 5)]) {
        const got = deltaCalls(device, given, formats, calls);
        expectSameBits("out", got.out, whole.out);
        expectSameBits("state", got.state!, whole.state!);
      }
    });
  });

  test("causalConv1d: one call, token by token and any split are equal, whatever the state's dtype", () => {
    forAll(backend, 100, specsFor.causalConv1d(backend).filter(withPool), (spec) => {
      const given = buildCausalConv1d(inOwnSlots(spec));
      const formats = convFormats(spec);
      const whole = runCausalConv1d(device, given, formats);
      const random = new Random(spec.seed);
      for (const calls of [tokenByToken(given), randomCuts(random, given, 2), randomCuts(random, given, 5)]) {
        const got = convCalls(device, given, formats, calls);
        expectSameBits("out", got.out, whole.out);
        expectSameBits("state", got.state!, whole.state!);
      }
    });
  });

  test("gatedDelta with 16-bit states: equal for equal call boundaries, alone or together, in place or not", () => {
    const narrow = fc.constantFrom("f16" as const, "bf16" as const);
    const specs = fc.tuple(specsFor.gatedDelta(backend).filter(withPool), narrow);
    forAll(backend, 60, specs, ([spec, stateFormat]) => {
      const own = inOwnSlots({ ...spec, stateFormat });
      const given = buildGatedDelta(own);
      const formats = { ...deltaFormats(spec), state: stateFormat };
      const calls = randomCuts(new Random(spec.seed), given, 3);
      const together = deltaCalls(device, given, formats, calls);
      for (let s = 0; s < sequenceCount(given); s++) {
        const alone = deltaCalls(
          device,
          given,
          formats,
          calls.map((spans) => spans.filter(({ sequence }) => sequence === s)),
        );
        expectSameBits(`sequence ${s}`, alone.out, sequenceRows(together.out, given, s));
        const slot = own.batch.writeSlots[s]!;
        expectSameBits(
          `slot ${slot}`,
          slotOf(alone.state!, own.batch.slots, slot),
          slotOf(together.state!, own.batch.slots, slot),
        );
      }
    });
  });

  test("in place or into another slot", () => {
    forAll(backend, 60, specsFor.gatedDelta(backend).filter(withPool), (spec) => {
      const count = spec.batch.lengths.length;
      const slots = Array.from({ length: count }, (_, s) => s);
      const given = buildGatedDelta({
        ...spec,
        batch: { ...spec.batch, slots: 2 * count, readSlots: slots, writeSlots: slots },
      });
      const formats = deltaFormats(spec);
      const inPlace = runGatedDelta(device, given, formats);
      const elsewhere = runGatedDelta(device, { ...given, writeSlots: slots.map((s) => 2 * count - 1 - s) }, formats);
      expectSameBits("out", elsewhere.out, inPlace.out);
      for (const s of slots) {
        expectSameBits(
          `slot ${s}`,
          slotOf(elsewhere.state!, 2 * count, 2 * count - 1 - s),
          slotOf(inPlace.state!, 2 * count, s),
        );
      }
    });
  });
});

/** One prefix of `prefix` tokens in slot 0 of a pool, then continuations of the given lengths. */
function forkSpec(prefix: number, lengths: readonly number[], slots: number): GatedDeltaSpec {
  const batch = { lengths: [prefix, ...lengths], rowsBeyond: 0, slots, readSlots: [], writeSlots: [] };
  return { ...plainDelta, seed: 21, batch };
}

onEachBackend("forks", ({ device }) => {
  test("a fork continues with the bits of a run from scratch", () => {
    const lengths = [7, 0, 3, 12];
    const given = buildGatedDelta(forkSpec(19, lengths, 6));
    const prefix = wholeSpan(given, 0);
    const tails = lengths.map((_, i) => wholeSpan(given, i + 1));
    const pool = runGatedDelta(
      device,
      deltaOfSpans(given, [prefix], { readSlots: [-1], writeSlots: [2] }),
      allF32,
    ).state!;
    const state = { shape: given.state!.shape, data: Float64Array.from(pool) };
    // All read slot 2; the second one also writes it.
    const writeSlots = [0, 2, 5, 1];
    const part = deltaOfSpans({ ...given, state }, tails, { readSlots: [2, 2, 2, 2], writeSlots });
    const forked = runGatedDelta(device, part, allF32);
    tails.forEach((tail, i) => {
      const scratch = deltaOfSpans(given, [prefix], { readSlots: [-1], writeSlots: [3] });
      const continued = runGatedDelta(device, scratch, allF32).state!;
      // From scratch, in one call: the prefix's rows followed by the tail's.
      const rows = deltaOfSpans(given, [prefix, tail], { readSlots: [], writeSlots: [] });
      const whole = { ...rows, cuSeqlens: [0, rows.cuSeqlens![2]!], readSlots: [-1], writeSlots: [4] };
      const got = runGatedDelta(device, whole, allF32);
      const size = got.out.length / whole.cuSeqlens[1]!;
      expectSameBits(`tail ${i}`, sequenceRows(forked.out, part, i), got.out.slice(prefix.end * size));
      expectSameBits(`state ${i}`, slotOf(forked.state!, 6, writeSlots[i]!), slotOf(got.state!, 6, 4));
      expectSameBits("prefix", slotOf(continued, 6, 3), slotOf(pool, 6, 2));
    });
  });
});

onOnly("cpu", "gatedDelta chunked, cut into calls", ({ device }) => {
  test.each(["head", "key"] as const)("gates per %s: calls that end at multiples of 16 tokens are equal to one", (gateDims) => {
    const lengths = [70, 16, 0, 33];
    const batch = { lengths, rowsBeyond: 0, slots: 4, readSlots: [3, -1, 0, 2], writeSlots: [3, 1, 0, 2] };
    const given = buildGatedDelta({ ...plainDelta, gateDims, batch });
    const whole = runGatedDelta(device, given, allF32, { algorithm: "chunked" });
    for (const inner of [[16], [32, 64], [16, 32, 48, 64], [48, 48]]) {
      const calls = [...inner, Infinity].map((cut, call) =>
        lengths.map((length, sequence) => ({ sequence, start: Math.min(inner[call - 1] ?? 0, length), end: Math.min(cut, length) })));
      const got = deltaCalls(device, given, allF32, calls, "chunked");
      expectSameBits("out", got.out, whole.out);
      expectSameBits("state", got.state!, whole.state!);
    }
  });
});
