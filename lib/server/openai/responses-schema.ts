/** The schema of a body of `POST /v1/responses`: the members that are read. Others are ignored. */
import { lazily } from "../../arguments/schemas.ts";
import { contentMember, samplingMembers } from "./chat-schema.ts";

export const responsesBody = lazily(({ z }) => {
  const { count, shape } = samplingMembers();
  const text = z.string("a text");
  const schema = z.record(z.string(), z.unknown(), "a JSON Schema");
  const item = z.object({
    type: text.nullish(),
    role: z.enum(["system", "developer", "user", "assistant"], '"system" | "developer" | "user" | "assistant"').nullish(),
    content: contentMember(),
    call_id: text.nullish(),
    name: text.nullish(),
    namespace: text.nullish(),
    arguments: text.nullish(),
    input: text.nullish(),
    output: contentMember(),
    encrypted_content: text.nullish(),
  }, "an item");
  const members = { type: text, name: text.nullish(), description: text.nullish(), parameters: schema.nullish(), format: z.unknown().optional() };
  const inner = z.array(z.object(members, "a tool"), "an array of tools").nullish();
  const choice = '"none" | "auto" | "required" | { type: "function" | "custom", name }';
  const format = '{ type: "text" } | { type: "json_object" } | { type: "json_schema", schema }';
  return z.object({
    input: z.union([text, z.array(item)], "a text, or an array of items"),
    instructions: text.nullish(),
    model: text.nullish(),
    stream: z.boolean("true or false").nullish(),
    max_output_tokens: count(1, 2 ** 31 - 1),
    ...shape,
    tools: z.array(z.object({ ...members, tools: inner }, "a tool"), "an array of tools").nullish(),
    tool_choice: z.union([z.enum(["none", "auto", "required"]), z.object({ type: text, name: text.optional() })], choice).nullish(),
    parallel_tool_calls: z.boolean("true or false").nullish(),
    reasoning: z.object({ effort: text.nullish() }, "an object of options").nullish(),
    text: z.object({ format: z.object({ type: text, schema: schema.nullish() }, format).nullish() }, "an object of options").nullish(),
    include: z.array(text, "an array of texts").nullish(),
    store: z.boolean("true or false").nullish(),
    metadata: z.record(z.string(), z.unknown(), "an object").nullish(),
    // These ask for features that are not available.
    top_logprobs: count(0, 20),
    background: z.boolean("true or false").nullish(),
    previous_response_id: z.unknown().optional(),
    conversation: z.unknown().optional(),
    prompt: z.unknown().optional(),
  }, "an object");
});

export type ResponsesBody = NonNullable<ReturnType<ReturnType<typeof responsesBody>["safeParse"]>["data"]>;
