/** Bodies of `POST /v1/chat/completions` as requests for answers. */
import type { ConstraintOptions } from "../../model/constraints/constraint-grammar.ts";
import type { AnsweringApi, Asked, Served } from "../api.ts";
import { expectBiases, expectCounts, mostMessages, mostTools } from "../body-counts.ts";
import type { Counted } from "../body-counts.ts";
import { checked } from "../body.ts";
import { constraintOptions, expectSchema } from "../constraint-options.ts";
import { membersOf } from "../members.ts";
import { Problem, unsupported } from "../problem.ts";
import { ChatAnswer } from "./chat-answer.ts";
import { chatBody } from "./chat-schema.ts";
import type { ChatBody } from "./chat-schema.ts";
import { openaiFailures } from "./failures.ts";
import { chatMessages } from "./messages.ts";
import { answersOf, settingsOf } from "./settings.ts";

/** A schema for an object with any members. */
const anyObject = { type: "object" };

/** Members that ask for features that are not available, and what to use instead. */
const missing = { audio: "answers are text alone", functions: "use tools", function_call: "use tool_choice", web_search_options: "the model has no search" } as const;

const counted: readonly Counted[] = [
  { what: "messages, parts and calls of tools", most: mostMessages, arrays: ["messages", "messages[].content", "messages[].tool_calls"] },
  { what: "tools", most: mostTools, arrays: ["tools"] },
];

function read(value: unknown, served: Served): Asked {
  expectCounts(value, served, counted);
  expectBiases(value, served);
  const body = checked(chatBody(), value);
  for (const [member, why] of Object.entries(missing)) if ((body[member as keyof typeof missing] ?? null) !== null) throw unsupported(member, why);
  if (body.modalities?.some((one) => one !== "text")) throw unsupported("modalities", "answers are text alone");
  const { n, stream } = body;
  const answers = answersOf(n, served);
  const tools = toolsOf(body);
  const logprobs = body.logprobs ?? false;
  if (!logprobs && (body.top_logprobs ?? 0) > 0) throw new Problem("invalid", "top_logprobs: expected logprobs to be true", { member: "top_logprobs" });
  const thinks = body.reasoning_effort === "none" ? { enable_thinking: false } : {};
  const request = {
    prompt: { messages: chatMessages(body.messages), tools, variables: { ...thinks, ...body.chat_template_kwargs } },
    options: {
      ...settingsOf(body, body.max_completion_tokens ?? body.max_tokens, served),
      ...constraintOf(body, tools.length > 0),
      ...(logprobs ? { logprobs, topLogprobs: body.top_logprobs ?? 0 } : {}),
    },
    answers,
    severalCalls: body.parallel_tool_calls ?? true,
  };
  const answer = new ChatAnswer(served, { logprobs, usage: body.stream_options?.include_usage ?? false });
  return { request, stream: stream ?? false, whole: (answers) => answer.whole(answers), next: (event) => answer.next(event) };
}

/** The functions of a body, in the form that chat templates read. */
function toolsOf({ tools }: ChatBody): object[] {
  return (tools ?? []).map(({ type, function: fn }, i) => {
    if (type !== "function") throw unsupported(`tools[${i}].type`, `expected "function", got ${JSON.stringify(type)}`);
    if (fn === undefined) throw new Problem("invalid", `tools[${i}].function: expected a function, got nothing`, { member: `tools[${i}].function` });
    const { name, description, parameters } = fn;
    return { type, function: { name, ...(typeof description === "string" ? { description } : {}), parameters: parameters ?? { type: "object", properties: {} } } };
  });
}

function constraintOf({ response_format: format, tool_choice: choice }: ChatBody, tools: boolean): ConstraintOptions {
  const schema = schemaOf(format, format?.json_schema?.schema, "response_format", "response_format.json_schema.schema");
  if (typeof choice === "object" && choice !== null && choice.function === undefined) throw unsupported("tool_choice.type", `expected "function", got ${JSON.stringify(choice.type)}`);
  const toolChoice = typeof choice === "object" && choice !== null ? { name: choice.function!.name } : choice ?? "auto";
  if (!tools && toolChoice !== "auto" && toolChoice !== "none") throw new Problem("invalid", "tool_choice: expected tools to choose from", { member: "tool_choice" });
  return constraintOptions(schema, toolChoice, tools);
}

/**
 * The schema of an answer's form; undefined if it has none.
 *
 * @throws {Problem} for another type of form, and for a schema form without a schema.
 */
export function schemaOf(format: { readonly type: string } | null | undefined, schema: object | null | undefined, member: string, schemaMember: string): object | undefined {
  if (format === undefined || format === null || format.type === "text") return undefined;
  if (format.type === "json_object") return anyObject;
  if (format.type !== "json_schema") throw unsupported(`${member}.type`, `expected "text", "json_object" or "json_schema", got ${JSON.stringify(format.type)}`);
  return expectSchema(schema, schemaMember);
}

const memberOf = membersOf({
  schema: "response_format.json_schema.schema",
  "tools[].parameters": "tools[].function.parameters",
  "toolChoice.name": "tool_choice.function.name",
});

/** OpenAI's chat completions. */
export const chatCompletions: AnsweringApi = { path: "/v1/chat/completions", failures: openaiFailures, memberOf, read };
