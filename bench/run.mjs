// `npm run bench`: set-up and the probes, then the benchmarks in Bun with the arguments given after `--`.
import { join } from "node:path";
import { run } from "../swift/scripts/exec.mjs";
import { Failure, runMain } from "../swift/scripts/report.mjs";
import { rootFolder } from "../swift/scripts/root.mjs";
import { setUp } from "../swift/scripts/steps.mjs";
import { clangOf } from "../swift/scripts/swift.mjs";
import { buildProbe } from "./native/build.mjs";

await runMain(async () => {
  const { root, bun, toolchain } = await setUp(rootFolder);
  const clang = clangOf(toolchain);
  if (clang === null)
    throw new Failure(
      "the Swift toolchain has no clang, which the benchmarks' probes are built with: install swift.org's.",
    );
  await buildProbe(root, clang);
  const args = [join(root, "bench/main.ts"), ...process.argv.slice(2)];
  const { code } = await run(bun, args, { cwd: root, output: "inherit", stdout: 1 });
  return code;
});
