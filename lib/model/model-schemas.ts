/** The schemas of a model's options. */
import type { z } from "zod";
import { options } from "../arguments/schemas.ts";
import type { Checked } from "../arguments/schemas.ts";
import type { FloatDType } from "../tensor/dtype.ts";
import type { LoadProgress } from "./load-weights.ts";
import type { IdentityOptions, LoadModelOptions } from "./model-options.ts";

/** {@link LoadModelOptions} */
export const loadModelOptions = options<LoadModelOptions>()(({ z, callback, choice, integer }) => {
  const count = integer(1, 2 ** 31 - 1);
  const floatDType = choice("f32", "f16", "bf16");
  const states = z.strictObject({ slots: count.optional(), dtype: floatDType.optional() }, "a number or { slots?, dtype? }");
  const pages = z.strictObject(
    { count: count.optional(), tokens: integer(1, 65536).optional(), dtype: floatDType.optional() },
    "a number or { count?, tokens?, dtype? }",
  );
  /** A count, or an object of options with one. The value's type decides which of the two an error is about. */
  const numberOr = <Schema extends z.ZodType>(schema: Schema) =>
    z.unknown().transform((value, context): number | z.output<Schema> => {
      const result = typeof value === "number" ? count.safeParse(value) : schema.safeParse(value);
      if (result.success) return result.data;
      const { issues } = result.error;
      const misspelt = issues.find((issue) => issue.code === "unrecognized_keys");
      const { path, message } = misspelt ?? issues[0]!;
      context.issues.push({ code: "custom", message, path: [...path, ...(misspelt?.keys.slice(0, 1) ?? [])], input: value });
      return z.NEVER;
    });
  return {
    sessions: count.optional(),
    context: count.optional(),
    states: numberOr(states).optional(),
    pages: numberOr(pages).optional(),
    dtype: floatDType.optional(),
    prompts: choice("exact", "matrix").default("exact"),
    weights: choice("copied", "mapped").default("copied"),
    activations: choice("exact", "int8").default("exact"),
    batchTokens: integer(1, 65536).default(512),
    promptTokens: integer(1, 65536).default(64),
    swap: integer(0, Number.MAX_SAFE_INTEGER).optional(),
    draftTokens: integer(0, 65536).default(32),
    onProgress: callback<(progress: LoadProgress) => void>().optional(),
  };
});

/** {@link LoadModelOptions}, checked. */
export type CheckedLoadOptions = Checked<typeof loadModelOptions>;

/** {@link LoadModelOptions}, checked and complete: the default of `dtype` depends on the weights. */
export type CompleteLoadOptions = CheckedLoadOptions & { readonly dtype: FloatDType };

/** {@link IdentityOptions} */
export const identityOptions = options<IdentityOptions>()(({ signal }) => ({ signal }));
