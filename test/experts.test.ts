/**
 * Random mixtures over `route`, `expertLinear` and `combineExperts`: near float64 in every weight format, for any ids and
 * logits, with the bits of `linear` and of any part of the batch. The long run is experts/long.ts.
 */
import { expect, test } from "bun:test";
import { planted } from "./experts/planted.ts";
import { ExpertCases } from "./experts/runner.ts";
import { weightFormats } from "./experts/spec.ts";
import { onEachBackend } from "./support/backends.ts";
import { scratch } from "./support/files.ts";
import { testPlantedFaults, testShrinking } from "./support/planted-faults.ts";
import { runSchedules } from "./support/schedules.ts";

const files = scratch();
const seed = Number(process.env["GATED_DELTA_TEST_SEED"] ?? "20261");

onEachBackend("random mixtures", ({ device, emulated, name }) => {
  const machine = new ExpertCases(device);
  const cases = emulated ? 15 : 100;

  test(`${cases} are right`, async () => {
    const { failure, counts } = await runSchedules(machine, files.newPath(), seed, 0, cases);
    expect(failure).toBeUndefined();
    const kinds = ["logits: NaN", "logits: infinite", "ids: one expert", "all experts of every token", "without tokens"];
    for (const what of ["submissions failed", "orders told", "in pieces of files", ...(emulated ? [] : kinds)]) {
      expect([what, counts.get(what) ?? 0]).not.toEqual([what, 0]);
    }
    if (!emulated) expect(weightFormats.filter((format) => counts.has(`of ${format}`)).length).toBeGreaterThan(weightFormats.length / 2);
  }, 1_500_000);

  if (name !== "cpu") return;
  const share = { seed, count: cases, folder: () => files.newPath() };
  testPlantedFaults(() => machine, planted, share);
  testShrinking(() => machine, planted["ids of no expert become the last one"]!, "tokens, ", share);
});
