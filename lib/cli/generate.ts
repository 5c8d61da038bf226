/** `gated-delta generate`: loads a model, reads a prompt and prints the answer as it is generated. */

import { existsSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { Device } from "../device/device.ts";
import { describe } from "../errors.ts";
import type { ActivationForm } from "../native/options.ts";
import type { FloatDType } from "../tensor/dtype.ts";
import type { WeightsPlace } from "../model/model-options.ts";
import { LanguageModel } from "../model/language-model.ts";
import type { GenerateOptions } from "../model/session/session-options.ts";
import type { Session } from "../model/session/session.ts";
import { findGguf } from "../checkpoint/gguf/find-gguf.ts";
import { hasTokenizer } from "../model/text/tokenizer.ts";
import { folderOf } from "../model/text/text-files.ts";
import { ChatTemplate } from "../model/text/chat-template.ts";
import { UsageError, deviceOptions, parseDeviceOptions, parseOptions, type Command } from "./command.ts";
import { jsonOutput, textOutput, type End, type Output } from "./generate-output.ts";
import { speedsOf, type Measured } from "./generate-speeds.ts";
import { expectPositions, loadingOptions, parseLoading, parseSampling, samplingHelp, samplingOptions, usualContext } from "./generation-options.ts";
import { Interrupt } from "./interrupt.ts";
import { modelPath } from "./model-path.ts";
import { promptOf } from "./prompt.ts";

const help = `Usage: gated-delta generate MODEL PROMPT [options]
       gated-delta generate MODEL - [options] < FILE
       COMMAND | gated-delta generate MODEL [options]

Loads a model, a Hugging Face folder, a GGUF file, or the package's own (tiny, with random
weights), and answers the prompt: as a message of a user, written by the model's chat template
where it has one. With -, or from a pipe, the prompt is the standard input, less the end of its
last line. A prompt that begins with a dash goes after --. The answer goes to the standard
output as it comes; the loaded model and the speeds go to the standard error, with a bar on a
terminal. Ctrl-C ends the answer.

  --raw             the prompt as it is, without the chat template
  --system TEXT     a message of the system before it
  --ids             the prompt is token ids with spaces between, and so is the answer
  --max-tokens N    at most so many tokens (default: 512)
  --context N       tokens that prompt and answer have room for (default: 4096)
${samplingHelp}  --json            one JSON object a line on the standard output, by its "type":
                      load    bytes, total
                      model   layers, bytes, backend, device
                      prompt  read, tokens: how far the prompt is
                      piece   token, text
                      end     end ("token", "string", "length" or "interrupted"), text,
                              prompt { tokens, read, seconds, tokensPerSecond, ofLimit },
                              answer { tokens, seconds, steps, tokensPerSecond, ofLimit }
                    ofLimit is the share of this machine's limit; null: nothing was done
  --quiet           the answer alone; with --json the lines piece and end, without speeds

Exit status: 0 if there is an answer, 130 if Ctrl-C ended it, 2 if there is none.
`;

const generateOptions = {
  raw: { type: "boolean", default: false },
  system: { type: "string" },
  ids: { type: "boolean", default: false },
  ...samplingOptions,
  ...loadingOptions,
  json: { type: "boolean", default: false },
  quiet: { type: "boolean", default: false },
} as const;

/** The `generate` subcommand. */
export const generate: Command = { help, run };

async function run(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseOptions(args, { ...deviceOptions, ...generateOptions });
  const [given, text] = positionals;
  if (given === undefined || positionals.length > 2) throw new UsageError("name a model and one prompt");
  const folder = modelPath(given);
  const loading = parseLoading(values);
  const sampling = parseSampling(values);
  const device = parseDeviceOptions(values);
  const prompt = await promptOf(text);
  const ids = values.ids ? idsOf(prompt) : undefined;
  const chats = takesChats(folderOf(folder), values);
  const output = values.json ? jsonOutput(values) : textOutput(values);
  try {
    return await generateFrom(folder, ids ?? prompt, { ...values, ...loading, ...sampling, chats, device }, output);
  } catch (error) {
    output.failed();
    throw error;
  }
}

/** The options of the command line. */
interface Settings {
  readonly device: ReturnType<typeof parseDeviceOptions>;
  readonly dtype: FloatDType | undefined;
  readonly weights: WeightsPlace;
  readonly activations: ActivationForm;
  readonly context: number | undefined;
  readonly chats: boolean;
  readonly system?: string;
  readonly drafts: boolean;
  readonly quiet: boolean;
  readonly options: GenerateOptions;
}

async function generateFrom(folder: string, prompt: string | readonly number[], settings: Settings, output: Output): Promise<number> {
  const { dtype, weights, activations, context = usualContext, chats, system, drafts, quiet, options } = settings;
  using device = Device.open(settings.device);
  using model = await LanguageModel.load(device, folder, {
    states: drafts ? 2 : 1,
    pages: Math.ceil(context / 64) + (drafts ? 2 : 0),
    dtype,
    weights,
    activations,
    onProgress: (now) => output.loading(now),
  });
  expectPositions(model, settings.context);
  const bytes = model.weights.copied + model.weights.mapped;
  output.loaded({ layers: model.config.layers.length, bytes, backend: device.backend, device: device.name });
  using session = model.session({ whenFull: "error" });
  if (!chats) session.append(prompt);
  else session.chat([...(system === undefined ? [] : [{ role: "system", content: system }]), { role: "user", content: prompt }], { specialTokens: "text" });

  const room = context - session.length;
  if (room < 1) throw new UsageError(`--context: expected at least ${session.length + 1}, for the prompt's ${session.length} tokens and an answer, got ${context}`);
  using interrupt = new Interrupt();
  const { end, ...measured } = await answer(session, { ...options, maxTokens: Math.min(options.maxTokens ?? Infinity, room), signal: interrupt.signal }, output);
  output.summary(end, measured, quiet ? undefined : await speedsOf(device, model, bytes, measured));
  return end === "interrupted" ? 128 + constants.signals.SIGINT : 0;
}

/**
 * Whether the prompt is a user's message: if the folder has a chat template, unless options say otherwise.
 *
 * @throws {UsageError} for options that need a file missing in the folder, before the model is loaded.
 */
function takesChats(folder: string, { ids, raw, system }: { readonly ids: boolean; readonly raw: boolean; readonly system?: string }): boolean {
  const gguf = findGguf(folder);
  if (ids && system !== undefined) throw new UsageError("--system: a prompt of token ids has no messages");
  if (ids || (gguf === undefined && !existsSync(join(folder, "config.json")))) return false; // loading reports the missing model
  if (!hasTokenizer(folder)) throw new UsageError(`${folder} has no ${gguf === undefined ? "tokenizer.json" : "tokenizer"}: give the prompt as token ids, with --ids`);
  const chats = !raw && ChatTemplate.load(folder) !== undefined;
  if (!chats && system !== undefined) throw new UsageError(`--system: ${raw ? "a raw prompt has no messages" : `${folder} has no chat template`}`);
  return chats;
}

/** Interval between updates of the prompt's progress, in milliseconds. */
const lookEvery = 100;

/** Passes the answer to `output` as it is generated. */
async function answer(session: Session, options: GenerateOptions & { readonly signal: AbortSignal }, output: Output): Promise<Measured & { readonly end: End }> {
  const { model, length: prompt } = session;
  const start = performance.now();
  let first: number | undefined;
  let firstSteps = 0;
  let tokens = 0;
  let end: End = "interrupted";
  let read = 0;
  const look = () => {
    if (session.read === read) return;
    read = session.read;
    output.reading(read, prompt);
  };
  const timer = setInterval(look, lookEvery);
  try {
    for await (const piece of session.generate(options)) {
      if (piece.end !== undefined) end = piece.end;
      if (piece.token < 0) break; // an answer of no tokens
      if (tokens++ === 0) {
        clearInterval(timer);
        first = performance.now();
        firstSteps = model.steps;
        look();
      }
      output.piece(piece);
    }
  } catch (error) {
    if (!options.signal.aborted || error !== options.signal.reason) throw error;
    if (first === undefined) look();
  } finally {
    clearInterval(timer);
  }
  output.ended();
  const now = performance.now();
  const begun = first ?? now;
  return {
    end,
    prompt: { tokens: prompt, read, seconds: (begun - start) / 1000 },
    answer: { tokens, seconds: (now - begun) / 1000, steps: first === undefined ? 0 : model.steps - firstSteps },
  };
}

function idsOf(text: string): number[] {
  const expected = "a prompt of token ids: expected numbers with spaces between";
  if (text.trim() === "") throw new UsageError(`${expected}, got none`);
  return text.split(/\s+/).filter((word) => word !== "").map((word) => {
    if (/^\d{1,10}$/.test(word)) return Number(word);
    throw new UsageError(`${expected}, got ${describe(word)}`);
  });
}
