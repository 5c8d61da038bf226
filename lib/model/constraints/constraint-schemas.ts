/** The schemas of options that constrain an answer. */
import { lazily } from "../../arguments/schemas.ts";

/** {@link ConstraintOptions}, as a part of a generation's. */
export const constraintShape = lazily(({ z, choice }) => {
  const tools = '"auto" | "none" | "required" | { name }';
  const text = "a text that is not empty";
  return {
    schema: z.custom<object | boolean>((value) => typeof value === "boolean" || (typeof value === "object" && value !== null && !Array.isArray(value)), "a JSON Schema, or a schema of zod").optional(),
    grammar: z.string(text).min(1, text).max(1_000_000, "a text of at most a million characters").optional(),
    regex: z.union([z.string(), z.instanceof(RegExp)], "a regular expression").optional(),
    toolChoice: z.union([choice("auto", "none", "required"), z.strictObject({ name: z.string("the name of a tool") }, tools)], tools).optional(),
  };
});
