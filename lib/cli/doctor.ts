/** `gated-delta doctor`: shows Bun, the native library and its backends on this machine. */

import { availableParallelism, cpus, release } from "node:os";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import manifest from "../../package.json" with { type: "json" };
import { libraryCandidates, packageRoot, type LibraryCandidate } from "../native/candidates.ts";
import { UsageError, errorText, parseOptions, print, type Command } from "./command.ts";
import { freeMemory } from "../model/memory-plan.ts";
import { modelMemory, type ModelMemoryFindings } from "./doctor-memory.ts";
import type { Probe, ProbedDevice, ProbedWeights } from "./doctor-probe.ts";

const help = `Usage: gated-delta doctor [MODEL] [--json]

Shows Bun, the native library and how it was found, its backends, the instruction set
and the Metal device or why there is none. The library is loaded in another process, so
that a broken one is reported here instead of ending this command. With a model, a folder
or a GGUF file, it shows how many sessions, and how many tokens of them, LanguageModel.load
has memory for where its options do not say, and how many bytes of the weights it maps and
copies with weights: "mapped".

  --json  one JSON object: ok, bun, package, system, processor, isa, pages and wide (where
          they are forced), library, backend, cpu, metal, memory, weights (with a model);
          what is not there is { error }

Exit status: 0 if the library loads and a backend opens, 1 if not.
`;

/** Time limit of the probe: opening a device takes milliseconds. */
const patienceMs = 60_000;

const sources: Readonly<Record<string, string>> = {
  environment: "named by GATED_DELTA_LIBRARY",
  "platform-package": "from the platform package",
  embedded: "from inside this program",
  build: "built in this clone",
};

/** The `doctor` subcommand. */
export const doctor: Command = { help, run };

/** All findings, as `--json` prints them. */
interface Findings {
  /** Whether the library loads and a backend opens. */
  readonly ok: boolean;
  readonly bun: { readonly version: string; readonly revision: string };
  readonly package: { readonly name: string; readonly version: string; readonly path: string };
  readonly system: { readonly platform: string; readonly release: string; readonly arch: string };
  readonly processor: { readonly model: string; readonly cores: number };
  /** The value of `GATED_DELTA_ISA`. */
  readonly isa?: string;
  /** The value of `GATED_DELTA_PAGES`. */
  readonly pages?: string;
  /** The value of `GATED_DELTA_WIDE`. */
  readonly wide?: string;
  readonly library:
    | { readonly path: string; readonly source: string; readonly version: string; readonly abiVersion: number }
    | { readonly error: string; readonly tried: readonly LibraryCandidate[] };
  /** The backend that `Device.open()` chooses. */
  readonly backend?: string;
  readonly cpu?: ProbedDevice;
  readonly metal?: ProbedDevice;
  /** Free bytes, and the bytes that a folder's model takes. */
  readonly memory: { readonly free: number } | ModelMemoryFindings;
  /** With a model: bytes of weights that a mapped load maps and copies. */
  readonly weights?: ProbedWeights;
}

async function run(args: readonly string[]): Promise<number> {
  const { values, positionals: [folder, ...more] } = parseOptions(args, { json: { type: "boolean", default: false } });
  if (more.length > 0) throw new UsageError("doctor takes at most one folder");
  const findings = find(folder === undefined ? { free: freeMemory() } : await modelMemory(folder), folder);
  if (values.json) print(JSON.stringify(findings));
  else show(findings);
  return findings.ok ? 0 : 1;
}

function find(memory: Findings["memory"], folder: string | undefined): Findings {
  const { GATED_DELTA_ISA: isa, GATED_DELTA_PAGES: pages, GATED_DELTA_WIDE: wide } = process.env;
  const { platform, arch } = process;
  const here = {
    bun: { version: Bun.version, revision: Bun.revision },
    package: { name: manifest.name, version: manifest.version, path: packageRoot },
    system: { platform, release: release(), arch },
    processor: { model: cpus()[0]?.model.trim() || "unknown", cores: availableParallelism() },
    ...(isa === undefined ? {} : { isa }),
    ...(pages === undefined ? {} : { pages }),
    ...(wide === undefined ? {} : { wide }),
    memory,
  };
  const result = probeInChild(folder);
  if ("error" in result) return { ok: false, ...here, library: { error: result.error, tried: libraryCandidates() } };
  const { auto: backend, cpu, metal, weights, ...library } = result;
  return { ok: !backend.startsWith("none") && !("error" in cpu), ...here, library, backend, cpu, metal, ...(weights && { weights }) };
}

