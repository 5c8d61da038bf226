import type { ConstraintOptions } from "../model/constraints/constraint-grammar.ts";

/** The constraint of an answer that has tools, a form, or both: then it is calls, or a value of the form. Calls that are asked for come without it. */
export function constraintOptions(schema: object | undefined, toolChoice: NonNullable<ConstraintOptions["toolChoice"]>, tools: boolean): ConstraintOptions {
  if (tools && (toolChoice === "required" || typeof toolChoice === "object")) return { toolChoice };
  if (schema !== undefined) return tools && toolChoice === "auto" ? { schema, toolChoice } : { schema };
  return tools && toolChoice === "none" ? { toolChoice } : {};
}
