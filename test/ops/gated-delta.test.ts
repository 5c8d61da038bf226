import { test } from "bun:test";
import { gatedDelta } from "../../lib/index.ts";
import { gatedDelta as referenceOf } from "../reference/gated-delta.ts";
import type { GatedDeltaCase } from "../reference/gated-delta.ts";
import { onEachBackend, onOnly } from "../support/backends.ts";
import { buildGatedDelta } from "../support/cases.ts";
import { bounds } from "../../lib/cli/verify/compare.ts";
import { expectNear, expectRounded, expectSameBits } from "../support/judge.ts";
import { Layouts, download } from "../support/layouts.ts";
import { plainDelta, twoSequences } from "../support/plain-specs.ts";
import { forAll, specsFor } from "../support/property.ts";
import { Random } from "../support/random.ts";
import { recurrenceOptions } from "../support/recurrence-options.ts";
import { allF32, deltaFormats, placeGatedDelta, runGatedDelta } from "../support/run-ops.ts";
import type { Results } from "../support/run-ops.ts";

/** The reference with the library's rounding of the decay: near 1 that costs more than everything after it. */
const expectedOf = (given: GatedDeltaCase) => referenceOf({ ...given, decayFormat: "f32" });

function expectNearReference(subject: string, got: Results, given: GatedDeltaCase, bound: number): void {
  const expected = expectedOf(given);
  expectNear(`${subject} out`, got.out, expected.out.data.subarray(0, got.out.length), bound);
  if (got.state) expectNear(`${subject} state`, got.state, expected.state!.data, bound);
}

