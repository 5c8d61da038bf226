/** `gated-delta chat`: a conversation with a model in a terminal. */
import { existsSync } from "node:fs";
import { Device } from "../device/device.ts";
import { GatedDeltaError } from "../errors.ts";
import { LanguageModel } from "../model/language-model.ts";
import type { SessionCache } from "../model/session/prefix-cache.ts";
import { isSessionFile } from "../model/session/session-file.ts";
import type { GenerateOptions } from "../model/session/session-options.ts";
import { Session } from "../model/session/session.ts";
import { linesOfInput } from "./chat-input.ts";
import { ChatOutput } from "./chat-output.ts";
import { UsageError, deviceOptions, parseDeviceOptions, parseOptions, type Command } from "./command.ts";
import { expectPositions, loadingOptions, parseLoading, parseSampling, samplingHelp, samplingOptions, usualContext } from "./generation-options.ts";
import { Interrupt } from "./interrupt.ts";
import { modelPath } from "./model-path.ts";

const commandHelp = `  /save FILE        write the conversation to a file: it goes on from there with nothing read
  /load FILE        go on with the conversation of a file
  /clear            begin again
  /help             these lines
  /exit             end, as Ctrl-D and Ctrl-C do
A line that ends with \\ goes on in the next one; a message that begins with / has two of them.
`;

const help = `Usage: gated-delta chat MODEL [options]
       gated-delta chat MODEL [options] < FILE

Loads a model, a Hugging Face folder, a GGUF file, or the package's own (tiny, with random weights),
and answers line by line, in one conversation.
Thoughts are dim on a terminal, and left out elsewhere. Ctrl-C ends an answer.

${commandHelp}
  --system TEXT     a message of the system before the conversation
  --no-thoughts     the model is asked not to think, where its chat template can ask for it
  --max-tokens N    at most so many tokens an answer (default: 512)
  --context N       tokens that the conversation has room for (default: 4096)
${samplingHelp}  --quiet           the answers alone

Exit status: 0 at the end of the conversation, 2 if the model could not be loaded, or the
standard input is not UTF-8.
`;

const chatOptions = {
  system: { type: "string" },
  "no-thoughts": { type: "boolean", default: false },
  ...samplingOptions,
  ...loadingOptions,
  quiet: { type: "boolean", default: false },
} as const;

/** States for the conversation, for its beginning while an answer is made, and for the cache. */
const states = 6;

/** The `chat` subcommand. */
export const chat: Command = { help, run };

async function run(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseOptions(args, { ...deviceOptions, ...chatOptions });
  const [given] = positionals;
  if (given === undefined || positionals.length > 1) throw new UsageError("name one model");
  const { context: givenContext, options } = parseSampling(values);
  const context = givenContext ?? usualContext;
  const output = new ChatOutput(values.quiet);
  using device = Device.open(parseDeviceOptions(values));
  const pages = Math.ceil(context / 64) + states;
  using model = await LanguageModel.load(device, modelPath(given), { states, pages, ...parseLoading(values) });
  expectPositions(model, givenContext);
  void [model.text.tokenizer, model.text.template]; // a model without them says so
  output.loaded(model);
  using cache = model.cache({ bytes: (states - 2) * model.stateBytes + pages * model.pageBytes });
  const variables = values["no-thoughts"] ? { enable_thinking: false } : {};
  using conversation = new Conversation(model, cache, { context, options, system: values.system, variables });
  const lines = linesOfInput();
  for (;;) {
    const message = await messageFrom((prompt) => lines.next(prompt));
    if (message === undefined) break;
    try {
      if (!(await obeyed(message, conversation, output))) break;
    } catch (error) {
      if (!(error instanceof GatedDeltaError)) throw error;
      output.problem(error.message);
    }
  }
  lines.close();
  return 0;
}

/** One message, of one or more lines; undefined at the end. */
async function messageFrom(next: (prompt: string) => Promise<string | undefined>): Promise<string | undefined> {
  let text = await next("> ");
  while (text?.endsWith("\\")) {
    const more = await next("… ");
    text = `${text.slice(0, -1)}${more === undefined ? "" : `\n${more}`}`;
    if (more === undefined) break;
  }
  return text;
}

