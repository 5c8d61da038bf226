/** Workers that end at random while they run steps change nothing in the main thread. The long run is state-programs/long-workers.ts. */
import { expect, test } from "bun:test";
import { openDevice, testBackend } from "./support/devices.ts";
import { scratch } from "./support/files.ts";
import { endWorkers } from "./state-programs/ended-workers.ts";

const files = scratch();
const seed = Number(process.env["GATED_DELTA_TEST_SEED"] ?? "20260");

test("20 Workers, ended by process.exit, terminate() and uncaught exceptions", async () => {
  using device = openDevice();
  const workers = device.emulated ? 6 : 20;
  const { ended, programs, wrong } = await endWorkers(testBackend, seed, workers, files.folder);
  expect(wrong).toEqual([]);
  expect(ended.exit + ended.throw + ended.terminate).toBe(workers);
  expect(programs).toBeGreaterThan(0);
}, 600_000);
