/** The golden files through the ops themselves, on every backend, within the bounds that DESIGN gives. */
import { expect, test } from "bun:test";
import { GatedDeltaNet } from "../../lib/index.ts";
import type { GatedDeltaCase } from "../reference/gated-delta.ts";
import { rounded } from "../reference/rounding.ts";
import { rows } from "../reference/tensor.ts";
import { onEachBackend, onOnly } from "../support/backends.ts";
import type { Backend } from "../support/backends.ts";
import { convCalls, deltaCalls } from "../support/calls.ts";
import { bounds, relRms } from "../../lib/cli/verify/compare.ts";
import { drive } from "../support/drive.ts";
import { goldenFiles, loadCausalConv, loadGatedDelta, loadGatedRmsNorm, loadLayer } from "../support/golden.ts";
import type { GatedDeltaGolden } from "../support/golden.ts";
import { expectNear, expectRounded, expectSameBits } from "../support/judge.ts";
import { Random } from "../support/random.ts";
import { allF32, runCausalConv1d, runGatedDelta, runGatedRmsNorm } from "../support/run-ops.ts";
import { randomCuts, tokenByToken } from "../support/spans.ts";

/** How many of a long file's first tokens an emulated GPU runs. */
const mostTokens = ({ emulated }: Backend) => (emulated ? 50 : Infinity);

function caseOf(golden: GatedDeltaGolden): GatedDeltaCase {
  const slots = golden.cuSeqlens.slice(1).map((_, s) => s);
  const { query, key, value, gate, beta, cuSeqlens, qkNorm } = golden;
  return {
    query,
    key,
    value,
    gate,
    beta,
    cuSeqlens,
    qkNorm,
    state: golden.stateIn,
    gateForm: "log",
    readSlots: slots,
    writeSlots: slots,
  };
}

onEachBackend("golden files", (backend) => {
  const { device } = backend;

  test.each(goldenFiles("gated-delta").map(loadGatedDelta))("$name", (golden) => {
    const given = caseOf(golden);
    const whole = runGatedDelta(device, given, allF32, { layouts: new Random(1) });
    expectNear("golden gatedDelta: out", whole.out, golden.out.data, bounds.f32);
    expectNear("golden gatedDelta: state", whole.state!, golden.stateOut.data, bounds.f32);
    // About as far from the truth as transformers' own float32 path, or closer.
    const theirs = relRms(golden.outRecurrentF32.data, golden.out.data);
    expect(relRms(whole.out, golden.out.data)).toBeLessThanOrEqual(1.25 * theirs);
    if (golden.tokens > mostTokens(backend)) return;
    for (const calls of [tokenByToken(given), randomCuts(new Random(2), given, 3)]) {
      const split = deltaCalls(device, given, allF32, calls);
      expectSameBits("out", split.out, whole.out);
      expectSameBits("state", split.state!, whole.state!);
    }
  });

  test.each(goldenFiles("causal-conv").map(loadCausalConv))("$name", (golden) => {
    const slots = golden.cuSeqlens.slice(1).map((_, s) => s);
    const { x, weight, cuSeqlens, format } = golden;
    const given = { x, weight, cuSeqlens, state: golden.stateIn, readSlots: slots, writeSlots: slots };
    const formats = { ...allF32, format, weight: format, state: format, out: format };
    const whole = runCausalConv1d(device, given, formats, { layouts: new Random(1) });
    expectNear(`golden causalConv1d in ${format}`, whole.out, golden.out.data, bounds[format]);
    expectSameBits("state", whole.state!, Float32Array.from(golden.stateOut.data));
    const wide = runCausalConv1d(device, given, { ...formats, out: "f32" });
    expectNear("golden causalConv1d, float32 out", wide.out, golden.out.data, bounds.f32);
    expectRounded("out", format, whole.out, wide.out);
    for (const calls of [tokenByToken(given), randomCuts(new Random(2), given, 3)]) {
      const split = convCalls(device, given, formats, calls);
      expectSameBits("out", split.out, whole.out);
      expectSameBits("state", split.state!, whole.state!);
    }
  });

  test.each(goldenFiles("layer").map(loadLayer))("$name", (golden) => {
    const layer = GatedDeltaNet.load(device, golden.path, { layer: 0 });
    const { sequences, tokens } = golden;
    const hidden = golden.cuSeqlens.slice(1).map((end) => rows(golden.hidden, end - tokens, end));
    const all = Array.from({ length: sequences }, (_, sequence) => sequence);
    const whole = drive(layer, hidden, [all.map((sequence) => ({ sequence, tokens }))]);
    expectNear(
      "golden layer",
      whole.outputs.flatMap((out) => [...out]),
      golden.out.data,
      bounds.layer,
    );
    // As in real use: a prefill in two chunks, then one token per step.
    const prefill = [5, golden.prefillTokens - 5].map((part) => all.map((sequence) => ({ sequence, tokens: part })));
    const steps = Array.from({ length: golden.decodeSteps }, () => all.map((sequence) => ({ sequence, tokens: 1 })));
    const used = drive(layer, hidden, [...prefill, ...steps], "decode");
    used.outputs.forEach((out, s) => expectSameBits(`sequence ${s}`, out, whole.outputs[s]!));
    used.states.forEach((state, s) => expectSameBits(`state ${s}`, state, whole.states[s]!));
  });

  test.each(goldenFiles("gated-rmsnorm").map(loadGatedRmsNorm))("$name", (golden) => {
    const { x, z, weight, eps, format } = golden;
    // The library takes x in float32 or in z's format; the files have float32.
    expect(rounded("f32", x).data).toEqual(x.data);
    const formats = { ...allF32, format, weight: format, out: format };
    const given = { x, z, weight, eps: Math.fround(eps) };
    const out = runGatedRmsNorm(device, given, formats, { layouts: new Random(1) });
    expectNear(`golden gatedRmsNorm in ${format}`, out, golden.out.data, bounds[format]);
    const wide = runGatedRmsNorm(device, given, { ...formats, out: "f32" });
    expectNear("golden gatedRmsNorm, float32 out", wide, golden.out.data, bounds.f32);
    expectRounded("out", format, out, wide);
  });
});

onOnly("cpu", "golden files, chunked", ({ device }) => {
  test.each(goldenFiles("gated-delta").map(loadGatedDelta))("$name", (golden) => {
    const got = runGatedDelta(device, caseOf(golden), allF32, { algorithm: "chunked" });
    expectNear("golden gatedDelta, chunked: out", got.out, golden.out.data, bounds.chunked);
    expectNear("golden gatedDelta, chunked: state", got.state!, golden.stateOut.data, bounds.chunked);
  });
});
