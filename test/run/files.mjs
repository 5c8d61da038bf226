// The files of `bun test`, each in its own process, as many at a time as there are processors. A file's output is shown
// in one piece when it ends, so the lines of two files never mix, and a file that crashes or hangs is one failure.
import { readdirSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join, relative } from "node:path";
import { run } from "../../swift/scripts/exec.mjs";
import { countBun, settle } from "./counts.mjs";

/** Each test has five minutes (a busy machine is no reason to fail) unless it sets its own limit; a file that exceeds its limit hangs. */
const testTimeout = 300_000;
const fileTimeout = 30 * 60_000;

/** The slowest files start first, so that none runs alone at the end. */
const slow = [
  "ops/instruction-sets", "verify-models", "ops/lane-orders", "emulator/sanitizers", "ops/ggml-tables", "model/mapped-weights", "cli", "ops/products", "model/constraints", "session-schedules",
  "model-schedules", "cpu-bits", "ops/int8", "server/load", "ops/call-splits", "state-workers", "workers-end", "ops/gated-delta", "ops/verification", "ops/attention-bits", "emulator/planted",
  "session-pressure", "ops/composition", "model/roles", "state-programs", "docs", "model/best-logits", "long-runs", "server/stores/conversations",
].map((name) => `test/${name}.test.ts`);

/**
 * The settings of the ops' tests on an emulated GPU, unless others are given: lanes and the terms of a matrix product in another order
 * than in the tests of layers and models, and subnormal numbers that are zero in arithmetic but survive moves, as on Apple's GPUs.
 */
const emulation = { GATED_DELTA_EMULATOR_ORDER: "reverse", GATED_DELTA_EMULATOR_SUBNORMALS: "flush", GATED_DELTA_EMULATOR_MATRIX: "pairwise" };

/** The environment of a file's process. */
function environmentOf(file, env) {
  // The test of lane orders sets its own.
  return file.startsWith("test/ops/") && file !== "test/ops/lane-orders.test.ts" ? { ...emulation, ...env } : env;
}

/** Every `*.test.ts` below `root`, the slow ones first. */
export function testFiles(root) {
  const files = [];
  const visit = (folder) => {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name);
      if (entry.isDirectory() && entry.name !== "node_modules" && !entry.name.startsWith(".")) visit(path);
      else if (entry.isFile() && entry.name.endsWith(".test.ts")) files.push(relative(root, path));
    }
  };
  visit(root);
  const place = (file) => (slow.includes(file) ? slow.indexOf(file) : slow.length);
  return files.sort((a, b) => place(a) - place(b) || (a < b ? -1 : 1));
}

/** Lines about the process rather than its file: the version, and the number of files run. */
const isFrame = (line) => /^bun test v|^Ran \d+ tests? across/.test(line);

/**
 * Runs `files` of `root`, `lanes` at a time, in their order. `show` gets the lines of one file after the other. Returns the sums, and in
 * `failures` the lines that name the failures. One of several lanes starts only when the promise `lateLane` has settled; until then,
 * other work needs its processor.
 */
export async function runTestFiles({ root, bun, env }, files, show, { lanes = availableParallelism(), limit = fileTimeout, lateLane } = {}) {
  const sum = { passed: 0, failed: 0, failures: [] };
  const waiting = [...files];
  const lane = async (_, number) => {
    if (number > 0 && number === lanes - 1) await lateLane?.().catch(() => {});
    for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
      // With "./" it is a path; without, a pattern that other files may match too.
      const { code, text, overtime } = await run(bun, ["test", `--timeout=${testTimeout}`, `./${file}`], { cwd: root, env: environmentOf(file, env), limit });
      const { passed, failed } = settle(countBun(text), code);
      sum.passed += passed;
      sum.failed += failed;
      const lines = text.trim().split("\n").filter((line) => !isFrame(line));
      if (overtime) lines.push(`${file}: ended after ${limit / 1000} s: it hangs`);
      else if (code !== 0 && countBun(text) === null) lines.push(`${file}: its process ended with ${code} before its tests did`);
      for (const line of lines) show(line);
      show("");
      if (failed > 0) sum.failures.push(`${file}: ${failed} not ok`, ...lines.filter((line) => /^\s*(?:\(fail\)|✗)|: its process ended|: it hangs$/.test(line)).map((line) => `  ${line.trim()}`));
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return sum;
}
