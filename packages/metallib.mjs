// The Metal kernels, compiled ahead of time by Apple's tools: `node packages/metallib.mjs OUTPUT [-Werror]` makes an object of each
// file of shaders/ and a library of them all. A published library for macOS contains it (link.mjs); without it, the kernels' text is
// compiled when needed.
import { mkdirSync, readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { quick, run, tail } from "../swift/scripts/exec.mjs";
import { Failure, runMain, say } from "../swift/scripts/report.mjs";
import { rootFolder } from "../swift/scripts/root.mjs";

/** The options with which the text is compiled at run time (Pipelines.swift), on which the bits depend, and the oldest system. */
export const metalFlags = ["-std=metal3.2", "-fmetal-math-mode=safe", "-fmetal-math-fp32-functions=precise", "-mmacosx-version-min=15.0"];

const tool = (...args) => ["-sdk", "macosx", ...args];

/** Whether Apple's Metal compiler is installed: Xcode provides it, in newer versions as a separate download. */
export const haveMetalCompiler = () => quick("xcrun", tool("-f", "metal")) !== null;

/**
 * Compiles the shaders of `root` into `output`, a path; returns it. `more` are further flags of the compiler.
 *
 * @param {string} root
 * @param {string} output
 * @param {{ more?: string[], env?: Record<string, string | undefined> }} [options]
 */
export async function makeMetallib(root, output, { more = [], env = process.env } = {}) {
  const work = `${output}.objects`;
  mkdirSync(work, { recursive: true });
  mkdirSync(dirname(output), { recursive: true });
  const xcrun = async (...args) => {
    const { code, text } = await run("xcrun", tool(...args), { cwd: root, env });
    if (code !== 0) throw new Failure(`xcrun ${args[0]} failed on ${args.at(-1)}:\n${tail(text, 40)}`);
  };
  const objects = [];
  for (const file of readdirSync(join(root, "shaders")).filter((name) => name.endsWith(".metal")).sort()) {
    const object = join(work, `${basename(file, ".metal")}.air`);
    await xcrun("metal", ...metalFlags, ...more, "-o", object, "-c", join("shaders", file));
    objects.push(object);
  }
  await xcrun("metallib", ...objects, "-o", output);
  return output;
}

if (process.argv[1]?.endsWith("metallib.mjs")) {
  await runMain(async () => {
    const [output, ...more] = process.argv.slice(2);
    if (output === undefined) throw new Failure("usage: node packages/metallib.mjs OUTPUT [FLAG...]");
    say(`made ${await makeMetallib(rootFolder, output, { more })}`);
    return 0;
  });
}
