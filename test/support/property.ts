/** Random cases, the same at every run: a failure names its seed, its path and the smallest case that fails. */
import fc from "fast-check";
import { convSpecs, gatedDeltaSpecs, normSpecs, stepSpecs } from "./arbitraries.ts";
import type { Backend } from "./backends.ts";
import { rowsOf } from "./cases.ts";
import type { BatchSpec, ConvSpec, DeltaSpec, GatedDeltaSpec, NormSpec, StepSpec } from "./cases.ts";

const share = Number(process.env["GATED_DELTA_TEST_SHARE"] ?? "1");

/** The values of a list that a process with a share of the random cases tests: every third one, starting elsewhere for each `turn`. */
export function shareOf<T>(values: readonly T[], turn: number): readonly T[] {
  return share < 1 ? values.filter((_, i) => (i + turn) % 3 === 0) : values;
}

/**
 * Checks a property on a backend's share of `cases` random values, at least three.
 *
 * GATED_DELTA_TEST_SEED selects other values than the usual ones, GATED_DELTA_TEST_SHARE more or fewer of them.
 */
export function forAll<T>(
  backend: Backend,
  cases: number,
  values: fc.Arbitrary<T>,
  property: (value: T) => void,
): void {
  const seed = Number(process.env["GATED_DELTA_TEST_SEED"] ?? "20260");
  const numRuns = Math.max(3, Math.round(cases * backend.sizes.share * share));
  fc.assert(fc.property(values, property), { numRuns, seed, endOnFailure: false });
}

function fits({ sizes }: Backend, spec: DeltaSpec, tokens: number, slots: number): boolean {
  const state = spec.keyHeads * spec.ratio * spec.valueDim * spec.keyDim;
  return tokens <= sizes.mostTokens && state * slots <= sizes.mostState && state * tokens <= sizes.mostWork;
}

/** Random cases of each op, as large as a backend can handle. */
export const specsFor = {
  gatedDelta: (backend: Backend): fc.Arbitrary<GatedDeltaSpec> =>
    gatedDeltaSpecs.filter((spec) => fits(backend, spec, rowsOf(spec.batch), spec.batch.slots)),
  causalConv1d: (backend: Backend): fc.Arbitrary<ConvSpec> =>
    convSpecs.filter((spec) => rowsOf(spec.batch) <= backend.sizes.mostTokens),
  gatedRmsNorm: (_: Backend): fc.Arbitrary<NormSpec> => normSpecs,
  gatedDeltaStep: (backend: Backend): fc.Arbitrary<StepSpec> =>
    stepSpecs.filter((spec) => fits(backend, spec, spec.sequences, spec.slots)),
};

/** Whether a batch has sequences and a pool for their states. */
export const withPool = ({ batch }: { readonly batch: BatchSpec }) => batch.slots > 0 && batch.lengths.length > 0;
