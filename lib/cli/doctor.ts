/** `gated-delta doctor`: shows Bun, the native library and its backends on this machine. */

import { availableParallelism, cpus, release } from "node:os";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import manifest from "../../package.json" with { type: "json" };
import { libraryCandidates, packageRoot } from "../native/candidates.ts";
import { UsageError, errorText, parseOptions, print, type Command } from "./command.ts";
import type { Probe, ProbedDevice } from "./doctor-probe.ts";

const help = `Usage: gated-delta doctor

Shows Bun, the native library and how it was found, its backends, the instruction set
and the Metal device or why there is none. The library is loaded in another process, so
that a broken one is reported here instead of ending this command.

Exit status: 0 if the library loads and a backend opens, 1 if not.
`;

/** After this long the probe is ended: opening a device takes milliseconds. */
const patienceMs = 60_000;

const sources: Readonly<Record<string, string>> = {
  environment: "named by GATED_DELTA_LIBRARY",
  "platform-package": "from the platform package",
  embedded: "from inside this program",
  build: "built in this clone",
};

/** The `doctor` subcommand. */
export const doctor: Command = { help, run };

function run(args: readonly string[]): number {
  const { positionals } = parseOptions(args, {});
  if (positionals.length > 0) throw new UsageError("doctor takes no arguments");
  line("Bun", `${Bun.version} (${Bun.revision.slice(0, 9)})`);
  line("package", `${manifest.name} ${manifest.version} in ${packageRoot}`);
  line("system", `${process.platform} ${release()} ${process.arch}`);
  line("processor", `${cpus()[0]?.model.trim() || "unknown"}, ${availableParallelism()} cores for this process`);
  const isa = process.env["GATED_DELTA_ISA"];
  if (isa !== undefined) line("GATED_DELTA_ISA", isa);

  const result = probeInChild();
  if ("error" in result) {
    for (const { source, path, problem } of libraryCandidates()) {
      line("looked at", `${path} (${sources[source] ?? source}): ${problem ?? "there"}`);
    }
    line("library", `FAILED: ${result.error}`);
    return 1;
  }
  line("library", `${result.path}, ${sources[result.source] ?? result.source}`);
  line("version", `${result.version}, ABI ${result.abiVersion}`);
  line("backend", result.auto);
  line("cpu", deviceText(result.cpu));
  line("metal", deviceText(result.metal));
  return result.auto.startsWith("none") || "error" in result.cpu ? 1 : 0;
}

/** Runs the probe as a child and gives its findings, or how it ended without any. */
function probeInChild(): Probe {
  const script = fileURLToPath(new URL(`doctor-probe${extname(import.meta.path)}`, import.meta.url));
  let child: Bun.SyncSubprocess<"pipe", "pipe">;
  try {
    // Without DO_NOT_TRACK, Bun uploads a report of the crash to its own server.
    const env = { ...process.env, DO_NOT_TRACK: "1" };
    child = Bun.spawnSync([process.execPath, script], { stdout: "pipe", stderr: "pipe", timeout: patienceMs, env });
  } catch (error) {
    return { error: `the process that loads it could not be started: ${errorText(error)}` };
  }
  try {
    const last = child.stdout.toString().trim().split("\n").at(-1) ?? "";
    if (child.exitCode === 0) return JSON.parse(last) as Probe;
  } catch {
    // No findings: what follows says how the process ended.
  }
  const how = child.exitedDueToTimeout ? `gave no answer within ${patienceMs / 1000} s`
    : child.signalCode ? `was ended by ${child.signalCode}`
    : `exited with status ${child.exitCode}`;
  const errors = child.stderr.toString().trim();
  // Bun's report of a crash is long; its line with the address is the useful one.
  const text = child.signalCode ? /^panic.*$/m.exec(errors)?.[0] : errors.slice(-2000);
  return { error: `the process that loaded it ${how}${text ? `: ${text}` : ""}` };
}

function deviceText(device: ProbedDevice): string {
  if ("error" in device) return device.error;
  const parts = [device.name];
  if (device.emulated) parts.push("emulated: no Apple GPU took part");
  if (device.isa !== "") parts.push(device.isa);
  if (device.threads > 0) parts.push(`${device.threads} ${device.threads === 1 ? "thread" : "threads"}`);
  return parts.join(", ");
}

function line(label: string, text: string): void {
  print(`${label}:`.padEnd(17) + text);
}
