/** The schemas of options of texts. */
import { lazily, options } from "../../arguments/schemas.ts";
import type { ChatOptions } from "./chat-template.ts";

const chatShape = lazily(({ z, choice, flag }) => ({
  addGenerationPrompt: flag.default(true),
  tools: z.custom<readonly object[]>((value) => Array.isArray(value), "an array of objects").optional(),
  template: z.string("a template's name"),
  variables: z.looseObject({}, "an object of values").optional(),
  specialTokens: choice("parse", "text"),
}));

/** {@link ChatOptions} */
export const chatOptions = options<ChatOptions>()(() => {
  const { template, specialTokens, ...others } = chatShape();
  return { ...others, template: template.default("default"), specialTokens: specialTokens.default("parse") };
});

/** {@link ChatOptions} of a turn: those that are not given are those of the turn before. */
export const turnOptions = options<ChatOptions>()(() => {
  const { template, specialTokens, ...others } = chatShape();
  return { ...others, template: template.optional(), specialTokens: specialTokens.optional() };
});
