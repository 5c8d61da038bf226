// The package for Linux on arm64, tested on x86-64: its library in a Bun for arm64 (from npm) under Debian's qemu-user, on the C library
// with which it was linked. The output of the guides' programs and of `verify` is checked. A program that starts a second Bun
// does not work under qemu and is left to the release workflow, which tests on a real machine.
//
//   npm run pack -- main linux-arm64 && node packages/test/arm64.mjs
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { quick, run, tail, which } from "../../swift/scripts/exec.mjs";
import { Failure, elapsed, runMain } from "../../swift/scripts/report.mjs";
import { rootFolder } from "../../swift/scripts/root.mjs";
import { setUp } from "../../swift/scripts/steps.mjs";
import { layout } from "../../swift/toolchain/recipe.mjs";
import { targetFolder } from "../cross.mjs";
import { outputFolder, platforms } from "../platforms.mjs";
import { example } from "./examples.mjs";

const platform = platforms.find(({ name }) => name === "linux-arm64");

/** Bun for arm64 in `folder`, in the same version as this clone's. */
async function fetchBun(folder, version) {
  const { code, text } = await run("npm", ["pack", `@oven/bun-linux-aarch64@${version}`, "--pack-destination", folder, "--loglevel=error"]);
  if (code !== 0) throw new Failure(`Bun ${version} for arm64 could not be fetched:\n${tail(text)}`);
  const archive = readdirSync(folder).find((name) => name.endsWith(".tgz"));
  const unpacked = await run("tar", ["-xzf", join(folder, archive), "-C", folder]);
  if (unpacked.code !== 0) throw new Failure(`Bun for arm64 could not be unpacked:\n${tail(unpacked.text)}`);
  return join(folder, "package", "bin", "bun");
}

/** A project with the packages, made without an installer: one for this processor would leave out the other's library. */
function makeProject(folder) {
  const modules = join(folder, "node_modules");
  mkdirSync(join(modules, "@gated-delta"), { recursive: true });
  cpSync(join(outputFolder, "gated-delta"), join(modules, "gated-delta"), { recursive: true });
  cpSync(join(outputFolder, platform.name), join(modules, "@gated-delta", platform.name), { recursive: true });
  cpSync(join(rootFolder, "node_modules", "zod"), join(modules, "zod"), { recursive: true, dereference: true });
  writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "project", private: true, type: "module" }));
  for (const name of ["operations.ts", "layer.ts"]) writeFileSync(join(folder, name), example(name));
  cpSync(join(rootFolder, "test/golden"), join(folder, "test/golden"), { recursive: true });
}

await runMain(async () => {
  const qemu = which("qemu-aarch64") ?? which("qemu-aarch64-static");
  if (qemu === null) throw new Failure("there is no qemu-aarch64: install Debian's qemu-user and run the same command again.");
  for (const name of ["gated-delta", platform.name]) {
    if (!existsSync(join(outputFolder, name, "package.json"))) throw new Failure("there are no packages: run `npm run pack -- main linux-arm64` first.");
  }
  const { bun } = await setUp(rootFolder, ["dependencies"]);
  const folder = mkdtempSync(join(tmpdir(), "gated-delta-arm64-"));
  try {
    const emulated = await fetchBun(folder, quick(bun, ["--version"]));
    const project = join(folder, "project");
    mkdirSync(project);
    makeProject(project);
    const goldens = readdirSync(join(project, "test/golden")).filter((name) => name.endsWith(".safetensors")).map((name) => `test/golden/${name}`);
    // The clone's program runs with the package's library.
    const packed = { GATED_DELTA_LIBRARY: join(project, "node_modules/@gated-delta", platform.name, platform.file) };
    const checks = [
      ["the guide's operations", ["operations.ts"], /^cpu, arm64 .*: prefilled 7 tokens, decoded 3$/m],
      ["the guide's layer", ["layer.ts"], /hiddenSize: 192/],
      ["verify of a layer", ["node_modules/gated-delta/dist/cli/main.js", "verify", "--backend", "cpu", ...goldens.filter((path) => path.includes("layer-"))], /./],
      ["verify of the golden files", [join(rootFolder, "test/verify/main.ts"), "--backend", "cpu", ...goldens], /./, packed],
    ];
    for (const [name, args, pattern, env] of checks) {
      const { code, text } = await run(qemu, ["-L", join(targetFolder(platform), layout.sysroot), emulated, ...args], { cwd: project, env: { ...process.env, ...env }, limit: 20 * 60_000 });
      if (code !== 0 || !pattern.test(text)) throw new Failure(`${name} does not work on arm64:\n${tail(text, 40)}`);
      process.stdout.write(`ok      ${name}\n`);
    }
    process.stdout.write(`passed: @gated-delta/${platform.name} in Bun under ${qemu}, ${checks.length} checks (${elapsed()})\n`);
    return 0;
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  }
});
