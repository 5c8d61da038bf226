/** Runs the command line as users do, in a separate process. */
import { join } from "node:path";
import type { Row } from "../../lib/cli/verify/report.ts";

const root = join(import.meta.dir, "..", "..");

/** How a command line ended, and its output. */
export interface CommandResult {
  readonly status: number;
  readonly out: string;
  readonly errors: string;
}

type Environment = Readonly<Record<string, string>>;

/** Runs `gated-delta` with these arguments and this standard input. */
export function gatedDelta(args: readonly string[], env: Environment = {}, input: string | Uint8Array = ""): CommandResult {
  return run("lib/cli/main.ts", args, env, input);
}

/** Runs the program of `npm run verify`. */
export function npmRunVerify(args: readonly string[], env: Environment = {}): CommandResult {
  return run("test/verify/main.ts", args, env, "");
}

function run(main: string, args: readonly string[], env: Environment, input: string | Uint8Array): CommandResult {
  const child = Bun.spawnSync([process.execPath, join(root, main), ...args], {
    stdin: Buffer.from(input),
    stdout: "pipe",
    stderr: "pipe",
    env: { ...process.env, ...env },
    timeout: 280_000, // less than the limit of a test in `npm test`: a machine may stall for a while
  });
  return { status: child.exitCode, out: child.stdout.toString(), errors: child.stderr.toString() };
}

/** The rows that `verify --json` printed. */
export function rowsOf({ out }: CommandResult): Row[] {
  return out.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line) as Row);
}
