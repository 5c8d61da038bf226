/** Programs from PyPI, in a virtual environment for the duration of a test. */
import { join } from "node:path";

/**
 * Installs a package.
 *
 * @returns the path of one of its programs.
 * @throws {Error} that says what is missing.
 */
export async function installed(folder: string, requirement: string, program: string, say: (line: string) => void): Promise<string> {
  const python = Bun.which("python3");
  if (python === null) throw new Error(`python3 is missing, with which ${requirement} is installed`);
  const venv = join(folder, "venv");
  say(`installing ${requirement}`);
  await done([python, "-m", "venv", venv], "the module venv of python3 (Debian's package python3-venv)");
  await done([join(venv, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check", requirement], `${requirement} from PyPI, or a mirror that pip is set up for`);
  return join(venv, "bin", program);
}

async function done(command: string[], need: string): Promise<void> {
  const child = Bun.spawn(command, { stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  const [out, errors, status] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  if (status !== 0) throw new Error(`this needs ${need}:\n${out}${errors}`);
}
