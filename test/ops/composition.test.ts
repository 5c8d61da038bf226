/** A sequence has the same bits alone and in any batch. */
import { test } from "bun:test";
import type { BatchOptions } from "../reference/batch.ts";
import { onEachBackend, onOnly } from "../support/backends.ts";
import { buildCausalConv1d, buildGatedDelta, buildGatedDeltaStep } from "../support/cases.ts";
import { expectSameBits } from "../support/judge.ts";
import { forAll, specsFor, withPool } from "../support/property.ts";
import { Random } from "../support/random.ts";
import {
  convFormats,
  deltaFormats,
  runCausalConv1d,
  runGatedDelta,
  runGatedDeltaStep,
  stepFormats,
} from "../support/run-ops.ts";
import type { Results } from "../support/run-ops.ts";
import {
  convOfSpans,
  deltaOfSpans,
  sequenceCount,
  sequenceRows,
  slotOf,
  stepOfSequences,
  wholeSpan,
} from "../support/spans.ts";
import type { Slots } from "../support/spans.ts";

/** A case's slots, with its sequences in another order. */
function slotsIn(given: BatchOptions, order: readonly number[]): Slots {
  return { readSlots: order.map((s) => given.readSlots![s]!), writeSlots: order.map((s) => given.writeSlots![s]!) };
}

interface Batch extends BatchOptions {
  readonly state?: { readonly shape: readonly number[] } | undefined;
}

/** One sequence's results in a run of all sequences and in a run of some, in which it is at `place`. */
function expectSameSequence(
  all: Results,
  given: Batch,
  sequence: number,
  some: Results,
  part: Batch,
  place: number,
): void {
  expectSameBits(`sequence ${sequence}`, sequenceRows(some.out, part, place), sequenceRows(all.out, given, sequence));
  const slot = given.writeSlots?.[sequence] ?? -1;
  if (!all.state || slot < 0) return;
  const slots = given.state!.shape[0]!;
  expectSameBits(`slot ${slot}`, slotOf(some.state!, slots, slot), slotOf(all.state, slots, slot));
}

/** Shuffles 0 .. count - 1. */
const shuffled = (random: Random, count: number) => random.distinct(count, count);

onEachBackend("batch composition", (backend) => {
  const { device } = backend;

  test("gatedDelta: alone, in another order and together are equal", () => {
    forAll(backend, 120, specsFor.gatedDelta(backend).filter(withPool), (spec) => {
      const given = buildGatedDelta(spec);
      const formats = deltaFormats(spec);
      const together = runGatedDelta(device, given, formats);
      const random = new Random(spec.seed);
      const count = sequenceCount(given);
      const orders = [shuffled(random, count), ...Array.from({ length: count }, (_, s) => [s])];
      for (const order of orders) {
        const part = deltaOfSpans(
          given,
          order.map((s) => wholeSpan(given, s)),
          slotsIn(given, order),
        );
        const got = runGatedDelta(device, part, formats, { layouts: random });
        order.forEach((sequence, place) => expectSameSequence(together, given, sequence, got, part, place));
      }
    });
  });

  test("causalConv1d: alone, in another order and together are equal", () => {
    forAll(backend, 150, specsFor.causalConv1d(backend).filter(withPool), (spec) => {
      const given = buildCausalConv1d(spec);
      const formats = convFormats(spec);
      const together = runCausalConv1d(device, given, formats);
      const random = new Random(spec.seed);
      const count = sequenceCount(given);
      const orders = [shuffled(random, count), ...Array.from({ length: count }, (_, s) => [s])];
      for (const order of orders) {
        const part = convOfSpans(
          given,
          order.map((s) => wholeSpan(given, s)),
          slotsIn(given, order),
        );
        const got = runCausalConv1d(device, part, formats, { layouts: random });
        order.forEach((sequence, place) => expectSameSequence(together, given, sequence, got, part, place));
      }
    });
  });

  test("gatedDeltaStep: alone, in another order and together are equal", () => {
    forAll(
      backend,
      100,
      specsFor.gatedDeltaStep(backend).filter(({ sequences }) => sequences > 0),
      (spec) => {
        const given = buildGatedDeltaStep(spec);
        const formats = stepFormats(spec);
        const together = runGatedDeltaStep(device, given, formats);
        const random = new Random(spec.seed);
        const one = { ...given, cuSeqlens: Array.from({ length: spec.sequences + 1 }, (_, s) => s) };
        for (const order of [
          shuffled(random, spec.sequences),
          ...Array.from({ length: spec.sequences }, (_, s) => [s]),
        ]) {
          const got = runGatedDeltaStep(device, stepOfSequences(given, order, slotsIn(given, order)), formats, {
            layouts: random,
          });
          const part = { cuSeqlens: Array.from({ length: order.length + 1 }, (_, s) => s) };
          order.forEach((sequence, place) => {
            expectSameSequence(together, one, sequence, got, part, place);
            const conv = { ...one, state: given.convState };
            expectSameSequence(
              { ...together, state: together.convState },
              conv,
              sequence,
              { ...got, state: got.convState },
              part,
              place,
            );
          });
        }
      },
    );
  });
});

onOnly("cpu", "chunked", (backend) => {
  test("has the same bits alone, in another order and together", () => {
    forAll(backend, 60, specsFor.gatedDelta(backend).filter(withPool), (spec) => {
      const given = buildGatedDelta(spec);
      const formats = deltaFormats(spec);
      const together = runGatedDelta(backend.device, given, formats, { algorithm: "chunked" });
      const random = new Random(spec.seed);
      const count = sequenceCount(given);
      for (const order of [shuffled(random, count), ...Array.from({ length: count }, (_, s) => [s])]) {
        const part = deltaOfSpans(
          given,
          order.map((s) => wholeSpan(given, s)),
          slotsIn(given, order),
        );
        const got = runGatedDelta(backend.device, part, formats, { layouts: random, algorithm: "chunked" });
        order.forEach((sequence, place) => expectSameSequence(together, given, sequence, got, part, place));
      }
    });
  });
});
