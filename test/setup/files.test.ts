// `npm test` runs each file of Bun's tests in its own process: its counts, its output and its messages about failures.
import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { runTestFiles, testFiles } from "../run/files.mjs";
import { temporaryFolder } from "./folder.ts";

const good = `import { expect, test } from "bun:test";\ntest("one", () => console.error("said by one"));\ntest("two", () => expect(1).toBe(1));\n`;
const bad = `import { expect, test } from "bun:test";\ntest("fine", () => {});\ntest("wrong", () => expect(1).toBe(2));\n`;
const crash = `import { test } from "bun:test";\ntest("ends", () => process.kill(process.pid, "SIGKILL"));\n`;
const empty = "export const nothing = 0;\n";
const hang = `import { test } from "bun:test";\ntest("hangs", () => { for (;;); }, 600_000);\n`;

/** Runs files with these contents; returns the counts and the output. */
async function runAll(contents: Readonly<Record<string, string>>, { env = process.env, ...options }: { lanes?: number; limit?: number; lateLane?: () => Promise<unknown>; env?: NodeJS.ProcessEnv } = {}) {
  using place = temporaryFolder();
  for (const [name, text] of Object.entries(contents)) {
    mkdirSync(join(place.path, name, ".."), { recursive: true });
    writeFileSync(join(place.path, name), text);
  }
  const shown: string[] = [];
  const state = { root: place.path, bun: process.execPath, env };
  const sum = await runTestFiles(state, testFiles(place.path), (line: string) => shown.push(line), options);
  return { ...sum, shown: shown.join("\n") };
}

test("files that pass are summed up, each shown in one piece", async () => {
  const contents = { "a.test.ts": good, "inner/b.test.ts": good, "c.ts": crash, ".hidden/d.test.ts": bad, "node_modules/e.test.ts": bad };
  const { passed, failed, failures, shown } = await runAll(contents, { lanes: 2 });
  expect({ passed, failed, failures }).toEqual({ passed: 4, failed: 0, failures: [] });
  const pieces = shown.trim().split(/^(?=.*\.test\.ts:$)/m);
  expect(pieces.length).toBe(2);
  for (const piece of pieces) for (const what of ["said by one", "(pass) two", " 2 pass"]) expect(piece).toContain(what);
}, 120_000);

test("the ops' tests have another order of lanes on an emulated GPU, unless one is asked for", async () => {
  const tells = (order: string | undefined) =>
    `import { expect, test } from "bun:test";\ntest("order", () => expect(process.env["GATED_DELTA_EMULATOR_ORDER"]).toBe(${JSON.stringify(order)} as never));\n`;
  const contents = { "test/ops/a.test.ts": tells("reverse"), "test/ops/lane-orders.test.ts": tells(undefined), "test/b.test.ts": tells(undefined) };
  const { GATED_DELTA_EMULATOR_ORDER: _, ...env } = process.env;
  expect(await runAll(contents, { env })).toMatchObject({ passed: 3, failed: 0 });
  expect(await runAll({ "test/ops/a.test.ts": tells("random:5") }, { env: { ...env, GATED_DELTA_EMULATOR_ORDER: "random:5" } })).toMatchObject({ passed: 1, failed: 0 });
}, 120_000);

test("a failure, a crash and a file without tests are failures that are named", async () => {
  const { passed, failed, failures } = await runAll({ "a.test.ts": good, "b.test.ts": bad, "c.test.ts": crash, "d.test.ts": empty });
  expect({ passed, failed }).toEqual({ passed: 3, failed: 3 });
  const text = failures.join("\n");
  expect(text).toContain("b.test.ts: 1 not ok\n  (fail) wrong");
  expect(text).toContain("c.test.ts: 1 not ok\n  c.test.ts: its process ended with ");
  expect(text).toContain("d.test.ts: 1 not ok");
  expect(text).not.toContain("a.test.ts");
}, 120_000);

test("one of several lanes begins after something else, however that ends", async () => {
  const waited: string[] = [];
  const after = (what: string, lateLane: () => Promise<unknown>) => () => (waited.push(what), lateLane());
  const contents = { "a.test.ts": good, "b.test.ts": good };
  const never = new Promise(() => {});
  for (const [lanes, what, lateLane] of [[1, "one lane", () => never], [2, "fails", () => Promise.reject(new Error("it failed"))], [3, "ends", () => Promise.resolve()]] as const) {
    expect(await runAll(contents, { lanes, lateLane: after(what, lateLane) })).toMatchObject({ passed: 4, failed: 0 });
  }
  expect(waited).toEqual(["fails", "ends"]);
}, 120_000);

test("a file that hangs is ended, and those after it run", async () => {
  // However long Bun takes to start here, this one never ends by itself.
  const { passed, failed, failures } = await runAll({ "a.test.ts": hang }, { lanes: 1, limit: 3000 });
  expect({ passed, failed }).toEqual({ passed: 0, failed: 1 });
  expect(failures.join("\n")).toContain("a.test.ts: ended after 3 s: it hangs");
}, 120_000);
