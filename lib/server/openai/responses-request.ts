/** Bodies of `POST /v1/responses` as requests for answers. The server keeps no responses: a client sends the whole conversation. */
import type { ConstraintOptions } from "../../model/constraints/constraint-grammar.ts";
import type { AnsweringApi, Asked, Served } from "../api.ts";
import { expectBiases, expectCounts, mostMessages, mostTools } from "../body-counts.ts";
import type { Counted } from "../body-counts.ts";
import { checked } from "../body.ts";
import { constraintOptions } from "../constraint-options.ts";
import { membersOf } from "../members.ts";
import { Problem, unsupported } from "../problem.ts";
import { schemaOf } from "./chat-request.ts";
import { openaiFailures } from "./failures.ts";
import { ResponsesAnswer } from "./responses-answer.ts";
import { messagesOfItems } from "./responses-items.ts";
import { responsesBody } from "./responses-schema.ts";
import type { ResponsesBody } from "./responses-schema.ts";
import { ResponsesTools } from "./responses-tools.ts";
import { settingsOf } from "./settings.ts";

/** Members that ask for features that are not available, and the reason. */
const missing = { previous_response_id: "responses are not kept: send the whole conversation", conversation: "conversations are not kept: send the whole one", prompt: "there are no stored prompts" } as const;

const counted: readonly Counted[] = [
  { what: "items and parts", most: mostMessages, arrays: ["input", "input[].content", "input[].output"] },
  { what: "tools", most: mostTools, arrays: ["tools", "tools[].tools"] },
];

function read(value: unknown, served: Served): Asked {
  expectCounts(value, served, counted);
  expectBiases(value, served);
  const body = checked(responsesBody(), value);
  for (const [member, why] of Object.entries(missing)) if ((body[member as keyof typeof missing] ?? null) !== null) throw unsupported(member, why);
  if (body.background ?? false) throw unsupported("background", "responses are not kept: stream this one");
  const include = body.include ?? [];
  const probabilities = include.includes("message.output_text.logprobs") ? "include" : (body.top_logprobs ?? 0) > 0 ? "top_logprobs" : undefined;
  if (probabilities !== undefined) throw unsupported(probabilities, "use chat completions for probabilities");
  const tools = new ResponsesTools(body);
  const messages = messagesOfItems(body);
  if (messages.length === 0) throw new Problem("invalid", "input: expected at least one item", { member: "input" });
  const request = {
    prompt: { messages, tools: tools.functions, variables: body.reasoning?.effort === "none" ? { enable_thinking: false } : {} },
    options: { ...settingsOf(body, body.max_output_tokens, served), ...constraintOf(body, tools.functions.length > 0) },
    answers: 1,
    severalCalls: body.parallel_tool_calls ?? true,
  };
  const answer = new ResponsesAnswer(served, body, tools, include.includes("reasoning.encrypted_content") || body.store === false);
  const memberIn = (argument: string): string => memberOf(argument).replace(/^tools\[(\d+)\]/, (given, place) => tools.members[Number(place)] ?? given);
  return { request, stream: body.stream ?? false, memberOf: memberIn, whole: (answers) => answer.whole(answers), next: (event) => answer.next(event), failed: (problem) => answer.failed(problem) };
}

function constraintOf({ text, tool_choice: choice }: ResponsesBody, tools: boolean): ConstraintOptions {
  const schema = schemaOf(text?.format, text?.format?.schema, "text.format", "text.format.schema");
  if (typeof choice === "object" && choice !== null && ((choice.type !== "function" && choice.type !== "custom") || choice.name === undefined)) throw unsupported("tool_choice", 'expected { type: "function" | "custom", name }');
  const toolChoice = typeof choice === "object" && choice !== null ? { name: choice.name! } : choice ?? "auto";
  if (!tools && toolChoice !== "auto" && toolChoice !== "none") throw new Problem("invalid", "tool_choice: expected tools to choose from", { member: "tool_choice" });
  return constraintOptions(schema, toolChoice, tools);
}

const memberOf = membersOf({ schema: "text.format.schema" });

/** OpenAI's responses. */
export const responses: AnsweringApi = { path: "/v1/responses", failures: openaiFailures, memberOf, read };
