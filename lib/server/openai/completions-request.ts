/** Bodies of `POST /v1/completions` as requests for answers. */
import { lazily } from "../../arguments/schemas.ts";
import { isRecord } from "../../checkpoint/json.ts";
import { describe } from "../../errors.ts";
import type { AnsweringApi, Asked, Served } from "../api.ts";
import { expectBiases } from "../body-counts.ts";
import { checked } from "../body.ts";
import { membersOf } from "../members.ts";
import { Problem, unsupported } from "../problem.ts";
import { samplingMembers, stopMember } from "./chat-schema.ts";
import { CompletionsAnswer } from "./completions-answer.ts";
import { openaiFailures } from "./failures.ts";
import { tooLong } from "../too-long.ts";
import { answersOf, settingsOf } from "./settings.ts";

const completionsBody = lazily(({ z }) => {
  const { count, tokens, shape } = samplingMembers();
  const prompt = "a text, or an array of token ids";
  const token = z.int(prompt).min(0, prompt);
  return z.object({
    prompt: z.union([z.string(), z.array(token), z.array(z.string()).length(1), z.array(z.array(token)).length(1)], `${prompt}: one prompt`),
    stream: z.boolean("true or false").nullish(),
    stream_options: z.object({ include_usage: z.boolean("true or false").nullish() }, "an object of options").nullish(),
    max_tokens: tokens,
    n: z.int("an integer").nullish(),
    stop: stopMember(),
    logprobs: count(0, 20),
    ...shape,
    // These ask for features that are not available.
    echo: z.boolean("true or false").nullish(),
    suffix: z.string("a text").nullish(),
    best_of: count(1, 128),
  }, "an object");
});

/** The length of an answer to a body that gives none, as in OpenAI's API. */
const usualTokens = 16;

/** Refuses a long array before each of its elements is checked. */
function expectShort(value: unknown, { model }: Served): void {
  const { prompt } = isRecord(value) ? value : { prompt: undefined };
  const ids: unknown = Array.isArray(prompt) && prompt.length === 1 ? prompt[0] : prompt;
  if (!Array.isArray(ids) || ids.length <= model.config.maxPositions) return;
  if (typeof ids[0] === "number") throw tooLong(model);
  throw new Problem("invalid", `prompt: expected a text, or an array of token ids: one prompt, got ${describe(ids)}`, { member: "prompt" });
}

function read(value: unknown, served: Served): Asked {
  expectShort(value, served);
  expectBiases(value, served);
  const body = checked(completionsBody(), value);
  const { prompt, n, stream, logprobs } = body;
  const answers = answersOf(n, served);
  if (body.echo ?? false) throw unsupported("echo", "the prompt is not repeated");
  if ((body.suffix ?? "") !== "") throw unsupported("suffix", "write the model's own tokens for this into the prompt");
  if (typeof body.best_of === "number" && body.best_of !== answers) throw unsupported("best_of", "use n, and choose");
  const text = typeof prompt === "string" || typeof prompt[0] === "number" || prompt.length === 0 ? prompt : prompt[0]!;
  if (text.length === 0) throw new Problem("invalid", "prompt: expected a prompt that is not empty", { member: "prompt" });
  const request = {
    prompt: { text: text as string | number[] },
    options: { ...settingsOf(body, body.max_tokens ?? usualTokens, served), ...(typeof logprobs === "number" ? { logprobs: true, topLogprobs: logprobs } : {}) },
    answers,
    severalCalls: true,
  };
  const answer = new CompletionsAnswer(served, { logprobs: typeof logprobs === "number", usage: body.stream_options?.include_usage ?? false });
  return { request, stream: stream ?? false, whole: (answers) => answer.whole(answers), next: (event) => answer.next(event) };
}

/** OpenAI's completions of texts. */
export const completions: AnsweringApi = { path: "/v1/completions", failures: openaiFailures, memberOf: membersOf({ content: "prompt" }), read };
