/** Bodies of `POST /v1/messages` as requests for answers. */
import type { ConstraintOptions } from "../../model/constraints/constraint-grammar.ts";
import type { ChatPrompt } from "../answer-request.ts";
import type { Asked, AnsweringApi, ReplyingApi, Served } from "../api.ts";
import { expectCounts, mostMessages, mostTools } from "../body-counts.ts";
import type { Counted } from "../body-counts.ts";
import { checked } from "../body.ts";
import { constraintOptions, expectSchema } from "../constraint-options.ts";
import { membersOf } from "../members.ts";
import { settingsOf } from "../openai/settings.ts";
import { Problem, unsupported } from "../problem.ts";
import { tokensOf } from "../run-answer.ts";
import { anthropicFailures } from "./failures.ts";
import { MessagesAnswer } from "./messages-answer.ts";
import { messagesBody } from "./messages-schema.ts";
import type { MessagesBody } from "./messages-schema.ts";
import { messagesOf } from "./messages.ts";

/** Members that ask for something that this server does not do, and the reason. */
const missing = { container: "the server runs no tools", compaction: "the server writes no summaries: ask for one in a message" } as const;

/** These details make Anthropic's clients send the whole conversation. */
const unthreaded = { error_code: "thread_unsupported_request", unsupported: ["thread"] } as const;

const counted: readonly Counted[] = [
  { what: "messages and parts", most: mostMessages, arrays: ["messages", "system", "messages[].content", "messages[].content[].content"] },
  { what: "tools", most: mostTools, arrays: ["tools"] },
];

function bodyOf(value: unknown, served: Served): MessagesBody {
  expectCounts(value, served, counted);
  return checked(messagesBody(), value);
}

function promptOf(body: MessagesBody): ChatPrompt {
  if ((body.mcp_servers ?? []).length > 0) throw unsupported("mcp_servers", "the server runs no tools: pass them as tools");
  for (const [member, why] of Object.entries(missing)) if ((body[member as keyof typeof missing] ?? null) !== null) throw unsupported(member, why);
  if ((body.thread ?? null) !== null) throw new Problem("unsupported", "thread: conversations are not kept: send the whole one", { member: "thread", details: unthreaded });
  const thinks = body.thinking !== undefined && body.thinking !== null && body.thinking.type !== "disabled";
  return { messages: messagesOf(body), tools: toolsOf(body), variables: { enable_thinking: thinks } };
}

function read(value: unknown, served: Served): Asked {
  const body = bodyOf(value, served);
  const { max_tokens: maxTokens, thinking, tool_choice: choice } = body;
  if (typeof maxTokens !== "number") throw new Problem("invalid", "max_tokens: expected an integer, got nothing", { member: "max_tokens" });
  const prompt = promptOf(body);
  const budget = thinking?.type === "enabled" ? thinking.budget_tokens : undefined;
  const request = {
    prompt,
    options: {
      ...settingsOf({ ...body, stop: body.stop_sequences }, maxTokens, served),
      ...(typeof budget === "number" ? { maxReasoningTokens: budget } : {}),
      ...constraintOf(body, prompt.tools.length > 0),
    },
    answers: 1,
    severalCalls: !(choice?.disable_parallel_tool_use ?? false),
  };
  const answer = new MessagesAnswer(served);
  return { request, stream: body.stream ?? false, whole: (answers) => answer.whole(answers), next: (event) => answer.next(event) };
}

/** The tools of a body, in the form that chat templates read. */
function toolsOf({ tools }: MessagesBody): object[] {
  return (tools ?? []).map(({ type, name, description, input_schema: parameters }, i) => {
    if (typeof type === "string" && type !== "custom") throw unsupported(`tools[${i}].type`, `the server runs no tools, such as ${JSON.stringify(type)}: expected "custom"`);
    return { type: "function", function: { name, ...(typeof description === "string" ? { description } : {}), parameters: parameters ?? { type: "object", properties: {} } } };
  });
}

function constraintOf({ tool_choice: choice, output_config: config, output_format: older }: MessagesBody, tools: boolean): ConstraintOptions {
  const format = config?.format ?? older ?? undefined;
  const { type = "auto", name } = choice ?? {};
  if (type === "tool" && name === undefined) throw new Problem("invalid", "tool_choice.name: expected the name of a tool, got nothing", { member: "tool_choice.name" });
  if (!tools && (type === "any" || type === "tool")) throw new Problem("invalid", "tool_choice: expected tools to choose from", { member: "tool_choice" });
  if (format !== undefined && format.type !== "json_schema") throw unsupported("output_config.format.type", `expected "json_schema", got ${JSON.stringify(format.type)}`);
  const schema = format === undefined ? undefined : expectSchema(format.schema, "output_config.format.schema");
  return constraintOptions(schema, type === "tool" ? { name: name! } : type === "any" ? "required" : type, tools);
}

/** The common members of both paths. */
const common = { failures: anthropicFailures, memberOf: membersOf({ stop: "stop_sequences", schema: "output_config.format.schema", "tools[].parameters": "tools[].input_schema" }) };

/** Anthropic's messages. */
export const messages: AnsweringApi = { path: "/v1/messages", ...common, read };

/** The number of tokens of messages. */
export const countTokens: ReplyingApi = {
  path: "/v1/messages/count_tokens",
  ...common,
  reply: (body, served) => ({ input_tokens: tokensOf(served.model, promptOf(bodyOf(body, served))) }),
};
