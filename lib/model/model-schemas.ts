/** The zod schemas of a model's options. Loaded when a model is: importing zod takes 13 ms. */
import { z } from "zod";
import { choice, integer, options } from "../arguments/schema-parts.ts";
import type { LoadProgress } from "./load-weights.ts";
import type { LoadModelOptions } from "./model-options.ts";

const count = integer(1, 2 ** 31 - 1);
const floatDType = choice("f32", "f16", "bf16");

const states = z.strictObject({ slots: count, dtype: floatDType.optional() }, "a number or { slots, dtype? }");
const pages = z.strictObject(
  { count, tokens: integer(1, 65536).optional(), dtype: floatDType.optional() },
  "a number or { count, tokens?, dtype? }",
);

/** {@link LoadModelOptions} */
export const loadModelOptions = options<LoadModelOptions>()({
  states: numberOr(states),
  pages: numberOr(pages),
  dtype: floatDType.default("f32"),
  batchTokens: integer(1, 65536).default(512),
  promptTokens: integer(1, 65536).default(64),
  draftTokens: integer(0, 65536).default(32),
  onProgress: z.custom<(progress: LoadProgress) => void>((value) => typeof value === "function", "a function").optional(),
});

/** A count, or an object of options with one. What came decides which of the two an error is about. */
function numberOr<Schema extends z.ZodType>(schema: Schema) {
  return z.unknown().transform((value, context): number | z.output<Schema> => {
    const result = typeof value === "number" ? count.safeParse(value) : schema.safeParse(value);
    if (result.success) return result.data;
    const { path, message } = result.error.issues[0]!;
    context.issues.push({ code: "custom", message, path: [...path], input: value });
    return z.NEVER;
  });
}
