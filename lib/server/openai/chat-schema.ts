/** The schema of a body of `POST /v1/chat/completions`: the members that are read. Others are ignored. */
import { lazily } from "../../arguments/schemas.ts";

/** The common settings of OpenAI's APIs. */
export const samplingMembers = lazily(({ z }) => {
  const within = (least: number, most: number) => {
    const expected = `a number in ${least}..${most}`;
    return z.number(expected).min(least, expected).max(most, expected).nullish();
  };
  const count = (least: number, most: number) => {
    const expected = `an integer in ${least}..${most}`;
    return z.int(expected).min(least, expected).max(most, expected).nullish();
  };
  const limit = "an integer in 1..2147483647, or -1 for no limit";
  const seed = "an integer";
  const bias = "an object of numbers in -100..100 by token id";
  return {
    within,
    count,
    tokens: z.int(limit).min(-1, limit).max(2 ** 31 - 1, limit).refine((n) => n !== 0, limit).nullish(),
    shape: {
      temperature: within(0, 100),
      top_p: within(0, 1),
      frequency_penalty: within(-2, 2),
      presence_penalty: within(-2, 2),
      seed: z.union([z.int(seed), z.bigint(seed)], seed).nullish(),
      logit_bias: z.record(z.string().regex(/^\d{1,10}$/, bias), z.number(bias).min(-100, bias).max(100, bias), bias).nullish(),
      // Other servers' settings that clients of open models send.
      top_k: count(-1, 2 ** 31 - 1),
      min_p: within(0, 1),
      repetition_penalty: within(0.01, 100),
      min_tokens: count(0, 2 ** 31 - 1),
    },
  };
});

/** Stop strings. */
export const stopMember = lazily(({ z }) => {
  const stop = "a text that is not empty, or an array of at most 16 of them";
  const one = z.string(stop).min(1, stop).max(1000, "a text of at most 1000 characters");
  // The number of texts is checked before each text.
  return z.union([one, z.custom<unknown[]>((value) => Array.isArray(value) && value.length <= 16, stop).pipe(z.array(one, stop))], stop).nullish();
});

/** Parts of messages; their reader decides which are supported. */
export const contentMember = lazily(({ z }) => {
  const content = "a text, or an array of parts of one";
  return z.union([z.string(content), z.array(z.looseObject({ type: z.string("the type of a part") }, "a part"), content)], content).nullish();
});

export const chatBody = lazily(({ z }) => {
  const { count, tokens, shape } = samplingMembers();
  const text = z.string("a text");
  const call = z.object({
    id: text.nullish(),
    type: text.nullish(),
    function: z.object({ name: text, arguments: z.union([z.string(), z.record(z.string(), z.unknown())], "the arguments as JSON") }, "the called function").optional(),
  }, "a call of a tool");
  const message = z.object({
    role: z.enum(["system", "developer", "user", "assistant", "tool"], '"system" | "developer" | "user" | "assistant" | "tool"'),
    content: contentMember(),
    name: text.nullish(),
    reasoning_content: text.nullish(),
    reasoning: text.nullish(),
    refusal: text.nullish(),
    tool_calls: z.array(call, "an array of calls of tools").nullish(),
    function_call: z.unknown().optional(),
    tool_call_id: text.nullish(),
    audio: z.unknown().optional(),
  }, "a message");
  const fn = z.object({ name: text, description: text.nullish(), parameters: z.record(z.string(), z.unknown(), "a JSON Schema").nullish() }, "a function");
  const choice = '"none" | "auto" | "required" | { type: "function", function: { name } }';
  const format = '{ type: "text" } | { type: "json_object" } | { type: "json_schema", json_schema: { schema } }';
  return z.object({
    messages: z.array(message, "an array of messages").min(1, "at least one message"),
    model: text.nullish(),
    stream: z.boolean("true or false").nullish(),
    stream_options: z.object({ include_usage: z.boolean("true or false").nullish() }, "an object of options").nullish(),
    max_tokens: tokens,
    max_completion_tokens: tokens,
    n: z.int("an integer").nullish(),
    stop: stopMember(),
    logprobs: z.boolean("true or false").nullish(),
    top_logprobs: count(0, 20),
    ...shape,
    tools: z.array(z.object({ type: text, function: fn.optional() }, "a tool"), "an array of tools").nullish(),
    tool_choice: z.union([z.enum(["none", "auto", "required"]), z.object({ type: text, function: z.object({ name: text }).optional() })], choice).nullish(),
    parallel_tool_calls: z.boolean("true or false").nullish(),
    response_format: z.object({ type: text, json_schema: z.object({ schema: z.record(z.string(), z.unknown(), "a JSON Schema").nullish() }, format).nullish() }, format).nullish(),
    reasoning_effort: text.nullish(),
    chat_template_kwargs: z.record(z.string(), z.unknown(), "an object of values for the chat template").nullish(),
    // These ask for features that are not available.
    modalities: z.array(text, "an array of texts").nullish(),
    audio: z.unknown().optional(),
    functions: z.unknown().optional(),
    function_call: z.unknown().optional(),
    web_search_options: z.unknown().optional(),
  }, "an object");
});

export type ChatBody = NonNullable<ReturnType<ReturnType<typeof chatBody>["safeParse"]>["data"]>;
