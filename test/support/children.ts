/** Runs the tests of the ops in a process of their own, where a setting is read once a process. */
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
 * Runs test files of the ops by their names without ending; throws with all they printed where one fails.
 *
 * @param pattern of the tests to run. @default all
 * @returns how many tests passed.
 */
export function testOps(env: Readonly<Record<string, string>>, subjects: readonly string[], pattern = ""): number {
  const files = subjects.map((subject) => `./test/ops/${subject}.test.ts`);
  const { ok, text } = runBun(env, "test", "--timeout=300000", "--test-name-pattern", pattern, ...files);
  if (!ok) throw new Error(`${JSON.stringify(env)}:\n${text}`);
  return Number(/^ *(\d+) pass$/m.exec(text)?.[1] ?? 0);
}
