/** The output of `generate`: text for people, or lines of JSON for programs. */
import type { LoadProgress } from "../model/load-weights.ts";
import type { Piece } from "../model/session/session-options.ts";
import { speedsText, type Measured, type Speed, type Speeds } from "./generate-speeds.ts";
import { print } from "./command.ts";

/** A loaded model and its device. */
export interface Loaded {
  readonly layers: number;
  readonly bytes: number;
  readonly backend: string;
  readonly device: string;
}

/** How an answer ended: the reason in its last piece, or Ctrl-C. */
export type End = NonNullable<Piece["end"]> | "interrupted";

/** Takes the events of a generation, in this order. */
export interface Output {
  loading(progress: LoadProgress): void;
  loaded(what: Loaded): void;
  /** The number of tokens of the prompt that were read. */
  reading(read: number, tokens: number): void;
  piece(piece: Piece): void;
  /** Nothing more is generated. */
  ended(): void;
  /** Ends the output after an error, which is reported elsewhere. */
  failed(): void;
  /** The last call, with the speeds unless an option omits them. */
  summary(end: End, measured: Measured, speeds: Speeds | undefined): void;
}

const say = (text: string) => void process.stderr.write(text);

/** Writes the answer to standard output; the loaded model, the speeds and, on a terminal, progress bars to standard error. */
export function textOutput({ ids, quiet }: { readonly ids: boolean; readonly quiet: boolean }): Output {
  const terminal = process.stderr.isTTY && !quiet;
  const bar = terminal ? progressBar() : undefined;
  let tokens = 0;
  return {
    loading: ({ bytes, total }) => bar?.show(bytes, total, `${megabytes(bytes)} of ${megabytes(total)} MB`),
    loaded({ layers, bytes, backend, device }) {
      bar?.clear();
      if (!quiet) say(`${layers} layers, ${megabytes(bytes)} MB, on ${backend}: ${device}\n`);
    },
    reading: (read, all) => bar?.show(read, all, `${read} of ${all} tokens of the prompt`),
    piece({ token, text }) {
      bar?.clear();
      process.stdout.write(ids && tokens > 0 ? ` ${token}` : ids ? `${token}` : text);
      tokens++;
    },
    ended() {
      bar?.clear();
      process.stdout.write("\n");
    },
    failed() {
      bar?.clear();
      if (tokens > 0) process.stdout.write("\n");
    },
    summary(end, measured, speeds) {
      if (quiet) return;
      if (end === "interrupted") say("interrupted\n");
      if (speeds !== undefined) say(speedsText(measured, speeds));
    },
  };
}

/** Writes one JSON object per line to standard output, each with a `type`. */
export function jsonOutput({ quiet }: { readonly quiet: boolean }): Output {
  const line = (type: string, values: object) => print(JSON.stringify({ type, ...values }));
  let answer = "";
  let tenth = -1;
  return {
    loading({ bytes, total }) {
      const now = total === 0 ? 10 : Math.floor((10 * bytes) / total);
      if (quiet || now === tenth) return;
      tenth = now;
      line("load", { bytes, total });
    },
    loaded: (what) => quiet || line("model", what),
    reading: (read, tokens) => quiet || line("prompt", { read, tokens }),
    piece({ token, text }) {
      answer += text;
      line("piece", { token, text });
    },
    ended: () => {},
    failed: () => {},
    summary(end, measured, speeds) {
      const speed = (of: Speed | undefined) => of && { tokensPerSecond: of.tokensPerSecond, ofLimit: of.ofLimit };
      line("end", { end, text: answer, prompt: { ...measured.prompt, ...speed(speeds?.prompt) }, answer: { ...measured.answer, ...speed(speeds?.answer) } });
    },
  };
}

const megabytes = (bytes: number) => (bytes / 1e6).toFixed(0);

/** A progress bar on the terminal's last line, redrawn as it grows. On a narrow terminal its text takes precedence. */
function progressBar() {
  const widest = 30;
  let drawn = "";
  return {
    show(done: number, total: number, text: string) {
      const columns = (process.stderr.columns || Infinity) - 1; // in the last column the cursor may move to the next line
      const width = Math.min(widest, columns - text.length - "[] ".length);
      const full = Math.round((total === 0 ? 1 : done / total) * width);
      const now = width > 0 ? `[${"=".repeat(full)}${" ".repeat(width - full)}] ${text}` : text.slice(0, columns);
      if (now !== drawn) say(`\r\x1b[K${now}`);
      drawn = now;
    },
    clear() {
      if (drawn !== "") say("\r\x1b[K");
      drawn = "";
    },
  };
}
