/** The speeds of `generate`, as shares of the machine's limits. */
import type { Device } from "../device/device.ts";
import type { Matrix } from "../checkpoint/matrix.ts";
import type { LanguageModel } from "../model/language-model.ts";
import { memoryOf } from "../model/model-memory.ts";
import { machineLimits, promptWork } from "./machine-limits.ts";

/** The work of a generation, in tokens and seconds. */
export interface Measured {
  /** Tokens of the prompt, the number of them that were read, and the seconds that this took. */
  readonly prompt: { readonly tokens: number; readonly read: number; readonly seconds: number };
  /** Tokens of the answer; seconds and the model's steps after its first token. */
  readonly answer: { readonly tokens: number; readonly seconds: number; readonly steps: number };
}

/** A speed; null if there was no work. */
export interface Speed {
  readonly tokensPerSecond: number | null;
  /** The share of this machine's limit. */
  readonly ofLimit: number | null;
}

/** The speeds of a generation, with the limits: multiply-adds per second for the prompt, bytes per second for the answer. */
export interface Speeds {
  readonly prompt: Speed & { readonly multiplyAdds: number };
  readonly answer: Speed & { readonly bytes: number };
}

/** Compares the work with the limits, which take a few tenths of a second to measure. `loaded` is the bytes of all weights. */
export async function speedsOf(device: Device, model: LanguageModel, loaded: number, { prompt, answer }: Measured): Promise<Speeds> {
  const { bytes, multiplyAdds } = await machineLimits(device);
  const work = promptWork(model.config) * prompt.read;
  // A step reads every weight once, except for the embedding, of which it reads a few rows unless it is also the output projection,
  // and for experts that its token does not go through.
  const { embedding, layers } = memoryOf(model).weights;
  const { tied, experts } = model.config;
  const ofExperts = layers.flatMap(({ weights: { mlp } }) => (mlp.kind === "experts" ? [...mlp.gateUp, mlp.down] : []));
  const unread = experts === undefined ? 0 : 1 - experts.perToken / experts.count;
  const stepBytes = loaded - (tied ? 0 : bytesOf(embedding)) - unread * ofExperts.reduce((sum, matrix) => sum + bytesOf(matrix), 0);
  return {
    prompt: { tokensPerSecond: per(prompt.read, prompt.seconds), ofLimit: per(work / multiplyAdds, prompt.seconds), multiplyAdds },
    answer: { tokensPerSecond: per(answer.tokens - 1, answer.seconds), ofLimit: per((stepBytes * answer.steps) / bytes, answer.seconds), bytes },
  };
}

/** The speeds as two lines. */
export function speedsText({ prompt, answer }: Measured, speeds: Speeds): string {
  const rate = ({ tokensPerSecond }: Speed) => `${tokensPerSecond === null ? "–" : tokensPerSecond.toFixed(1)} tokens/s`;
  const share = ({ ofLimit }: Speed, limit: string) => (ofLimit === null ? "" : `, ${Math.round(100 * ofLimit)} % of this machine's ${limit}`);
  const read = prompt.read < prompt.tokens ? `${prompt.read} of ${prompt.tokens}` : `${prompt.tokens}`;
  const steps = answer.steps === 0 ? "" : `, ${answer.steps} steps`;
  return (
    `prompt  ${read} tokens, ${rate(speeds.prompt)}${share(speeds.prompt, `${(speeds.prompt.multiplyAdds / 1e9).toFixed(1)} G multiply-adds/s`)}\n` +
    `answer  ${answer.tokens} tokens, ${rate(speeds.answer)}${share(speeds.answer, `${(speeds.answer.bytes / 1e9).toFixed(1)} GB/s`)}${steps}\n`
  );
}

const per = (amount: number, seconds: number): number | null => (amount > 0 && seconds > 0 ? amount / seconds : null);

const bytesOf = ({ weight, scales, biases }: Matrix) => [weight, scales, biases].reduce((sum, tensor) => sum + (tensor?.bytes ?? 0), 0);
