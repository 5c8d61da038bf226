/** `gated-delta serve`: serves a model over HTTP. */

import { Device } from "../device/device.ts";
import { GatedDeltaError, describe } from "../errors.ts";
import { LanguageModel } from "../model/language-model.ts";
import { createHandler } from "../server/create-handler.ts";
import { within } from "../server/event-stream.ts";
import type { RequestLog, ServerHandler } from "../server/server-options.ts";
import { UsageError, deviceOptions, errorText, parseDeviceOptions, parseOptions, print, type Command } from "./command.ts";

const help = `Usage: gated-delta serve MODEL [options]

Loads a model, a Hugging Face folder or a GGUF file, and serves it to clients of OpenAI's and
Anthropic's APIs: POST /v1/chat/completions, /v1/completions, /v1/responses, /v1/messages. A
conversation's next request reads its new messages alone. The address goes to the standard
output, a line a request to the standard error. SIGTERM or Ctrl-C ends it once running answers
have ended; a second one at once.

  --host HOST       the address to listen on (default: 127.0.0.1, this machine alone)
  --port PORT       the port to listen on; 0 for any that is free (default: 8080)
  --key KEY         a key that clients have to send; can be given several times. Clients with
                    different keys share nothing
  --name NAME       the model's name in answers (default: that of the folder or file)
  --sessions N      how many requests are answered at the same time (default: 4, or what fits)
  --context N       tokens of each there is memory for (default: what fits, at most 32768)
  --max-tokens N    the most tokens of an answer (default: 32768)
  --drafts          guess tokens from earlier ones: the same answers in fewer steps
  --dtype D         activations, keys and values: f32, f16 or bf16 (default: f32)
  --weights PLACE   copied into memory, or mapped: used in their files (default: copied)
  --backend         where to run: auto, cpu, metal (default: auto)
  --threads         CPU threads to use (default: all)
  --quiet           no lines about requests

Exit status: 0 after a signal, 2 if it could not begin.
`;

const serveOptions = {
  host: { type: "string", default: "127.0.0.1" },
  port: { type: "string", default: "8080" },
  key: { type: "string", multiple: true },
  name: { type: "string" },
  sessions: { type: "string" },
  context: { type: "string" },
  "max-tokens": { type: "string", default: "32768" },
  drafts: { type: "boolean", default: false },
  dtype: { type: "string", default: "f32" },
  weights: { type: "string", default: "copied" },
  quiet: { type: "boolean", default: false },
} as const;

/** Milliseconds in which the last bytes of answers have to be on their way. */
const lastBytes = 2000;

/** The `serve` subcommand. */
export const serve: Command = { help, run };

async function run(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseOptions(args, { ...deviceOptions, ...serveOptions });
  const [folder] = positionals;
  if (folder === undefined || positionals.length > 1) throw new UsageError("name one model");
  const { host, key: keys, name, drafts, dtype, weights, quiet } = values;
  if (weights !== "copied" && weights !== "mapped") throw new UsageError(`--weights: expected copied or mapped, got ${describe(weights)}`);
  if (dtype !== "f32" && dtype !== "f16" && dtype !== "bf16") throw new UsageError(`--dtype: expected f32, f16 or bf16, got ${describe(dtype)}`);
  const port = countOf("--port", values.port, 0, 65_535)!;
  const sessions = countOf("--sessions", values.sessions, 1, 100_000);
  const context = countOf("--context", values.context, 1, 2 ** 31 - 1);
  const answerTokens = countOf("--max-tokens", values["max-tokens"], 1, 2 ** 31 - 1);

  using device = Device.open(parseDeviceOptions(values));
  using model = await LanguageModel.load(device, folder, { sessions, context, dtype, weights });
  // Entries give way to sessions that need their memory, so they may have all of it.
  using cache = model.cache({ bytes: model.states * model.stateBytes + model.pages * model.pageBytes });
  const log = quiet ? undefined : (entry: RequestLog) => void process.stderr.write(`${lineOf(entry)}\n`);
  const handler = createHandler(model, { cache, name, keys, drafts, limits: { answerTokens, ...(sessions === undefined ? {} : { concurrent: sessions }) }, log });
  const server = listen(handler, host, port);
  print(`${new URL("/v1", server.url).href}`);
  if (keys === undefined && !["127.0.0.1", "::1", "localhost"].includes(host)) process.stderr.write("gated-delta serve: without --key every machine that reaches this one can use the model\n");
  await signalled();
  await Promise.race([handler.drain(), signalled()]);
  await within(server.stop(), lastBytes);
  await server.stop(true);
  return 0;
}

function listen(fetch: ServerHandler, hostname: string, port: number) {
  try {
    return Bun.serve({ hostname, port, fetch });
  } catch (cause) {
    throw new GatedDeltaError("invalid-argument", { op: "listening", argument: `${hostname}:${port}`, message: errorText(cause), cause });
  }
}

/** Resolves with the next signal that asks the process to end. */
function signalled(): Promise<void> {
  return new Promise((resolve) => {
    const names = ["SIGTERM", "SIGINT"] as const;
    const take = (): void => {
      for (const name of names) process.off(name, take);
      resolve();
    };
    for (const name of names) process.on(name, take);
  });
}

function countOf(option: string, text: string | undefined, least: number, most: number): number | undefined {
  if (text === undefined) return undefined;
  const count = /^\d{1,10}$/.test(text) ? Number(text) : NaN;
  if (count >= least && count <= most) return count;
  throw new UsageError(`${option}: expected a number from ${least} to ${most}, got ${describe(text)}`);
}

/** A request as a line. */
function lineOf({ id, method, path, status, milliseconds, firstMilliseconds, promptTokens, cachedTokens, answerTokens, problem, cause }: RequestLog): string {
  const tokens = promptTokens === undefined ? "" : ` prompt ${promptTokens} (${cachedTokens} cached) answer ${answerTokens}`;
  const first = firstMilliseconds === undefined ? "" : ` first ${Math.round(firstMilliseconds)} ms`;
  const why = problem === undefined ? "" : ` ${JSON.stringify(problem)}`;
  const error = cause === undefined ? "" : ` ${JSON.stringify(errorText(cause))}`;
  return `${new Date().toISOString()} ${id} ${method} ${JSON.stringify(path).slice(1, -1)} ${status} ${Math.round(milliseconds)} ms${first}${tokens}${why}${error}`;
}
