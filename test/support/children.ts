/** Runs the tests of the ops in separate processes, for settings that are read once per process. */
import { existsSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dir, "..", "..");

/** The output of a process, and whether it succeeded. */
export interface Child {
  readonly ok: boolean;
  readonly text: string;
}

/** Runs Bun from the package's root under other environment variables. */
export function runBun(env: Readonly<Record<string, string>>, ...args: string[]): Child {
  const { success, stdout, stderr } = Bun.spawnSync([process.execPath, ...args], {
    cwd: root,
    env: { ...process.env, ...env },
    stdout: "pipe",
    stderr: "pipe",
  });
  return { ok: success, text: `${stdout}${stderr}` };
}

/** Runs a TypeScript program given as text, in which ROOT stands for the package's folder. */
export function runProgram(env: Readonly<Record<string, string>>, program: string): Child {
  const folder = JSON.stringify(join(root, "/"));
  return runBun(env, "--eval", program.replaceAll("ROOT", folder.slice(1, -1)));
}

/**
 * Runs test files of the ops by their names without extension; throws with their whole output if one fails or is missing.
 *
 * @param pattern of the tests to run. @default all
 * @returns the number of passed tests.
 */
export function testOps(env: Readonly<Record<string, string>>, subjects: readonly string[], pattern = ""): number {
  const files = subjects.map((subject) => `./test/ops/${subject}.test.ts`);
  // If one of several files is missing, Bun runs the others without saying so.
  for (const file of files) if (!existsSync(join(root, file))) throw new Error(`${file} is not there`);
  const { ok, text } = runBun(env, "test", "--timeout=300000", "--test-name-pattern", pattern, ...files);
  if (!ok) throw new Error(`${JSON.stringify(env)}:\n${text}`);
  return Number(/^ *(\d+) pass$/m.exec(text)?.[1] ?? 0);
}
