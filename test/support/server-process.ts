/** `gated-delta serve` in a separate process. */
import { join } from "node:path";

const root = join(import.meta.dir, "..", "..");

export interface ServerProcess extends AsyncDisposable {
  readonly url: URL;
  /** Ends it with SIGKILL. */
  kill(): Promise<void>;
  /** Ends it and returns its standard error. */
  errors(): Promise<string>;
}

/** Starts a server on a free port of loopback, and waits until it listens. */
export async function startServer(model: string, args: readonly string[]): Promise<ServerProcess> {
  const child = Bun.spawn([process.execPath, join(root, "lib/cli/main.ts"), "serve", model, "--port", "0", ...args], { cwd: root, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  const errors = child.stderr.text();
  let text = "";
  for await (const chunk of child.stdout) {
    text += new TextDecoder().decode(chunk);
    if (text.includes("\n")) break;
  }
  if (!URL.canParse(text.trim())) throw new Error(`gated-delta serve ended:\n${await errors}`);
  const kill = async (): Promise<void> => {
    child.kill("SIGKILL");
    await child.exited;
  };
  const ended = async (): Promise<string> => {
    await kill();
    return await errors;
  };
  return { url: new URL("/", text.trim()), kill, errors: ended, [Symbol.asyncDispose]: kill };
}
