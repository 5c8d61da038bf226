/** `gated-delta serve`: serves a model over HTTP. */
import { lookup } from "node:dns/promises";
import { closeSync, openSync, readSync } from "node:fs";
import { Device } from "../device/device.ts";
import { GatedDeltaError, describe } from "../errors.ts";
import { LanguageModel } from "../model/language-model.ts";
import { createHandler } from "../server/create-handler.ts";
import { within } from "../server/event-stream.ts";
import { openStore } from "../server/store/open-store.ts";
import type { RequestLog, ServerHandler } from "../server/server-options.ts";
import { UsageError, deviceOptions, errorText, parseDeviceOptions, parseOptions, print, type Command } from "./command.ts";
import { expectPositions, loadingHelp, loadingOptions, parseLoading } from "./generation-options.ts";
import { Presses } from "./interrupt.ts";
import { modelPath } from "./model-path.ts";

const help = `Usage: gated-delta serve MODEL [options]

Loads a model, a Hugging Face folder or a GGUF file, and serves it to clients of OpenAI's and
Anthropic's APIs: POST /v1/chat/completions, /v1/completions, /v1/responses, /v1/messages. The
MODEL tiny is one with random weights that comes with the package, to try clients with. A
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
  --store PLACE     keep conversations where other servers find them: a folder, redis://HOST:PORT
                    or s3://BUCKET/FOLDER (default: none)
  --secret-file F   a file with the secret of all servers with this store, at least 32 bytes
  --drafts          guess tokens from earlier ones: the same answers in fewer steps
${loadingHelp}  --no-page         no page to chat with the model at the server's address
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
  store: { type: "string" },
  "secret-file": { type: "string" },
  drafts: { type: "boolean", default: false },
  ...loadingOptions,
  "no-page": { type: "boolean", default: false },
  quiet: { type: "boolean", default: false },
} as const;

/** Milliseconds in which the last bytes of answers have to be sent. */
const lastBytes = 2000;

/** The `serve` subcommand. */
export const serve: Command = { help, run };

async function run(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseOptions(args, { ...deviceOptions, ...serveOptions });
  const [given] = positionals;
  if (given === undefined || positionals.length > 1) throw new UsageError("name one model");
  const folder = modelPath(given);
  const { key: keys, name = folder === given ? undefined : given, drafts, quiet } = values;
  const loading = parseLoading(values);
  const port = countOf("--port", values.port, 0, 65_535)!;
  const sessions = countOf("--sessions", values.sessions, 1, 100_000);
  const context = countOf("--context", values.context, 1, 2 ** 31 - 1);
  const answerTokens = countOf("--max-tokens", values["max-tokens"], 1, 2 ** 31 - 1);

  // As in a URL, or as it is.
  const host = values.host.replace(/^\[(.*)\]$/, "$1");
  const secret = secretOf(values.store, values["secret-file"]);
  if (host === "" || !(await isKnown(host))) throw new UsageError(`--host: expected a name or an address of this machine, got ${describe(values.host)}`);

  using device = Device.open(parseDeviceOptions(values));
  using model = await LanguageModel.load(device, folder, { sessions, context, ...loading });
  expectPositions(model, context);
  // Entries give way to sessions that need their memory, so they may have all of it.
  using cache = model.cache({ bytes: model.states * model.stateBytes + model.pages * model.pageBytes });
  const log = quiet ? undefined : (entry: RequestLog) => void process.stderr.write(`${lineOf(entry)}\n`);
  const store = values.store === undefined ? undefined : openStore(values.store);
  const handler = createHandler(model, { cache, store, secret, name, keys, drafts, page: !values["no-page"], limits: { answerTokens, ...(sessions === undefined ? {} : { concurrent: sessions }) }, log });
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  using _ = new Presses(["SIGTERM", "SIGINT"], (count) => (count === 1 ? first : second).resolve());
  const server = listen(handler, host, port);
  print(`${new URL("/v1", server.url).href}`);
  if (keys === undefined && !["127.0.0.1", "::1", "localhost"].includes(host)) process.stderr.write("gated-delta serve: without --key every machine that reaches this one can use the model\n");
  await first.promise;
  const drained = await Promise.race([handler.drain().then(() => true), second.promise.then(() => false)]);
  if (drained) await within(server.stop(), lastBytes);
  await server.stop(true);
  await store?.close();
  return 0;
}

function isKnown(host: string): Promise<boolean> {
  return lookup(host).then(() => true, () => false);
}

function listen(fetch: ServerHandler, hostname: string, port: number) {
  try {
    // Without development Bun shares the port with other processes, unless told otherwise.
    return Bun.serve({ hostname, port, fetch, development: false, reusePort: false });
  } catch (cause) {
    throw new GatedDeltaError("invalid-argument", { op: "listening", argument: `${hostname}:${port}`, message: errorText(cause), cause });
  }
}

/** In bytes. */
const longestSecret = 65536;

/** The text of a file, which may be a pipe or a device, up to that many bytes. */
function firstText(path: string, most: number): string {
  const [descriptor, bytes] = [openSync(path, "r"), Buffer.alloc(most)];
  try {
    let length = 0;
    for (let count = -1; count !== 0 && length < most; length += count) count = readSync(descriptor, bytes, length, most - length, null);
    return bytes.toString("utf8", 0, length);
  } finally {
    closeSync(descriptor);
  }
}

/** The secret of a store, without surrounding whitespace such as a line end. */
function secretOf(store: string | undefined, file: string | undefined): string | undefined {
  if (store === undefined && file === undefined) return undefined;
  if (store === undefined) throw new UsageError("--secret-file needs --store");
  if (file === undefined) throw new UsageError("--store needs --secret-file: the servers' secret, such as 64 digits of `openssl rand -hex 32`");
  let text: string;
  try {
    text = firstText(file, longestSecret + 1);
  } catch (cause) {
    throw new UsageError(`--secret-file: ${errorText(cause)}`);
  }
  if (Buffer.byteLength(text) > longestSecret) throw new UsageError(`--secret-file: expected a secret of at most ${longestSecret} bytes, got more`);
  text = text.trim();
  if (Buffer.byteLength(text) < 32) throw new UsageError(`--secret-file: expected a secret of at least 32 bytes, got ${Buffer.byteLength(text)}`);
  return text;
}

function countOf(option: string, text: string | undefined, least: number, most: number): number | undefined {
  if (text === undefined) return undefined;
  const count = /^\d{1,10}$/.test(text) ? Number(text) : NaN;
  if (count >= least && count <= most) return count;
  throw new UsageError(`${option}: expected a number from ${least} to ${most}, got ${describe(text)}`);
}

/** A request as a line. */
function lineOf({ id, method, path, status, milliseconds, firstMilliseconds, promptTokens, cachedTokens, restoredTokens = 0, answerTokens, problem, cause }: RequestLog): string {
  const tokens = promptTokens === undefined ? "" : ` prompt ${promptTokens} (${cachedTokens} cached${restoredTokens === 0 ? "" : `, ${restoredTokens} of them restored`}) answer ${answerTokens}`;
  const first = firstMilliseconds === undefined ? "" : ` first ${Math.round(firstMilliseconds)} ms`;
  const why = problem === undefined ? "" : ` ${JSON.stringify(problem)}`;
  const error = cause === undefined ? "" : ` ${JSON.stringify(errorText(cause))}`;
  return `${new Date().toISOString()} ${id} ${method} ${JSON.stringify(path).slice(1, -1)} ${status} ${Math.round(milliseconds)} ms${first}${tokens}${why}${error}`;
}
