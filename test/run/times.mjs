// The duration of `npm test`: the time of its last complete run here, else an estimate from the number of cores.
import { join } from "node:path";
import { readStamp, writeStamp } from "../../swift/scripts/stamp.mjs";

const file = (root) => join(root, ".build", "test-times.json");

/** Minutes of a current server processor's core for all tests, and of the whole machine for the emulated kernels (two compilers). */
const testMinutes = 20;
const kernelMinutes = 3;

/** Seconds as text, in minutes from one minute on. */
const duration = (seconds) => (seconds < 60 ? `${seconds} s` : `${Math.round(seconds / 60)} min`);

/** Seconds of each runner in the last complete run on this number of cores, and of `all`; null if none was recorded. */
export function lastTimes(root, cores) {
  const record = readStamp(file(root));
  return record?.cores === cores && typeof record.seconds?.all === "number" ? record.seconds : null;
}

/** Records a complete run's results, [{ name, seconds }], and its total time: some runners run at the same time. */
export function keepTimes(root, cores, results, all) {
  writeStamp(file(root), { cores, seconds: { ...Object.fromEntries(results.map(({ name, seconds }) => [name, seconds])), all } });
}

/** The line before the first test. `isLinux`: the kernels of the emulated Metal are built there. */
export function expectation(times, cores, isLinux) {
  if (times !== null) return `the last run here took ${duration(times.all)}`;
  const minutes = Math.ceil(testMinutes / cores) + (isLinux ? kernelMinutes : 0);
  const once = isLinux ? `, of which ${kernelMinutes} build the emulated Metal's kernels, once` : "";
  return `about ${minutes} min on ${cores} ${cores === 1 ? "core" : "cores"}${once}; up to three times as long on slow or busy ones`;
}

/** A runner's first line. */
export function announcement(name, times) {
  const seconds = times?.[name];
  return seconds === undefined ? `running ${name}` : `running ${name} (last time ${duration(seconds)})`;
}