/** Obeys a message. Returns whether the conversation continues. */
async function obeyed(message: string, conversation: Conversation, output: ChatOutput): Promise<boolean> {
  const [name = ""] = message.trim().split(/\s+/);
  const file = message.trim().slice(name.length).trim();
  if (!name.startsWith("/") || name.startsWith("//")) {
    if (message.trim() !== "") await conversation.answer(message.replace(/^\s*\/\//, "/"), output);
  } else if (["/exit", "/quit", "/help", "/clear"].includes(name) && file !== "") output.problem(`${name} takes nothing after it`);
  else if (name === "/exit" || name === "/quit") return false;
  else if (name === "/help") output.say(commandHelp);
  else if (name === "/clear") conversation.clear();
  else if ((name === "/save" || name === "/load") && file === "") output.problem(`${name} takes a file's name`);
  else if (name === "/save") output.say(`${await conversation.save(file)} tokens in ${file}\n`);
  else if (name === "/load") output.say(`${await conversation.load(file)} tokens\n`);
  else output.problem(`no command ${JSON.stringify(name)}: /help lists those that there are`);
  return true;
}

interface Settings {
  readonly context: number;
  readonly options: GenerateOptions;
  readonly system: string | undefined;
  readonly variables: Readonly<Record<string, unknown>>;
}

class Conversation implements Disposable {
  readonly #model: LanguageModel;
  readonly #cache: SessionCache;
  readonly #settings: Settings;
  #session: Session;

  constructor(model: LanguageModel, cache: SessionCache, settings: Settings) {
    this.#model = model;
    this.#cache = cache;
    this.#settings = settings;
    this.#session = this.#begin();
  }

  #begin(): Session {
    return this.#model.session({ cache: this.#cache, whenFull: "error" });
  }

  #change(session: Session): void {
    this.#session[Symbol.dispose]();
    this.#session = session;
  }

  /** Answers a message. A message whose answer fails is removed. */
  async answer(content: string, output: ChatOutput): Promise<void> {
    const { context, options, system, variables } = this.#settings;
    const before = this.#session.fork();
    using interrupt = new Interrupt();
    try {
      const session = this.#session;
      const first = session.length === 0 && system !== undefined ? [{ role: "system", content: system }] : [];
      session.chat([...first, { role: "user", content }], { specialTokens: "text", variables });
      const room = context - session.length;
      if (room < 1) throw new GatedDeltaError("state", { op: "chat", message: `the conversation has ${session.length} tokens, and room for ${context}: /clear, or a larger --context` });
      const { cachedTokens } = session.usage;
      const [prompt, known] = [session.length, session.read];
      output.begins();
      for await (const piece of session.generate({ ...options, maxTokens: Math.min(options.maxTokens ?? Infinity, room), signal: interrupt.signal })) output.piece(piece);
      output.ended({ prompt, known: known + session.usage.cachedTokens - cachedTokens });
    } catch (error) {
      output.failed();
      if (interrupt.signal.aborted && error === interrupt.signal.reason) return before[Symbol.dispose](); // the answer so far stays
      this.#change(before);
      throw error;
    }
    before[Symbol.dispose]();
  }

  clear(): void {
    this.#change(this.#begin());
  }

  /** Returns how many tokens the conversation has. */
  async save(path: string): Promise<number> {
    if (existsSync(path) && !isSessionFile(path)) {
      throw new GatedDeltaError("invalid-argument", { op: "/save", message: `${path} is there, and is not a conversation that this version has saved: name another file` });
    }
    await this.#session.save(path);
    return this.#session.length;
  }

  /** Returns how many tokens the conversation has. */
  async load(path: string): Promise<number> {
    const session = await Session.load(this.#model, path, { cache: this.#cache, whenFull: "error" });
    this.#change(session);
    return session.length;
  }

  [Symbol.dispose](): void {
    this.#session[Symbol.dispose]();
  }
}
