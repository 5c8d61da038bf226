// `npm run emulator`: set-up, then the Metal kernels translated and built for the processor (test/emulator/main.ts).
import { readdirSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { run } from "../../swift/scripts/exec.mjs";
import { stepsOf, withProgress } from "../../swift/scripts/progress.mjs";
import { Failure, elapsed, runMain, say } from "../../swift/scripts/report.mjs";
import { rootFolder } from "../../swift/scripts/root.mjs";
import { setUp } from "../../swift/scripts/steps.mjs";
import { clangOf } from "../../swift/scripts/swift.mjs";

/** An environment in which the translator finds the toolchain's clang, unless a clang is named already. */
export function emulatorEnvironment(toolchain) {
  const clang = clangOf(toolchain);
  return { ...(clang === null ? {} : { GATED_DELTA_CLANG: clang }), ...process.env };
}

/** Builds .build/emulator/libGatedDeltaShaders.so, for minutes the first time, and shows progress; `show` gets every other line. */
export function buildEmulator({ root, bun, toolchain }, show) {
  const shaders = readdirSync(join(root, "shaders")).filter((name) => name.endsWith(".metal")).sort().map((name) => `shaders/${name}`);
  const steps = stepsOf();
  const output = (line) => steps.take(line) || show(line);
  const build = () => run(bun, ["test/emulator/main.ts", "build", ...shaders], { cwd: root, env: emulatorEnvironment(toolchain), output });
  return withProgress("building the kernels", build, steps.progress);
}

// Node 20 has no import.meta.main.
if (realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  await runMain(async () => {
    if (process.platform !== "linux") throw new Failure("the emulated Metal is for Linux: a Mac has Metal itself.");
    const state = await setUp(rootFolder);
    say("building the emulated Metal kernels");
    const { code } = await buildEmulator(state, (line) => process.stderr.write(`${line}\n`));
    if (code === 0) say(`ready: --backend metal opens it (${elapsed()})`);
    return code;
  });
}
