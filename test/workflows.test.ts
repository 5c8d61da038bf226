/** The workflows, as far as a test can read them: what they run exists, what one job uploads another downloads, and nothing needs a token. */
import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { platforms } from "../packages/platforms.mjs";

const root = join(import.meta.dir, "..");
const folder = join(root, ".github/workflows");

interface Step {
  readonly name?: string;
  readonly uses?: string;
  readonly run?: string;
  readonly if?: string;
  readonly with?: Readonly<Record<string, unknown>>;
}
interface Job {
  readonly "runs-on": string;
  readonly "timeout-minutes"?: number;
  readonly needs?: string | readonly string[];
  readonly permissions?: Readonly<Record<string, string>>;
  readonly strategy?: { readonly matrix: { readonly include?: readonly Readonly<Record<string, string>>[]; readonly os?: readonly string[] } };
  readonly steps: readonly Step[];
}
interface Workflow {
  readonly permissions: Readonly<Record<string, string>>;
  readonly jobs: Readonly<Record<string, Job>>;
}

const texts = Object.fromEntries(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), "utf8")]));
const workflows = Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, Bun.YAML.parse(text) as Workflow]));
const jobs = Object.entries(workflows).flatMap(([file, { jobs: all }]) => Object.entries(all).map(([name, job]) => [`${file}: ${name}`, job, file] as const));
const commands = jobs.flatMap(([name, { steps }]) => steps.flatMap(({ run }) => (run === undefined ? [] : [[name, run] as const])));
const release = workflows["release.yml"]!.jobs;

test.each(jobs)("%s checks out before it runs anything, and ends by itself", (_, job, file) => {
  if (job.steps.some(({ run }) => run !== undefined)) expect(job.steps[0]?.uses).toStartWith("actions/checkout@");
  expect(job["timeout-minutes"]).toBeGreaterThan(0);
  for (const needed of [job.needs ?? []].flat()) expect(Object.keys(workflows[file]!.jobs)).toContain(needed);
});

test.each(commands)("%s runs what is there", (_, command) => {
  for (const [, path] of command.matchAll(/(?:node|bash) ([\w./-]+\.mjs|\.ci\/\w+)/g)) expect([path, existsSync(join(root, path!))]).toEqual([path, true]);
  const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { scripts: Record<string, string> };
  for (const [, script] of command.matchAll(/npm run ([\w:]+)/g)) expect(Object.keys(scripts)).toContain(script!);
});

describe("the shaders' job", () => {
  const steps = workflows["ci.yml"]!.jobs["shaders"]!.steps.map(({ run = "" }) => run).join("\n");

  test("compiles with the options of the library, and treats warnings as errors", () => {
    expect(steps).toContain("node packages/metallib.mjs");
    expect(steps).toContain("-Werror");
    expect(steps).toContain("-std=metal3.2 -fmetal-math-mode=safe -fmetal-math-fp32-functions=precise");
  });

  test("looks for arrays in memory in the files of the hot kernels", () => {
    const files = /flat\/\{([\w,]+)\}\.ll/.exec(steps)![1]!.split(",");
    for (const file of files) expect([file, existsSync(join(root, `shaders/${file}.metal`))]).toEqual([file, true]);
  });

  test("asks for the output form that FlattenShaders has", () => {
    expect(steps).toContain("swift run FlattenShaders --text");
    expect(readFileSync(join(root, "swift/Sources/FlattenShaders/FlattenShaders.swift"), "utf8")).toContain('"--text"');
  });
});

describe("a release", () => {
  test("makes a package for every platform and tests each where it was not made", () => {
    const names = platforms.map(({ name }: { name: string }) => name);
    expect(release["library"]!.strategy!.matrix.include!.map(({ platform }) => platform!)).toEqual(names);
    expect(new Set(release["test"]!.strategy!.matrix.include!.map(({ platform }) => platform!))).toEqual(new Set(names));
  });

  test("uploads what it downloads", () => {
    const named = (uses: string) => Object.values(release).flatMap(({ steps }) => steps.filter((step) => step.uses?.startsWith(uses)).map((step) => step.with?.["name"] ?? step.with?.["pattern"]));
    expect(new Set(named("actions/upload-artifact@"))).toEqual(new Set(["package-gated-delta", "package-${{ matrix.platform }}"]));
    expect(new Set(named("actions/download-artifact@"))).toEqual(new Set(["package-gated-delta", "package-${{ matrix.platform }}", "package-*"]));
  });

  test("has Apple's compiler before it packs on macOS", () => {
    const { steps } = release["library"]!;
    const [compiler, pack] = ["xcrun -sdk macosx metal", "npm run pack -- platform"].map((text) => steps.findIndex(({ run }) => run?.includes(text)));
    expect(compiler).toBeGreaterThan(0);
    expect(pack).toBeGreaterThan(compiler!);
    expect(steps[compiler!]!.if).toBe("runner.os == 'macOS'");
  });

  test("is published by trust in the workflow, without a token", () => {
    for (const text of Object.values(texts)) expect(text).not.toMatch(/secrets\.|NODE_AUTH_TOKEN|_authToken/);
    expect(release["publish"]!.permissions).toEqual({ contents: "read", "id-token": "write" });
    expect(release["publish"]!.needs).toBe("test");
    // No other job may request an identity.
    for (const [name, { permissions }] of Object.entries(release)) if (name !== "publish") expect(permissions).toBe(undefined as never);
    for (const { permissions } of Object.values(workflows)) expect(permissions).toEqual({ contents: "read" });
    const [npm, publish] = ["npm install --global npm@^11.5.1", "packages/publish.mjs release"].map((text) => release["publish"]!.steps.findIndex(({ run }) => run?.includes(text)));
    expect(npm).toBeGreaterThan(0);
    expect(publish).toBeGreaterThan(npm!);
  });
});
