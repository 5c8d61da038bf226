/** The schemas of options of texts. */
import { options } from "../../arguments/schemas.ts";
import type { ChatOptions } from "./chat-template.ts";

/** {@link ChatOptions} */
export const chatOptions = options<ChatOptions>()(({ z, choice, flag }) => ({
  addGenerationPrompt: flag.default(true),
  tools: z.custom<readonly object[]>((value) => Array.isArray(value), "an array of objects").optional(),
  template: z.string("a template's name").default("default"),
  variables: z.looseObject({}, "an object of values").optional(),
  specialTokens: choice("parse", "text").default("parse"),
}));
