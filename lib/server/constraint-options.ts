import type { ConstraintOptions } from "../model/constraints/constraint-grammar.ts";
import { Problem } from "./problem.ts";

/**
 * The schema of a form that requires one.
 *
 * @throws {Problem} if there is no schema.
 */
export function expectSchema(schema: object | null | undefined, member: string): object {
  if (schema === undefined || schema === null) throw new Problem("invalid", `${member}: expected a JSON Schema, got nothing`, { member });
  return schema;
}

/** The constraint of an answer with tools, a form, or both, which is calls or a value of the form. Required calls come without the form. */
export function constraintOptions(schema: object | undefined, toolChoice: NonNullable<ConstraintOptions["toolChoice"]>, tools: boolean): ConstraintOptions {
  if (tools && (toolChoice === "required" || typeof toolChoice === "object")) return { toolChoice };
  if (schema !== undefined) return tools && toolChoice === "auto" ? { schema, toolChoice } : { schema };
  return tools && toolChoice === "none" ? { toolChoice } : {};
}
