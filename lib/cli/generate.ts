/** `gated-delta generate`: a folder and a prompt in, text out as it comes. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { Device } from "../device/device.ts";
import { describe } from "../errors.ts";
import { LanguageModel } from "../model/language-model.ts";
import { memoryOf } from "../model/model-memory.ts";
import type { LoadProgress } from "../model/load-weights.ts";
import type { GenerateOptions } from "../model/session/session-options.ts";
import type { Session } from "../model/session/session.ts";
import { folderOf } from "../model/text/text-files.ts";
import { ChatTemplate } from "../model/text/chat-template.ts";
import type { Matrix } from "../layer/matrix.ts";
import { UsageError, deviceOptions, parseDeviceOptions, parseOptions, type Command } from "./command.ts";
import { machineLimits, promptWork } from "./machine-limits.ts";

const help = `Usage: gated-delta generate FOLDER PROMPT [options]

Loads the model of a Hugging Face folder and answers the prompt: as a message of a user,
written by the model's chat template where it has one. The answer goes to the standard output
as it comes; a bar while loading, and the speeds, go to the standard error.

  --raw             the prompt as it is, without the chat template
  --system TEXT     a message of the system before it
  --ids             the prompt is token ids with spaces between, and so is the answer
  --max-tokens N    at most so many tokens (default: 512)
  --context N       tokens that prompt and answer have room for (default: 4096)
  --temperature T   0 takes the most likely token (default: 0)
  --top-k K, --top-p P, --min-p P, --repetition-penalty R
                    which tokens are chosen from
  --seed S          what the choice depends on besides (default: another one each time)
  --model-sampling  what generation_config.json says, where nothing is said here
  --stop TEXT       the answer ends before this text; can be given several times
  --drafts          guess tokens from earlier ones: the same answer in fewer steps
  --dtype D         activations, keys and values: f32, f16 or bf16 (default: f32)
  --backend         where to run: auto, cpu, metal (default: auto)
  --threads         CPU threads to use (default: all)
  --quiet           neither bar nor speeds

Exit status: 0 if there is an answer, 2 if not.
`;

const ownOptions = {
  raw: { type: "boolean", default: false },
  system: { type: "string" },
  ids: { type: "boolean", default: false },
  "max-tokens": { type: "string", default: "512" },
  context: { type: "string", default: "4096" },
  temperature: { type: "string" },
  "top-k": { type: "string" },
  "top-p": { type: "string" },
  "min-p": { type: "string" },
  "repetition-penalty": { type: "string" },
  seed: { type: "string" },
  "model-sampling": { type: "boolean", default: false },
  stop: { type: "string", multiple: true },
  drafts: { type: "boolean", default: false },
  dtype: { type: "string", default: "f32" },
  quiet: { type: "boolean", default: false },
} as const;

/** The `generate` subcommand. */
export const generate: Command = { help, run };

const say = (text: string) => void process.stderr.write(text);

async function run(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseOptions(args, { ...deviceOptions, ...ownOptions });
  const [folder, prompt] = positionals;
  if (folder === undefined || prompt === undefined || positionals.length > 2) throw new UsageError("name a folder and one prompt");
  const { dtype, quiet } = values;
  if (dtype !== "f32" && dtype !== "f16" && dtype !== "bf16") throw new UsageError(`--dtype: expected f32, f16 or bf16, got ${describe(dtype)}`);
  const options = optionsOf(values);
  const context = numberOf("--context", values.context)!;
  if (!Number.isInteger(context) || context < 1) throw new UsageError(`--context: expected a number of tokens, got ${describe(values.context)}`);

  const chats = takesChats(folderOf(folder), values);

  using device = Device.open(parseDeviceOptions(values));
  let progress: LoadProgress | undefined;
  const bar = quiet ? undefined : loadingBar(process.stderr.isTTY);
  using model = await LanguageModel.load(device, folder, {
    states: values.drafts ? 2 : 1,
    pages: Math.ceil(context / 64) + (values.drafts ? 2 : 0),
    dtype,
    onProgress: (now) => {
      progress = now;
      bar?.(now);
    },
  });
  if (!quiet) say(`${process.stderr.isTTY ? "\r\x1b[K" : ""}${model.config.layers.length} layers, ${((progress?.total ?? 0) / 1e6).toFixed(0)} MB, on ${device.backend}: ${device.name}\n`);
  using session = model.session({ whenFull: "error" });
  if (values.ids) session.append(idsOf(prompt));
  else if (!chats) session.append(prompt);
  else session.chat([...(values.system === undefined ? [] : [{ role: "system", content: values.system }]), { role: "user", content: prompt }]);

  const room = context - session.length;
  if (room < 1) throw new UsageError(`--context: expected at least ${session.length + 1}, for the prompt's ${session.length} tokens and an answer, got ${context}`);
  const speeds = await stream(session, { ...options, maxTokens: Math.min(options.maxTokens ?? Infinity, room) }, values.ids);
  if (!quiet) say(await summary(device, model, progress?.total ?? 0, speeds));
  return 0;
}

/**
 * Whether the prompt is a user's message: where the folder has a chat template, unless told otherwise.
 *
 * @throws {UsageError} for what the folder has no files for, before the model is loaded.
 */
