// Tests the command that `npm run pack` prints at its end: it is run unchanged in an empty project, while no registry has these
// packages.
import { mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { run } from "../../swift/scripts/exec.mjs";
import { Failure } from "../../swift/scripts/report.mjs";
import { installCommand, packArchives } from "../archives.mjs";
import { example } from "./examples.mjs";

/** The ways in which Bun lays out a project's modules. */
const linkers = ["hoisted", "isolated"];

/** Installs archives of the packages' folders, runs the README's program and returns the checks. `registry` has only the dependencies. */
export async function checkArchives({ folder, packages, platform, registry, bun }) {
  const bin = join(folder, "bin");
  // A folder name with a space: the command must still work.
  const target = join(folder, "the archives");
  for (const path of [bin, target]) mkdirSync(path, { recursive: true });
  for (const name of ["bun", "bunx"]) symlinkSync(bun, join(bin, name));
  const command = installCommand(await packArchives(packages, target));
  const checks = [];
  for (const linker of linkers) {
    const project = join(folder, linker);
    const env = { PATH: `${bin}:/usr/bin:/bin`, HOME: join(folder, "home"), TMPDIR: folder, npm_config_registry: registry, DO_NOT_TRACK: "1" };
    const must = async (line) => {
      const { code, text } = await run("sh", ["-c", line], { cwd: project, env });
      if (code !== 0) throw new Failure(`${line} ended with ${code}:\n${text}`);
      return text;
    };
    mkdirSync(project);
    writeFileSync(join(project, "package.json"), JSON.stringify({ name: "project", private: true }));
    writeFileSync(join(project, "bunfig.toml"), `[install]\nlinker = "${linker}"\n`);
    const said = await must(command);
    if (/warn|error|404/i.test(said)) throw new Failure(`${command} complains:\n${said}`);
    const installed = readdirSync(join(project, "node_modules", "@gated-delta"));
    if (installed.join() !== platform) throw new Failure(`installed were ${installed.join(", ")}`);
    writeFileSync(join(project, "lake.ts"), example("readme.ts"));
    const answers = await must("bun lake.ts");
    if (answers.split("\n").length < 4) throw new Failure(`the README's program printed:\n${answers}`);
    if (!(await must("bunx --bun gated-delta doctor")).includes("from the platform package")) throw new Failure("doctor found another library");
    checks.push(`archives: installed by the command that packing ends with, ${linker}`);
  }
  rmSync(folder, { recursive: true, force: true });
  return checks;
}
