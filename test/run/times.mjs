// How long `npm test` takes: the time of its last whole run here, else an estimate from the number of cores.
import { join } from "node:path";
import { readStamp, writeStamp } from "../../swift/scripts/stamp.mjs";

const file = (root) => join(root, ".build", "test-times.json");

/** Minutes of one core of a current server processor for all tests, and of the whole machine for the emulated kernels, two compilers at a time. */
const testMinutes = 20;
const kernelMinutes = 3;

/** Seconds as text, in minutes from one on. */
const duration = (seconds) => (seconds < 60 ? `${seconds} s` : `${Math.round(seconds / 60)} min`);

/** Seconds of each runner in the last whole run on as many cores, and of `all`; null if there was none. */
export function lastTimes(root, cores) {
  const record = readStamp(file(root));
  return record?.cores === cores && typeof record.seconds?.all === "number" ? record.seconds : null;
}

/** Writes down a whole run's results, [{ name, seconds }], and how long all of it took: some run at the same time. */
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
