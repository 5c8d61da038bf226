/** The options of commands that load a model and generate with it. */
import type { ParseArgsOptionsConfig } from "node:util";
import { describe } from "../errors.ts";
import type { LanguageModel } from "../model/language-model.ts";
import type { WeightsPlace } from "../model/model-options.ts";
import type { GenerateOptions } from "../model/session/session-options.ts";
import { generateOptions } from "../model/session/session-schemas.ts";
import type { ActivationForm } from "../native/options.ts";
import type { FloatDType } from "../tensor/dtype.ts";
import { UsageError, checkLibraryOptions, numberOf } from "./command.ts";

/** Which tokens are chosen, and how many. */
export const samplingOptions = {
  "max-tokens": { type: "string", default: "512" },
  context: { type: "string" },
  temperature: { type: "string" },
  "top-k": { type: "string" },
  "top-p": { type: "string" },
  "min-p": { type: "string" },
  "repetition-penalty": { type: "string" },
  seed: { type: "string" },
  "model-sampling": { type: "boolean", default: false },
  stop: { type: "string", multiple: true },
  drafts: { type: "boolean", default: false },
} as const satisfies ParseArgsOptionsConfig;

/** How a model is loaded. */
export const loadingOptions = {
  dtype: { type: "string" },
  weights: { type: "string", default: "copied" },
  activations: { type: "string", default: "exact" },
} as const satisfies ParseArgsOptionsConfig;

/** The lines of the loading options in the text of `--help`, and those of the device's options. */
export const loadingHelp = `  --dtype D         activations, keys and values: f32, f16 or bf16 (default: f32; on Metal
                    bf16, unless the weights are f32 or f16)
  --weights PLACE   copied into memory, or mapped: used in their files (default: copied)
  --activations A   exact, or int8: rounded to 8 bits for products with packed weights; other
                    answers in less time, on the CPU (default: exact)
  --backend         where to run: auto, cpu, metal (default: auto)
  --threads         CPU threads to use (default: 0, all)
`;

/** The lines of all options of a command that generates. */
export const samplingHelp = `  --temperature T   0 takes the most likely token (default: 0)
  --top-k K, --top-p P, --min-p P, --repetition-penalty R
                    which tokens are chosen from
  --seed S          seed of the choice (default: another one each time)
  --model-sampling  options of generation_config.json or of the GGUF file, if there are any,
                    where none are given here
  --stop TEXT       the answer ends before this text; can be given several times
  --drafts          guess tokens from earlier ones: the same answer in fewer steps
${loadingHelp}`;

/** Checked values of {@link loadingOptions}. */
export function parseLoading({ dtype, weights, activations }: {
  readonly dtype?: string | undefined;
  readonly weights: string;
  readonly activations: string;
}): {
  readonly dtype: FloatDType | undefined;
  readonly weights: WeightsPlace;
  readonly activations: ActivationForm;
} {
  if (weights !== "copied" && weights !== "mapped") throw new UsageError(`--weights: expected copied or mapped, got ${describe(weights)}`);
  if (dtype !== undefined && dtype !== "f32" && dtype !== "f16" && dtype !== "bf16") throw new UsageError(`--dtype: expected f32, f16 or bf16, got ${describe(dtype)}`);
  if (activations !== "exact" && activations !== "int8") throw new UsageError(`--activations: expected exact or int8, got ${describe(activations)}`);
  return { dtype, weights, activations };
}

/** The tokens of a conversation without `--context`. */
export const usualContext = 4096;

/** @throws {UsageError} for a `--context` of more tokens than the model has positions. */
export function expectPositions({ config: { maxPositions } }: LanguageModel, context: number | undefined): void {
  if (context !== undefined && context > maxPositions) throw new UsageError(`--context: expected at most the model's ${maxPositions} positions, got ${context}`);
}

/** Checked values of {@link samplingOptions}. */
export function parseSampling(values: { readonly [name: string]: unknown }): { readonly context: number | undefined; readonly options: GenerateOptions } {
  const number = (name: string) => (values[name] === undefined ? undefined : numberOf(`--${name}`, values[name] as string));
  const stop = values["stop"] as string[] | undefined;
  const context = number("context");
  if (context !== undefined && (!Number.isInteger(context) || context < 1)) throw new UsageError(`--context: expected a number of tokens, got ${describe(values["context"])}`);
  const options = {
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
  checkLibraryOptions(generateOptions, options);
  return { context, options };
}
