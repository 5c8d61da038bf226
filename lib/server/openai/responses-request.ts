/** Bodies of `POST /v1/responses` as requests for answers. The server keeps no responses: a client sends the whole conversation. */
import type { ConstraintOptions } from "../../model/constraints/constraint-grammar.ts";
import type { AnsweringApi, Asked, Served } from "../api.ts";
import { checked } from "../body.ts";
import { Problem, unsupported } from "../problem.ts";
import { schemaOf } from "./chat-request.ts";
import { openaiFailures } from "./failures.ts";
import { ResponsesAnswer } from "./responses-answer.ts";
import { messagesOfItems } from "./responses-items.ts";
import { responsesBody } from "./responses-schema.ts";
import type { ResponsesBody } from "./responses-schema.ts";
import { settingsOf } from "./settings.ts";

/** Members that ask for what there is none of, and why. */
const missing = { previous_response_id: "responses are not kept: send the whole conversation", conversation: "conversations are not kept: send the whole one", prompt: "there are no stored prompts" } as const;

function read(value: unknown, served: Served): Asked {
  const body = checked(responsesBody(), value);
  for (const [member, why] of Object.entries(missing)) if ((body[member as keyof typeof missing] ?? null) !== null) throw unsupported(member, why);
  if (body.background ?? false) throw unsupported("background", "responses are not kept: stream this one");
  const include = body.include ?? [];
  if ((body.top_logprobs ?? 0) > 0 || include.includes("message.output_text.logprobs")) throw unsupported("top_logprobs", "use chat completions for probabilities");
  const tools = toolsOf(body);
  const messages = messagesOfItems(body);
  if (messages.length === 0) throw new Problem("invalid", "input: expected at least one item", { member: "input" });
  const request = {
    prompt: { messages, tools, variables: body.reasoning?.effort === "none" ? { enable_thinking: false } : {} },
    options: { ...settingsOf(body, body.max_output_tokens, served), ...constraintOf(body, tools.length > 0) },
    answers: 1,
    severalCalls: body.parallel_tool_calls ?? true,
  };
  const answer = new ResponsesAnswer(served, body, include.includes("reasoning.encrypted_content"));
  return { request, stream: body.stream ?? false, whole: (answers) => answer.whole(answers), next: (event) => answer.next(event), failed: (problem) => answer.failed(problem) };
}

/** The functions of a body, in the form that chat templates read. */
function toolsOf({ tools }: ResponsesBody): object[] {
  return (tools ?? []).map(({ type, name, description, parameters }, i) => {
    if (type !== "function") {
      const how = /^web_search/.test(type) ? ' (for Codex, web_search = "disabled" in its configuration)' : "";
      throw unsupported(`tools[${i}].type`, `the server runs no tools: expected "function", got ${JSON.stringify(type)}${how}`);
    }
    if (typeof name !== "string") throw new Problem("invalid", `tools[${i}].name: expected a text, got nothing`, { member: `tools[${i}].name` });
    return { type, function: { name, ...(typeof description === "string" ? { description } : {}), parameters: parameters ?? { type: "object", properties: {} } } };
  });
}

function constraintOf({ text, tool_choice: choice }: ResponsesBody, tools: boolean): ConstraintOptions {
  const schema = schemaOf(text?.format, text?.format?.schema, "text.format.type");
  if (typeof choice === "object" && choice !== null && (choice.type !== "function" || choice.name === undefined)) throw unsupported("tool_choice", 'expected { type: "function", name }');
  const toolChoice = typeof choice === "object" && choice !== null ? { name: choice.name! } : choice ?? "auto";
  if (!tools && toolChoice !== "auto" && toolChoice !== "none") throw new Problem("invalid", "tool_choice: expected tools to choose from", { member: "tool_choice" });
  if (schema === undefined) return toolChoice === "auto" || !tools ? {} : { toolChoice };
  if (tools && toolChoice !== "none") throw unsupported("text.format", 'an answer in a form has no calls: leave out tools, or pass tool_choice "none"');
  return { schema };
}

/** OpenAI's responses. */
export const responses: AnsweringApi = { path: "/v1/responses", failures: openaiFailures, read };
