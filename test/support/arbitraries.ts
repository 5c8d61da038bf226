/** fast-check's random descriptions of cases, see cases.ts: they shrink to the smallest case that still fails. */
import fc from "fast-check";
import type { Format } from "../reference/rounding.ts";
import type { BatchSpec, ConvSpec, DeltaSpec, GatedDeltaSpec, NormSpec, StepSpec } from "./cases.ts";

export const formats: fc.Arbitrary<Format> = fc.constantFrom("f32", "f16", "bf16");

/** The formats that a tensor may be stored in: its own, or float32. */
const ownOrF32 = (format: Format): fc.Arbitrary<Format> => fc.constantFrom<Format[]>(format, "f32");

const seed = fc.integer({ min: 1, max: 2 ** 31 - 1 });

/** Lengths around the edges of blocks and chunks. */
const edges = [0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33];

/** Sequences that share at most this many tokens. */
function lengthsOf(mostTokens: number): fc.Arbitrary<number[]> {
  const length = fc.oneof(fc.constantFrom(...edges), fc.nat({ max: 40 }));
  return fc.array(length, { maxLength: 5 }).map((lengths) => {
    let left = mostTokens;
    return lengths.map((wanted) => {
      const given = Math.min(wanted, left);
      left -= given;
      return given;
    });
  });
}

/** Any read slots, forks included, and write slots that are all different; some of both are -1. */
export function slotsOf(sequences: number): fc.Arbitrary<{ slots: number; readSlots: number[]; writeSlots: number[] }> {
  return fc.integer({ min: Math.max(sequences, 1), max: sequences + 3 }).chain((slots) => {
    const all = Array.from({ length: slots }, (_, slot) => slot);
    const reads = fc.array(fc.integer({ min: -1, max: slots - 1 }), { minLength: sequences, maxLength: sequences });
    const writes = fc
      .tuple(
        fc.shuffledSubarray(all, { minLength: sequences, maxLength: sequences }),
        fc.array(fc.nat({ max: 4 }), { minLength: sequences, maxLength: sequences }),
      )
      .map(([order, drop]) => order.map((slot, s) => (drop[s] === 0 ? -1 : slot)));
    // In place is the most frequent use, so it is half of the cases.
    return fc
      .record({ readSlots: reads, writeSlots: writes, inPlace: fc.boolean() })
      .map(({ readSlots, writeSlots, inPlace }) => ({ slots, readSlots: inPlace ? writeSlots : readSlots, writeSlots }));
  });
}

/** A ragged batch, with a pool or without one. */
export function batches(mostTokens = 80): fc.Arbitrary<BatchSpec> {
  const rowsBeyond = fc.constantFrom(0, 0, 0, 3);
  return lengthsOf(mostTokens).chain((lengths) => {
    const without: BatchSpec = { lengths, rowsBeyond: 0, slots: 0, readSlots: [], writeSlots: [] };
    const bare: fc.Arbitrary<BatchSpec> = rowsBeyond.map((rows) => ({ ...without, rowsBeyond: rows }));
    const pooled: fc.Arbitrary<BatchSpec> = fc
      .tuple(rowsBeyond, slotsOf(lengths.length))
      .map(([rows, slots]) => ({ lengths, rowsBeyond: rows, ...slots }));
    return fc.oneof({ weight: 4, arbitrary: pooled }, { weight: 1, arbitrary: bare });
  });
}

/** Multiples of 8, mostly small ones, including the sizes of real models. */
const headDims = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 1, max: 6 }).map((n) => n * 8) },
  { weight: 2, arbitrary: fc.constantFrom(64, 128) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 32 }).map((n) => n * 8) },
);

/** The recurrence's shapes, options and formats. */
export const deltaSpecs: fc.Arbitrary<DeltaSpec> = formats.chain((format) =>
  fc.record({
    seed,
    keyHeads: fc.integer({ min: 1, max: 3 }),
    ratio: fc.constantFrom(1, 2, 3, 4),
    keyDim: headDims,
    valueDim: headDims,
    gateForm: fc.constantFrom("decay", "log", "neg-log", "raw", "raw-ssm", "raw-bounded"),
    gateDims: fc.constantFrom("head", "key"),
    betaForm: fc.constantFrom("given", "sigmoid", "2-sigmoid"),
    headMap: fc.constantFrom("block", "tiled"),
    qkNorm: fc.constantFrom("none", "l2", "l2-max", "rms"),
    scale: fc.constantFrom(undefined, undefined, 1, 0.3),
    format: fc.constant(format),
    gatesF32: fc.boolean(),
    weightFormat: formats,
    stateFormat: fc.constantFrom<Format[]>("f32", "f32", "f16", "bf16"),
    outFormat: ownOrF32(format),
  }),
);

export const gatedDeltaSpecs: fc.Arbitrary<GatedDeltaSpec> = fc
  .tuple(deltaSpecs, batches())
  .map(([spec, batch]) => ({ ...spec, batch }));

export const convSpecs: fc.Arbitrary<ConvSpec> = formats.chain((format) =>
  fc.record({
    seed,
    channels: fc.oneof(fc.integer({ min: 1, max: 40 }), fc.constantFrom(64, 130, 320)),
    width: fc.integer({ min: 2, max: 9 }),
    bias: fc.boolean(),
    activation: fc.constantFrom("none", "silu"),
    format: fc.constant(format),
    weightFormat: formats,
    stateFormat: ownOrF32(format),
    outFormat: ownOrF32(format),
    batch: batches(),
  }),
);

export const normSpecs: fc.Arbitrary<NormSpec> = formats.chain((format) =>
  fc.record({
    seed,
    tokens: fc.integer({ min: 0, max: 12 }),
    heads: fc.integer({ min: 1, max: 4 }),
    dim: fc.oneof(fc.integer({ min: 1, max: 40 }), fc.constantFrom(64, 100, 128, 256, 300)),
    eps: fc.constantFrom(1e-6, 1e-5, 1e-3),
    activation: fc.constantFrom("silu", "sigmoid"),
    order: fc.constantFrom("norm-then-gate", "gate-then-norm"),
    xFormat: ownOrF32(format),
    format: fc.constant(format),
    weightFormat: formats,
    outFormat: ownOrF32(format),
  }),
);

export const stepSpecs: fc.Arbitrary<StepSpec> = fc.integer({ min: 0, max: 4 }).chain((sequences) =>
  deltaSpecs.chain((spec) =>
    fc
      .record({
        width: fc.integer({ min: 2, max: 9 }),
        bias: fc.boolean(),
        convActivation: fc.constantFrom<StepSpec["convActivation"][]>("none", "silu"),
        convStateFormat: ownOrF32(spec.format),
        normActivation: fc.constantFrom<StepSpec["normActivation"][]>("silu", "sigmoid"),
        normOrder: fc.constantFrom<StepSpec["normOrder"][]>("norm-then-gate", "gate-then-norm"),
        slots: slotsOf(sequences),
      })
      .map(({ slots, ...rest }) => ({ ...spec, ...rest, sequences, ...slots })),
  ),
);
