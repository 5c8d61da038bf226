/** Runs the command line as its users do, in a process of its own. */
import { join } from "node:path";
import type { Row } from "../../lib/cli/verify/report.ts";

const main = join(import.meta.dir, "..", "..", "lib", "cli", "main.ts");

/** The result of a command line. */
export interface CommandResult {
  readonly status: number;
  readonly out: string;
  readonly errors: string;
}

/** Runs `gated-delta` with these arguments, and this on its standard input. */
export function gatedDelta(args: readonly string[], env: Readonly<Record<string, string>> = {}, input: string | Uint8Array = ""): CommandResult {
  const child = Bun.spawnSync([process.execPath, main, ...args], {
    stdin: Buffer.from(input),
    stdout: "pipe",
    stderr: "pipe",
    env: { ...process.env, ...env },
    timeout: 280_000, // less than a test has in `npm test`: a machine may stand still for a while
  });
  return { status: child.exitCode, out: child.stdout.toString(), errors: child.stderr.toString() };
}

/** The rows that `verify --json` printed. */
export function rowsOf({ out }: CommandResult): Row[] {
  return out.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line) as Row);
}
