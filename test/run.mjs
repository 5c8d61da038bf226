// `npm test`: set-up, then every runner, then one line with the sum: "N passed, N failed".
import { existsSync, readFileSync, rmSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { isNoise } from "../swift/scripts/build.mjs";
import { run } from "../swift/scripts/exec.mjs";
import { stepsOf, withProgress } from "../swift/scripts/progress.mjs";
import { elapsed, runMain, say } from "../swift/scripts/report.mjs";
import { rootFolder } from "../swift/scripts/root.mjs";
import { setUp } from "../swift/scripts/steps.mjs";
import { commonFlags, swiftEnvironment, withoutDebugInfo } from "../swift/scripts/swift.mjs";
import { countSwiftTesting, countXunit, settle } from "./run/counts.mjs";
import { buildEmulator, emulatorEnvironment } from "./run/emulator.mjs";
import { runTestFiles, testFiles } from "./run/files.mjs";
import { pipelinesFile, writeReceipt } from "./run/receipt.mjs";
import { testingOf } from "./run/swift-testing.mjs";
import { announcement, expectation, keepTimes, lastTimes } from "./run/times.mjs";

/** A run that takes this long hangs: three times as long as on a busy machine of two cores. */
const hang = 40 * 60_000;

/** Shows a runner's lines as they come. */
function show(line) {
  if (!isNoise(line)) process.stdout.write(`${line}\n`);
}

/**
 * Each runner by its name, with a function that runs it and counts. Groups of them run one after the other, in this order: some need
 * files that others make. The runners of a group run at the same time.
 */
function runners(state) {
  const { root, bun, toolchain } = state;
  const linux = process.platform === "linux";
  // The caller's settings stay. Linux has both backends, so a test that finds one missing has found a mistake.
  const env = { ...(linux ? { GATED_DELTA_TEST_BACKENDS: "cpu,metal" } : {}), ...emulatorEnvironment(toolchain) };
  const testing = testingOf(toolchain);
  // A module at a time: building everything then takes a fifth less processor time than file by file.
  const wholeModules = linux ? ["-wmo", "-num-threads", "1"].flatMap((flag) => ["-Xswiftc", flag]) : [];
  const swift = (args, output) => {
    const flags = [...withoutDebugInfo, ...wholeModules, ...testing.flags, ...commonFlags(toolchain, root)];
    const swiftEnv = { ...swiftEnvironment(toolchain, root, env), ...builtKernels(root), GATED_DELTA_PIPELINES: pipelinesFile(root) };
    return run(toolchain.swift, [...args, ...flags], { cwd: root, env: swiftEnv, output, limit: hang });
  };
  // At the same time as the kernels, which Swift's tests need only when they run.
  const steps = stepsOf();
  const buildSwift = once(() => swift(["build", "--build-tests"], steps.take));
  const whileBuilt = () => withProgress("building Swift's tests", buildSwift, steps.progress);
  const types = { name: "types", go: () => one(bun, ["check", "--no-script"], { cwd: root, env }) };
  // Apple's command line tools may lack the means to run Swift's tests.
  const swiftTests = (output) => async () => (testing.problem === undefined ? swiftTest(root, swift, await whileBuilt(), output) : testing);
  const bunTests = (options) => () => runTestFiles({ root, bun, env }, testFiles(root), show, options);
  // A Mac has one GPU, which both would use.
  if (!linux) return [[types], [{ name: "swift test", go: swiftTests(show) }], [{ name: "bun test", go: bunTests() }]];
  // Linux has no Metal: the kernels are translated and built for the processor. Swift's tests and Bun's both run on them, and at the same
  // time: the last of Swift's tests takes one processor for half a minute.
  const lines = [];
  const swiftRun = once(swiftTests((line) => lines.push(line)));
  return [
    [types],
    [{ name: "emulated Metal's kernels", go: async () => (buildSwift(), counted(await buildEmulator(state, show))) }],
    [
      { name: "swift test", go: () => swiftRun().finally(() => lines.forEach(show)) },
      { name: "bun test", go: bunTests({ lateLane: swiftRun }) },
    ],
  ];
}

/** A function that calls `go` once, at its first call, and returns the same promise from each call. */
function once(go) {
  let promise;
  return () => (promise ??= go());
}

/** The place where Package.swift finds the kernels that set-up has compiled; another build system may put them elsewhere. */
function builtKernels(root) {
  const folder = join(root, ".build", "release", "CPUKernels.build");
  return existsSync(join(folder, "isa_neon.c.o")) ? { GATED_DELTA_KERNELS: folder } : {};
}

/** A program that is one test: it passes if it exits successfully. */
async function one(command, args, options) {
  return counted(await run(command, args, { ...options, output: show }));
}

function counted({ code }) {
  return { passed: code === 0 ? 1 : 0, failed: code === 0 ? 0 : 1 };
}

/** Swift's tests, by `swift`, after their build has ended as `built` says; `output` gets their lines. */
async function swiftTest(root, swift, built, output) {
  for (const line of built.text.split("\n")) if (built.code !== 0 || line.includes("warning:")) output(line);
  if (built.code !== 0) return { passed: 0, failed: 1 };
  const file = join(root, ".build", "tests.xml");
  // Swift Testing writes its file next to the one that is named for XCTest.
  const written = join(root, ".build", "tests-swift-testing.xml");
  for (const old of [written, pipelinesFile(root)]) rmSync(old, { force: true });
  const { code, text, overtime } = await swift(["test", "--skip-build", "--xunit-output", file], output);
  if (overtime) output(`swift test: ended after ${hang / 60_000} minutes: it hangs`);
  return settle(countFile(written) ?? countSwiftTesting(text), code);
}

function countFile(file) {
  try {
    return countXunit(readFileSync(file, "utf8"));
  } catch {
    return null;
  }
}

await runMain(async () => {
  const cores = availableParallelism();
  const times = lastTimes(rootFolder, cores);
  say(`all tests: ${expectation(times, cores, process.platform === "linux")}`);
  const state = await setUp(rootFolder);
  const sum = { passed: 0, failed: 0 };
  const lines = [];
  const failures = [];
  const results = [];
  const begin = performance.now();
  const runOne = async ({ name, go }) => {
    say(announcement(name, times));
    const since = performance.now();
    const { passed, failed, problem, failures: named = [] } = await go();
    failures.push(...named);
    sum.passed += passed;
    sum.failed += failed;
    results.push({ name, passed, failed, seconds: Math.round((performance.now() - since) / 1000), ...(problem && { notRun: problem }) });
    lines.push(problem === undefined ? `${name}: ${passed} ok, ${failed} not ok, ${elapsed(since)}` : `${name}: not run: ${problem}`);
  };
  for (const group of runners(state)) await Promise.all(group.map(runOne));
  for (const line of failures) process.stdout.write(`${line}\n`);
  for (const line of lines) say(line);
  keepTimes(state.root, cores, results, Math.round((performance.now() - begin) / 1000));
  // A Mac's GPU is a real one: its results are recorded in a file, to be committed.
  if (process.platform === "darwin") say(`receipt: ${await writeReceipt(state.root, state.bun, results)}`);
  // The last line is the summary, for those who read only one.
  process.stdout.write(`${sum.passed} passed, ${sum.failed} failed\n`);
  return sum.failed === 0 ? 0 : 1;
});
