// `npm run emulator`: set-up, then the Metal kernels translated and built for the processor (test/emulator/main.ts).
import { readdirSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { run } from "../../swift/scripts/exec.mjs";
import { Failure, elapsed, runMain, say } from "../../swift/scripts/report.mjs";
import { rootFolder } from "../../swift/scripts/root.mjs";
import { setUp } from "../../swift/scripts/steps.mjs";
import { clangOf } from "../../swift/scripts/swift.mjs";

/** The environment in which the translator finds the toolchain's clang, unless one is named already. */
export function emulatorEnvironment(toolchain) {
  const clang = clangOf(toolchain);
  return { ...(clang === null ? {} : { GATED_DELTA_CLANG: clang }), ...process.env };
}

/** Builds .build/emulator/libGatedDeltaShaders.so; `output` as `run` takes it. */
export function buildEmulator({ root, bun, toolchain }, output) {
  const shaders = readdirSync(join(root, "shaders")).filter((name) => name.endsWith(".metal")).sort().map((name) => `shaders/${name}`);
  const options = { cwd: root, env: emulatorEnvironment(toolchain), output };
  return run(bun, ["test/emulator/main.ts", "build", ...shaders], options);
}

// Node 20 has no import.meta.main.
if (realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  await runMain(async () => {
    if (process.platform !== "linux") throw new Failure("the emulated Metal is for Linux: a Mac has Metal itself.");
    const state = await setUp(rootFolder);
    say("building the emulated Metal kernels");
    const { code } = await buildEmulator(state, "inherit");
    if (code === 0) say(`ready: --backend metal opens it (${elapsed()})`);
    return code;
  });
}
