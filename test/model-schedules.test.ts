/**
 * Random schedules over tiny models: prompts cut anywhere, batched with anything, forked, verified, restored. No bit of a logit
 * differs from that in the cold run of one sequence. The long run is model-schedules/long.ts.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import type { GatedDeltaError } from "../lib/index.ts";
import { onOnly } from "./support/backends.ts";
import { openDevice } from "./support/devices.ts";
import { scratch } from "./support/files.ts";
import { planted } from "./model-schedules/planted.ts";
import { ModelSchedules } from "./model-schedules/runner.ts";
import { testPlantedFaults, testShrinking } from "./support/planted-faults.ts";
import { runSchedules } from "./support/schedules.ts";

const device = openDevice(1);
afterAll(() => device.close());
const files = scratch();
const seed = Number(process.env["GATED_DELTA_TEST_SEED"] ?? "20261");
/** Each planted fault is found within the first thirty schedules; an emulated GPU is far slower. */
const schedules = device.emulated ? 30 : 150;

const opened = new DisposableStack();
afterAll(() => opened.dispose());
const open = async (on = device) => opened.use(await ModelSchedules.open(on, files.newPath()));

let machine: ModelSchedules;
beforeAll(async () => {
  machine = await open();
});

test(`${schedules} random schedules give the bits of the cold run`, async () => {
  const { failure, counts } = await runSchedules(machine, files.newPath(), seed, 0, schedules);
  expect(failure).toBeUndefined();
  for (const what of ["rows compared", "forks", "restored", "batches of several", "batches without enough pages", "batches refused", "runs side by side", "guesses accepted", "guesses without room"]) {
    expect([what, counts.get(what) ?? 0]).not.toEqual([what, 0]);
  }
}, 1_500_000);

onOnly("cpu", "random schedules with int8 activations", ({ device: cpu }) => {
  test("give the bits of the cold run", async () => {
    const own = opened.use(await ModelSchedules.open(cpu, files.newPath(), "int8"));
    const { failure, counts } = await runSchedules(own, files.newPath(), seed, 0, 60);
    expect(failure).toBeUndefined();
    for (const what of ["rows compared", "forks", "restored", "batches of several", "guesses accepted"]) expect([what, counts.get(what) ?? 0]).not.toEqual([what, 0]);
  }, 600_000);
});

onOnly("metal", "random schedules with prompts by matrices", ({ device: metal, emulated }) => {
  test("give the bits of the cold run, by role", async () => {
    const own = opened.use(await ModelSchedules.open(metal, files.newPath(), "matrix"));
    // Schedules 6 to 8 are short, and contain everything that is counted below.
    const [first, count] = emulated ? [6, 3] : [0, schedules];
    const { failure, counts } = await runSchedules(own, files.newPath(), seed, first, count);
    expect(failure).toBeUndefined();
    for (const what of ["rows compared", "forks", "batches of several", "guesses accepted"]) expect([what, counts.get(what) ?? 0]).not.toEqual([what, 0]);
  }, 1_500_000);
});

const share = { seed, count: schedules, folder: () => files.newPath() };
// Separate models: plans that were recorded before the fault do not have it, and later ones keep it.
testPlantedFaults(() => open(), planted, share);
testShrinking(() => open(), planted["a shared page is left, but what is in it is not copied"]!, "a model of ", share);

onOnly("metal", "random schedules", ({ device: metal }) => {
  test("give the bits of the cold run, or are refused where an op has no kernel", async () => {
    const own = await open(metal);
    const { model } = own.fixtures[0]!;
    using sequence = model.sequence();
    const refusal = await model.run([{ sequence, tokens: [1] }]).then(() => undefined, (error: GatedDeltaError) => error);
    if (refusal === undefined) {
      sequence[Symbol.dispose]();
      const { failure } = await runSchedules(own, files.newPath(), seed, 0, metal.emulated ? 3 : schedules);
      expect(failure).toBeUndefined();
    } else {
      console.log(`Not run on metal: schedules of models, since ${refusal.message}`);
      expect(refusal.code).toBe("unsupported");
      expect([sequence.tokens, sequence.valid, model.freePages]).toEqual([0, true, model.pages]);
    }
  }, 1_500_000);
});
