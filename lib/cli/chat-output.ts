/** The output of `chat`: answers on standard output, everything else on standard error. */
import type { LanguageModel } from "../model/language-model.ts";
import type { Piece } from "../model/session/session-options.ts";

const [dim, plain] = ["\x1b[2m", "\x1b[0m"];

/** Counts of an answer's prompt. */
export interface PromptCounts {
  readonly prompt: number;
  /** Tokens that were not read for this answer. */
  readonly known: number;
}

export class ChatOutput {
  readonly #quiet: boolean;
  readonly #terminal = process.stdout.isTTY === true;
  readonly #colours = this.#terminal && (process.env["NO_COLOR"] ?? "") === "";
  #dim = false;
  /** Whether the last text ended with a line end. */
  #lineEnded = true;
  #tokens = 0;
  #begun = 0;
  #first = 0;

  constructor(quiet: boolean) {
    this.#quiet = quiet;
  }

  loaded({ config, weights, device }: LanguageModel): void {
    if (this.#quiet) return;
    const megabytes = ((weights.copied + weights.mapped) / 1e6).toFixed(0);
    this.say(`${config.layers.length} layers, ${megabytes} MB, on ${device.backend}: ${device.name}; /help lists the commands\n`);
  }

  begins(): void {
    this.#tokens = 0;
    this.#begun = performance.now();
  }

  piece({ token, parts }: Piece): void {
    if (token >= 0 && this.#tokens++ === 0) this.#first = performance.now();
    for (const part of parts) {
      if (part.type === "reasoning") {
        if (this.#terminal) this.#write(part.text, true);
      } else this.#write(part.type === "text" ? part.text : part.raw, false);
    }
  }

  /** The answer is whole. */
  ended({ prompt, known }: PromptCounts): void {
    this.#close();
    if (this.#quiet || !this.#terminal) return;
    const seconds = (performance.now() - this.#first) / 1000;
    const speed = this.#tokens > 1 && seconds > 0 ? `, ${((this.#tokens - 1) / seconds).toFixed(1)} tokens/s` : "";
    const first = Math.round(this.#first - this.#begun);
    this.say(this.#dimmed(`${this.#tokens} tokens${speed}, the first after ${first} ms; ${known} of the prompt's ${prompt} were known`) + "\n");
  }

  /** The answer ended before its end. */
  failed(): void {
    this.#close();
  }

  problem(message: string): void {
    this.say(`gated-delta chat: ${message}\n`);
  }

  say(text: string): void {
    process.stderr.write(text);
  }

  #dimmed(text: string): string {
    return this.#colours ? `${dim}${text}${plain}` : text;
  }

  #write(text: string, thought: boolean): void {
    if (text === "") return;
    const change = thought !== this.#dim ? (thought ? (this.#colours ? dim : "") : `${this.#colours ? plain : ""}${this.#lineEnded ? "" : "\n"}\n`) : "";
    this.#dim = thought;
    process.stdout.write(change + text);
    this.#lineEnded = text.endsWith("\n");
  }

  #close(): void {
    const end = this.#dim && this.#colours ? plain : "";
    this.#dim = false;
    process.stdout.write(`${end}${this.#lineEnded ? "" : "\n"}`);
    this.#lineEnded = true;
  }
}
