/** The schema of a body of `POST /v1/messages`: the members that are read. Others are ignored. */
import { lazily } from "../../arguments/schemas.ts";
import { contentMember, samplingMembers } from "../openai/chat-schema.ts";

export const messagesBody = lazily(({ z }) => {
  const { count, within } = samplingMembers();
  const text = z.string("a text");
  const schema = z.record(z.string(), z.unknown(), "a JSON Schema");
  const message = z.object({ role: z.enum(["user", "assistant", "system"], '"user" | "assistant"'), content: contentMember() }, "a message");
  const stop = z.string("a text").min(1, "a text that is not empty").max(1000, "a text of at most 1000 characters");
  // The number of texts is checked before each text.
  const stops = z.custom<unknown[]>(Array.isArray, "an array of texts").refine((value) => !Array.isArray(value) || value.length <= 16, "at most 16 texts");
  const choice = '{ type: "auto" | "any" | "none" } | { type: "tool", name }';
  const thinking = '{ type: "enabled", budget_tokens } | { type: "adaptive" } | { type: "disabled" }';
  const format = z.object({ type: text, schema: schema.nullish() }, '{ type: "json_schema", schema }').nullish();
  return z.object({
    messages: z.array(message, "an array of messages").min(1, "at least one message"),
    system: contentMember(),
    model: text.nullish(),
    max_tokens: count(1, 2 ** 31 - 1),
    stream: z.boolean("true or false").nullish(),
    stop_sequences: stops.pipe(z.array(stop)).nullish(),
    temperature: within(0, 1),
    top_p: within(0, 1),
    top_k: count(0, 2 ** 31 - 1),
    tools: z.array(z.object({ type: text.nullish(), name: text, description: text.nullish(), input_schema: schema.nullish() }, "a tool"), "an array of tools").nullish(),
    tool_choice: z.object({ type: z.enum(["auto", "any", "none", "tool"], choice), name: text.optional(), disable_parallel_tool_use: z.boolean("true or false").nullish() }, choice).nullish(),
    thinking: z.object({ type: z.enum(["enabled", "adaptive", "disabled"], thinking), budget_tokens: count(0, 2 ** 31 - 1) }, thinking).nullish(),
    output_config: z.object({ format }, "an object of options").nullish(),
    output_format: format,
    // These ask for features that are not available.
    mcp_servers: z.array(z.unknown(), "an array of servers").nullish(),
    container: z.unknown().optional(),
    compaction: z.unknown().optional(),
    thread: z.unknown().optional(),
  }, "an object");
});

export type MessagesBody = NonNullable<ReturnType<ReturnType<typeof messagesBody>["safeParse"]>["data"]>;