function takesChats(folder: string, { ids, raw, system }: { readonly ids: boolean; readonly raw: boolean; readonly system?: string }): boolean {
  if (ids || !existsSync(join(folder, "config.json"))) return false; // without a model, what loads one says so
  if (!existsSync(join(folder, "tokenizer.json"))) throw new UsageError(`${folder} has no tokenizer.json: give the prompt as token ids, with --ids`);
  const chats = !raw && ChatTemplate.load(folder) !== undefined;
  if (!chats && system !== undefined) throw new UsageError(`--system: ${raw ? "a raw prompt has no messages" : `${folder} has no chat template`}`);
  return chats;
}

/** What was measured. */
interface Speeds {
  readonly prompt: number;
  readonly promptSeconds: number;
  readonly answer: number;
  readonly answerSeconds: number;
  readonly steps: number;
}

/** Writes the answer as it comes. */
async function stream(session: Session, options: GenerateOptions, ids: boolean): Promise<Speeds> {
  const { model, length: prompt } = session;
  const start = performance.now();
  let first = start;
  let answer = 0;
  let firstSteps = 0;
  for await (const { token, text } of session.generate(options)) {
    if (answer++ === 0) {
      first = performance.now();
      firstSteps = model.steps;
    }
    process.stdout.write(ids ? `${answer > 1 ? " " : ""}${token}` : text);
  }
  process.stdout.write("\n");
  const end = performance.now();
  return { prompt, promptSeconds: (first - start) / 1000, answer, answerSeconds: (end - first) / 1000, steps: model.steps - firstSteps };
}

/** The speeds, and how much of the machine's limits they are. */
async function summary(device: Device, model: LanguageModel, loaded: number, speeds: Speeds): Promise<string> {
  const { prompt, promptSeconds, answer, answerSeconds, steps } = speeds;
  const { bytes, multiplyAdds } = await machineLimits(device);
  const part = (share: number) => `${Math.round(100 * share)} % of this machine's`;
  let text = `prompt  ${prompt} tokens, ${perSecond(prompt, promptSeconds)} tokens/s`;
  if (promptSeconds > 0) text += `, ${part((promptWork(model.config) * prompt) / promptSeconds / multiplyAdds)} ${(multiplyAdds / 1e9).toFixed(1)} G multiply-adds/s`;
  text += `\nanswer  ${answer} tokens, ${perSecond(answer - 1, answerSeconds)} tokens/s`;
  // A step reads every weight once, and of the embedding a few rows, unless it is the output projection as well.
  const { embedding } = memoryOf(model).weights;
  const read = loaded - (model.config.tied ? 0 : bytesOf(embedding));
  if (steps > 0 && answerSeconds > 0) text += `, ${part((read * steps) / answerSeconds / bytes)} ${(bytes / 1e9).toFixed(1)} GB/s, ${steps} steps`;
  return `${text}\n`;
}

const bytesOf = ({ weight, scales, biases }: Matrix) => [weight, scales, biases].reduce((sum, tensor) => sum + (tensor?.bytes ?? 0), 0);

function perSecond(tokens: number, seconds: number): string {
  return tokens > 0 && seconds > 0 ? (tokens / seconds).toFixed(1) : "–";
}

/** A bar that is drawn again as it grows; on what is no terminal, a dot each tenth. */
function loadingBar(terminal: boolean): (progress: LoadProgress) => void {
  const width = 30;
  let drawn = -1;
  return ({ bytes, total }) => {
    const part = total === 0 ? 1 : bytes / total;
    const now = Math.floor(part * (terminal ? width * 4 : 10));
    if (now === drawn) return;
    drawn = now;
    if (!terminal) return;
    const full = Math.round(part * width);
    say(`\r[${"=".repeat(full)}${" ".repeat(width - full)}] ${(bytes / 1e6).toFixed(0)} of ${(total / 1e6).toFixed(0)} MB`);
  };
}

function optionsOf(values: { readonly [name: string]: unknown }): GenerateOptions {
  const number = (name: string) => numberOf(`--${name}`, values[name] as string | undefined);
  const stop = values["stop"] as string[] | undefined;
  return {
    maxTokens: number("max-tokens"),
    temperature: number("temperature"),
    topK: number("top-k"),
    topP: number("top-p"),
    minP: number("min-p"),
    repetitionPenalty: number("repetition-penalty"),
    seed: number("seed"),
    drafts: values["drafts"] === true,
    ...(values["model-sampling"] === true ? { sampling: "model" as const } : {}),
    ...(stop === undefined ? {} : { stop }),
  };
}

function numberOf(option: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const number = text.trim() === "" ? NaN : Number(text);
  if (Number.isFinite(number)) return number;
  throw new UsageError(`${option}: expected a number, got ${describe(text)}`);
}

function idsOf(text: string): number[] {
  return text.split(/\s+/).filter((word) => word !== "").map((word) => {
    if (/^\d{1,10}$/.test(word)) return Number(word);
    throw new UsageError(`a prompt of token ids: expected numbers with spaces between, got ${describe(word)}`);
  });
}