/** Prints the findings: a line for each field of {@link Findings}. */
function show({ bun, package: installed, system, processor, isa, pages, wide, memory, library, backend, cpu, metal, weights }: Findings): void {
  line("Bun", `${bun.version} (${bun.revision.slice(0, 9)})`);
  line("package", `${installed.name} ${installed.version} in ${installed.path}`);
  line("system", `${system.platform} ${system.release} ${system.arch}`);
  line("processor", `${processor.model}, ${processor.cores} cores for this process`);
  line("memory", memoryText(memory));
  if (isa !== undefined) line("GATED_DELTA_ISA", isa);
  if (pages !== undefined) line("GATED_DELTA_PAGES", pages);
  if (wide !== undefined) line("GATED_DELTA_WIDE", wide);
  if ("error" in library) {
    for (const { source, path, problem } of library.tried) line("looked at", `${path} (${sources[source] ?? source}): ${problem ?? "there"}`);
    line("library", `FAILED: ${library.error}`);
    return;
  }
  line("library", `${library.path}, ${sources[library.source] ?? library.source}`);
  line("version", `${library.version}, ABI ${library.abiVersion}`);
  if (backend !== undefined) line("backend", backend);
  if (cpu !== undefined) line("cpu", deviceText(cpu));
  if (metal !== undefined) line("metal", deviceText(metal));
  if (weights !== undefined) line("mapped weights", weightsText(weights));
}

/** Runs the probe as a child process and returns its findings, or how it ended without any. */
function probeInChild(folder: string | undefined): Probe {
  const script = fileURLToPath(new URL(`doctor-probe${extname(import.meta.path)}`, import.meta.url));
  let child: Bun.SyncSubprocess<"pipe", "pipe">;
  try {
    // Without DO_NOT_TRACK, Bun uploads a report of the crash to its own server.
    const env = { ...process.env, DO_NOT_TRACK: "1" };
    child = Bun.spawnSync([process.execPath, "--no-env-file", "--config=/dev/null", "--tsconfig-override=/dev/null", script, ...(folder === undefined ? [] : [folder])], { stdout: "pipe", stderr: "pipe", timeout: patienceMs, env });
  } catch (error) {
    return { error: `the process that loads it could not be started: ${errorText(error)}` };
  }
  try {
    const last = child.stdout.toString().trim().split("\n").at(-1) ?? "";
    if (child.exitCode === 0) return JSON.parse(last) as Probe;
  } catch {
    // No findings: the error below says how the process ended.
  }
  const how = child.exitedDueToTimeout ? `gave no answer within ${patienceMs / 1000} s`
    : child.signalCode ? `was ended by ${child.signalCode}`
    : `exited with status ${child.exitCode}`;
  const errors = child.stderr.toString().trim();
  // Bun's report of a crash is long; its line with the address is the useful one.
  const text = child.signalCode ? /^panic.*$/m.exec(errors)?.[0] : errors.slice(-2000);
  return { error: `the process that loaded it ${how}${text ? `: ${text}` : ""}` };
}

const size = (bytes: number): string => (bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(1)} GB`);

function weightsText(weights: ProbedWeights): string {
  if ("error" in weights) return `FAILED: ${weights.error}`;
  const { mapped, copied } = weights;
  return `${size(mapped)} in place, ${size(copied)} copied (${((100 * mapped) / Math.max(1, mapped + copied)).toFixed(1)} % in place)`;
}

function memoryText(memory: Findings["memory"]): string {
  if (!("folder" in memory)) return `${size(memory.free)} free; a model's sessions take up to half of what its weights leave`;
  const { free, weights, states, stateBytes, pages, pageBytes, pageTokens } = memory;
  const kept = `${states} states (${size(stateBytes)}) and ${pages} pages, for ${pages * pageTokens} tokens (${size(pageBytes)})`;
  return `weights of ${size(weights)} leave ${size(free)}; by default ${kept}`;
}

function deviceText(device: ProbedDevice): string {
  if ("error" in device) return device.error;
  const details = [device.name];
  if (device.emulated) details.push("emulated: no Apple GPU took part");
  if (device.isa !== "") details.push(device.isa);
  if (device.threads > 0) details.push(`${device.threads} ${device.threads === 1 ? "thread" : "threads"}`);
  return details.join(", ");
}

function line(label: string, text: string): void {
  print(`${label}: `.padEnd(17) + text);
}
