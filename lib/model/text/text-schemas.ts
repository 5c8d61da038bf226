/** The schemas of text options. */
import { lazily, options } from "../../arguments/schemas.ts";
import { isRecord } from "../../checkpoint/json.ts";
import type { ChatOptions } from "./chat-template.ts";
import { mostNested, nestsWithin } from "./nesting.ts";

/** Values of a template that are not variables. */
const own = ["messages", "tools", "add_generation_prompt"];

function areVariables(value: unknown): boolean {
  return isRecord(value) && Object.entries(value).every(([name, one]) => !own.includes(name) && typeof one !== "function" && typeof one !== "symbol");
}

const nested = `values that nest at most ${mostNested} deep`;

const chatShape = lazily(({ z, choice, flag }) => ({
  addGenerationPrompt: flag.default(true),
  tools: z.custom<readonly object[]>((value) => Array.isArray(value) && value.every(isRecord), "an array of objects").refine(nestsWithin, nested).optional(),
  template: z.string("a template's name"),
  variables: z.custom<Readonly<Record<string, unknown>>>(areVariables, `an object of values by name, without ${own.join(", ")}`).refine(nestsWithin, nested).optional(),
  specialTokens: choice("parse", "text"),
}));

/** {@link ChatOptions} */
export const chatOptions = options<ChatOptions>()(() => {
  const { template, specialTokens, ...others } = chatShape();
  return { ...others, template: template.default("default"), specialTokens: specialTokens.default("parse") };
});

/** {@link ChatOptions} of a turn: missing options are those of the turn before. */
export const turnOptions = options<ChatOptions>()(() => {
  const { template, specialTokens, ...others } = chatShape();
  return { ...others, template: template.optional(), specialTokens: specialTokens.optional() };
});
