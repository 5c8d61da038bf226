/**
 * The backends that the tests of the ops run on: the CPU always, Metal wherever it opens. On Linux that is the
 * emulation, if it was built. `GATED_DELTA_TEST_BACKENDS` (`cpu`, `metal` or `cpu,metal`) chooses; named
 * backends must open.
 */
import { afterAll, describe, setDefaultTimeout } from "bun:test";
import { Device } from "../../lib/index.ts";
import { reportErrors } from "./judge.ts";

/** The extent of the random tests on a backend: an emulated GPU is far slower than a real one. */
export interface Sizes {
  /** Share of the random cases that run. */
  readonly share: number;
  /** The most tokens of a random batch. */
  readonly mostTokens: number;
  /** The most numbers in all states of a random case: slots · valueHeads · valueDim · keyDim. */
  readonly mostState: number;
  /** The most tokens · state numbers of a token: the recurrence's time is proportional to this. */
  readonly mostWork: number;
}

/** A backend under test, and a device of it that lives as long as the test file. */
export interface Backend {
  readonly name: "cpu" | "metal";
  readonly device: Device;
  readonly emulated: boolean;
  readonly sizes: Sizes;
}

/** The time limit of a test in milliseconds: even an emulated GPU on a busy machine takes less. */
const longest = 300_000;

const native: Sizes = { share: 1, mostTokens: 80, mostState: 2 ** 20, mostWork: 2 ** 23 };
const emulated: Sizes = { share: 0.25, mostTokens: 80, mostState: 2 ** 18, mostWork: 2 ** 21 };

/** Whether a backend opens here, and if not, why. */
export interface Availability {
  readonly name: "cpu" | "metal";
  readonly absence: string | undefined;
}

/** The backends in GATED_DELTA_TEST_BACKENDS; undefined if it is not set. */
export function backendsWanted(text = process.env["GATED_DELTA_TEST_BACKENDS"]): ("cpu" | "metal")[] | undefined {
  if (text === undefined || text === "") return undefined;
  return text.split(",").map((name) => {
    const wanted = name.trim();
    if (wanted === "cpu" || wanted === "metal") return wanted;
    throw new Error(`GATED_DELTA_TEST_BACKENDS: ${wanted} is neither cpu nor metal`);
  });
}

function probe(name: "cpu" | "metal"): Availability {
  try {
    Device.open(name).close();
    return { name, absence: undefined };
  } catch (error) {
    return { name, absence: error instanceof Error ? error.message : String(error) };
  }
}

/** Every requested backend. Probed once for all test files: opening an emulated device loads a library. */
export const availability: readonly Availability[] = (backendsWanted() ?? (["cpu", "metal"] as const)).map(probe);

for (const { name, absence } of availability) {
  if (absence === undefined) continue;
  if (name === "cpu" || backendsWanted() !== undefined) throw new Error(`backend ${name} is not there: ${absence}`);
  console.log(`Not run on ${name}, which is not there (${absence}): the tests of the ops.`);
}

/** Runs tests on every backend; each gets a device of its own. */
export function onEachBackend(subject: string, tests: (backend: Backend) => void): void {
  for (const { name, absence } of availability) {
    if (absence === undefined) onBackend(subject, name, tests);
  }
}

/** Runs tests on one backend; skips them if it is absent. */
export function onOnly(wanted: "cpu" | "metal", subject: string, tests: (backend: Backend) => void): void {
  const there = availability.some(({ name, absence }) => name === wanted && absence === undefined);
  if (there) onBackend(subject, wanted, tests);
}

function onBackend(subject: string, name: "cpu" | "metal", tests: (backend: Backend) => void): void {
  setDefaultTimeout(longest); // of the test file that calls this
  describe(`${subject} on ${name}`, () => {
    const device = Device.open(name);
    afterAll(() => {
      device.close();
      reportErrors();
    });
    tests({ name, device, emulated: device.emulated, sizes: device.emulated ? emulated : native });
  });
}
