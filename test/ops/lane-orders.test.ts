/**
 * The emulated GPU runs lanes and threadgroups in any requested order, here each order in a process of its own. Kernels
 * that rely on one order fail in another; others give the same bits in all orders. The same holds with fewer threads per
 * pipeline, to which a kernel's registers may limit it: the backend then chooses other kernels, tiles and threadgroups.
 */
import { expect, test } from "bun:test";
import { availability, onOnly } from "../support/backends.ts";
import { runProgram, testOps } from "../support/children.ts";
import { digest, small } from "../support/every-op.ts";

/**
 * Tests where lanes wait for each other, or where the backend chooses by the number of threads that a pipeline allows: the
 * rest runs the same kernels in the same order, and the digest covers every op.
 */
const choosing = [
  "attention",
  "call-splits",
  "causal-conv",
  "composition",
  "expert-linear",
  "fused-equals-unfused",
  "gated-delta",
  "gated-rms-norm",
  "linear",
  "linear-quantised",
  "many-threadgroups",
  "ragged",
  "route",
  "step",
  "top-k",
];

/** Excludes the longest tests, which say nothing about order that the others do not. */
const pattern = "^(?!.*(every combination|every key and value dimension|more keys than a span))";

const environment = (order: string) => ({
  GATED_DELTA_EMULATOR_ORDER: order,
  GATED_DELTA_TEST_BACKENDS: "metal",
  GATED_DELTA_TEST_SHARE: "0.1",
});

/** The step in smaller threadgroups, eight rows of a projection as four tiles of two, long sequences by the decode kernel. */
const fewerThreads = "384,gd_prefill:128";

const there = availability.some(({ name, absence }) => name === "metal" && absence === undefined);

if (there && process.env["GATED_DELTA_EMULATOR_ORDER"] === undefined) {
  onOnly("metal", "lane orders", ({ device, emulated }) => {
    if (!emulated) return; // a real GPU has its own order

    test.each(["forward", "reverse", "random:1", "random:2"])("%s: the same bits", (order) => {
      const program = `import { Device } from "ROOT/lib/index.ts";
        import { digest, small } from "ROOT/test/support/every-op.ts";
        using device = Device.open("metal");
        console.log(digest(device, small));`;
      const { ok, text } = runProgram(environment(order), program);
      expect([ok, text.trim()]).toEqual([true, digest(device, small)]);
    });

    test.each(["forward", "random:3"])("fewer threads, %s: the same bits", (order) => {
      const program = `import { Device } from "ROOT/lib/index.ts";
        import { digest, small } from "ROOT/test/support/every-op.ts";
        using device = Device.open("metal");
        console.log(digest(device, small));`;
      const { ok, text } = runProgram({ ...environment(order), GATED_DELTA_EMULATOR_MAX_THREADS: fewerThreads }, program);
      expect([ok, text.trim()]).toEqual([true, digest(device, small)]);
    });

    // Both at once: anything that either breaks fails here. `npm test` runs all of the ops' tests in reverse order and without
    // subnormal numbers: see test/run/files.mjs.
    test("fewer threads and random order: the tests of the ops", () => {
      const env = { ...environment("random:20260"), GATED_DELTA_EMULATOR_MAX_THREADS: fewerThreads };
      expect(testOps(env, choosing, pattern)).toBeGreaterThan(choosing.length);
    }, 600_000);
  });
}