onEachBackend("gatedDelta", (backend) => {
  const { device } = backend;

  test("near float64 for any shapes, options, batches, slots and layouts; narrow results are rounded once", () => {
    forAll(backend, 150, specsFor.gatedDelta(backend), (spec) => {
      const given = buildGatedDelta(spec);
      const formats = deltaFormats(spec);
      const wide = runGatedDelta(
        device,
        given,
        { ...formats, state: "f32", out: "f32" },
        { layouts: new Random(spec.seed) },
      );
      expectNearReference(`${backend.name} gatedDelta, ${spec.format} inputs`, wide, given, bounds.f32);
      if (formats.out === "f32" && formats.state === "f32") return;
      const narrow = runGatedDelta(device, given, formats, { layouts: new Random(spec.seed + 1) });
      expectRounded("out", formats.out, narrow.out, wide.out);
      if (narrow.state && wide.state) expectRounded("state", formats.state, narrow.state, wide.state);
    });
  });

  test("every combination of options is near float64", () => {
    for (const [seed, options] of recurrenceOptions(backend).entries()) {
      const given = buildGatedDelta({ ...plainDelta, ...options, seed, batch: twoSequences });
      expectNearReference(Object.values(options).join(" "), runGatedDelta(device, given, allF32), given, bounds.f32);
    }
  });

  test("every key and value dimension, 8 to 256", () => {
    for (let n = 1; n <= 32; n++) {
      // Over all n, both dimensions take every value, but not the same one at the same time.
      const dims = { keyDim: n * 8, valueDim: ((n * 7) % 33) * 8 || 256 };
      const given = buildGatedDelta({
        ...plainDelta,
        ...dims,
        seed: n,
        keyHeads: 1,
        ratio: (n % 3) + 1,
        batch: twoSequences,
      });
      expectNearReference(`${dims.keyDim} × ${dims.valueDim}`, runGatedDelta(device, given, allF32), given, bounds.f32);
    }
  });

  test("many heads", () => {
    for (const [keyHeads, ratio] of [
      [16, 3],
      [1, 32],
      [32, 1],
      [5, 4],
    ] as const) {
      for (const headMap of ["block", "tiled"] as const) {
        const given = buildGatedDelta({ ...plainDelta, keyHeads, ratio, headMap, keyDim: 8, batch: twoSequences });
        expectNearReference(`${keyHeads} key heads`, runGatedDelta(device, given, allF32), given, bounds.f32);
      }
    }
  });

  test("the normalisation's epsilon and the scale are those that are given", () => {
    for (const qkNorm of ["l2", "l2-max", "rms"] as const) {
      for (const qkNormEps of [0, 1e-3, 4]) {
        const given = {
          ...buildGatedDelta({ ...plainDelta, qkNorm, batch: twoSequences }),
          qkNormEps: Math.fround(qkNormEps),
          scale: -1.75,
        };
        expectNearReference(`${qkNorm} ${qkNormEps}`, runGatedDelta(device, given, allF32), given, bounds.f32);
      }
    }
  });

  test("what is left out has the documented defaults", () => {
    const given = buildGatedDelta({ ...plainDelta, qkNorm: "none", batch: twoSequences });
    const bare = { ...given, headMap: undefined, qkNorm: undefined, betaForm: undefined, scale: undefined };
    const full = {
      ...given,
      headMap: "block",
      qkNorm: "none",
      betaForm: "given",
      scale: 16 ** -0.5,
      qkNormEps: Math.fround(1e-6),
    } as const;
    const expected = runGatedDelta(device, full, allF32);
    const same = (got: Results) => {
      expectSameBits("out", got.out, expected.out);
      expectSameBits("state", got.state!, expected.state!);
    };
    same(runGatedDelta(device, bare, allF32));
    same(runGatedDelta(device, { ...bare, readSlots: undefined, writeSlots: undefined }, allF32));
    same(runGatedDelta(device, { ...bare, writeSlots: undefined }, allF32));
    // One sequence of all rows, with and without a pool.
    const one = buildGatedDelta({
      ...plainDelta,
      batch: { ...twoSequences, lengths: [8], readSlots: [0], writeSlots: [0] },
    });
    const alone = runGatedDelta(device, one, allF32);
    const defaults = { ...one, cuSeqlens: undefined, readSlots: undefined, writeSlots: undefined };
    expectSameBits("out", runGatedDelta(device, defaults, allF32).out, alone.out);
    const fresh = { ...one, readSlots: [-1], writeSlots: [-1] };
    const { out } = runGatedDelta(device, { ...defaults, state: undefined }, allF32);
    expectSameBits("out", out, runGatedDelta(device, fresh, allF32).out);
  });

  test("index data may be an Int32Array, an array or a tensor", () => {
    const given = buildGatedDelta({
      ...plainDelta,
      batch: { ...twoSequences, slots: 3, readSlots: [2, -1], writeSlots: [1, 0] },
    });
    const expected = runGatedDelta(device, given, allF32);
    const forms = [
      (values: readonly number[]) => Int32Array.from(values),
      (values: readonly number[]) => [...values],
      (values: readonly number[]) => device.tensorFrom("i32", [values.length], values),
    ];
    for (const form of forms) {
      using layouts = new Layouts(device);
      const args = placeGatedDelta(layouts, given, allF32);
      const indices = {
        cuSeqlens: form(given.cuSeqlens!),
        readSlots: form(given.readSlots!),
        writeSlots: form(given.writeSlots!),
      };
      device.run(gatedDelta({ ...args, ...indices }));
      device.wait();
      expectSameBits("out", download(args.out), expected.out);
      expectSameBits("state", download(args.state!), expected.state!);
    }
  });

  test("auto gives the bits of recurrent", () => {
    forAll(backend, 40, specsFor.gatedDelta(backend), (spec) => {
      const given = buildGatedDelta(spec);
      const formats = deltaFormats(spec);
      const auto = runGatedDelta(device, given, formats, { algorithm: "auto" });
      const recurrent = runGatedDelta(device, given, formats, { algorithm: "recurrent" });
      expectSameBits("out", auto.out, recurrent.out);
      if (auto.state) expectSameBits("state", auto.state, recurrent.state!);
    });
  });
});

onOnly("cpu", "chunked", (backend) => {
  test("is near float64 within its own bound; narrow results are rounded once", () => {
    forAll(backend, 100, specsFor.gatedDelta(backend), (spec) => {
      const given = buildGatedDelta(spec);
      const formats = deltaFormats(spec);
      const chunked = { layouts: new Random(spec.seed), algorithm: "chunked" } as const;
      const wide = runGatedDelta(backend.device, given, { ...formats, state: "f32", out: "f32" }, chunked);
      expectNearReference(`${backend.name} chunked, ${spec.format} inputs`, wide, given, bounds.chunked);
      if (formats.out === "f32" && formats.state === "f32") return;
      const narrow = runGatedDelta(backend.device, given, formats, { algorithm: "chunked" });
      expectRounded("out", formats.out, narrow.out, wide.out);
      if (narrow.state && wide.state) expectRounded("state", formats.state, narrow.state, wide.state);
    });
  });
});
