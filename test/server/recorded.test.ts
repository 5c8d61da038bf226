/**
 * Requests that agents sent, in `recorded`: conversations of three turns with tool calls. Their members, headers and items are as
 * they came; texts, schemas and identifiers were replaced by short ones.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { ChatMessage, LanguageModel } from "../../lib/model.ts";
import { strictTemplate } from "../support/chat-templates.ts";
import { openDevice } from "../support/devices.ts";
import { eventsOf, serve } from "../support/servers.ts";
import type { TestServer } from "../support/servers.ts";
import { openReciter } from "../support/turns.ts";

const device = openDevice(2);
let model: LanguageModel;
let server: TestServer;
beforeAll(async () => {
  model = await openReciter(device, { answers: { 4: "I think.\n</think>\n\nWell." }, template: strictTemplate, tokens: "other" }, { states: 12 });
  server = serve(model);
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  device.close();
});

interface Recorded {
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly tools: readonly any[];
  readonly requests: readonly object[];
}

/** The contents of a stream, in any form. */
interface Said {
  readonly reasoning: string;
  readonly text: string;
  readonly prompt: number;
  readonly cached: number;
}

const call = (name: string, given: object) => ({ type: "function", function: { name, arguments: given } });
const textsOf = (events: readonly any[], read: (event: any) => unknown) => events.map((event) => read(event) ?? "").join("");
const looking = [call("Bash", { command: "echo lake-$((40+2))", description: "Echoes" }), call("Bash", { command: "cat nothing.txt", description: "Reads" })];
const written = "Baikal: 1642 m 🏞️\n";
const user = (content: string): ChatMessage => ({ role: "user", content });
const tool = (content: string): ChatMessage => ({ role: "tool", content });

/** How each stream is read, and the messages and functions of the last request. */
const agents: Record<string, { said(events: readonly any[]): Said; messages: readonly ChatMessage[]; functions(tool: any): object[] }> = {
  codex: {
    said: (events) => {
      const { usage, output } = events.at(-1).response;
      expect(output.map(({ type }: any) => type)).toEqual(["reasoning", "message"]);
      const delta = (of: string) => textsOf(events, ({ type, delta: text }) => (type === of ? text : ""));
      return { reasoning: delta("response.reasoning_text.delta"), text: delta("response.output_text.delta"), prompt: usage.input_tokens, cached: usage.input_tokens_details.cached_tokens };
    },
    messages: [
      { role: "system", content: "A text.\n\n<skills_instructions>\nA text.\n</skills_instructions><permissions instructions>\nA text.\n</permissions instructions>" },
      user("<environment_context>\nA text.\n</environment_context>"),
      user("Hi"),
      { role: "assistant", content: "Let me look.", reasoning_content: "I look around first.", tool_calls: [call("exec_command", { cmd: "echo lake-$((40+2)) && ls -a" })] },
      tool("A text."),
      { role: "assistant", content: "", reasoning_content: "I shall write it.", tool_calls: [call("apply_patch", { input: "*** Begin Patch\n*** Add File: lakes.txt\n+Baikal: 1642 m\n*** End Patch\n" })] },
      tool("unsupported call: apply_patch"),
    ],
    functions: ({ type, name, description, parameters, tools }) =>
      type === "namespace"
        ? tools.map((one: any, i: number) => ({ type: "function", function: { name: `${name}__${one.name}`, description: i === 0 ? `${description}\n\n${one.description}` : one.description, parameters: one.parameters } }))
        : [{ type, function: { name, description, parameters } }],
  },
  "claude-code": {
    said: (events) => {
      const { usage } = events.at(-2);
      const delta = (member: string) => textsOf(events, (event) => event.delta?.[member]);
      return { reasoning: delta("thinking"), text: delta("text"), prompt: usage.input_tokens + usage.cache_read_input_tokens, cached: usage.cache_read_input_tokens };
    },
    messages: [
      { role: "system", content: "A text.\n\nA text." },
      user("A text.\n\nWrite down how deep Baikal is."),
      user("<system-reminder>\nA text.\n</system-reminder>"),
      { role: "assistant", content: "Let me look.", reasoning_content: "I look around first.", tool_calls: looking },
      tool("lake-42"),
      tool("Exit code 1\ncat: nothing.txt: No such file or directory"),
      { role: "assistant", content: "", reasoning_content: "I shall write it.", tool_calls: [call("Write", { file_path: "/home/user/lakes.txt", content: written })] },
      tool("A text."),
    ],
    functions: ({ name, description, input_schema: parameters }) => [{ type: "function", function: { name, description, parameters } }],
  },
  opencode: {
    said: (events) => {
      const { usage } = events.at(-2);
      const delta = (member: string) => textsOf(events, (event) => event.choices?.[0]?.delta[member]);
      return { reasoning: delta("reasoning_content"), text: delta("content"), prompt: usage.prompt_tokens, cached: usage.prompt_tokens_details.cached_tokens };
    },
    messages: [
      { role: "system", content: "A text." },
      user('"Write down how deep Baikal is."'),
      { role: "assistant", content: "Let me look.", reasoning_content: "I look around first.", tool_calls: looking.map(({ function: { arguments: given } }) => call("bash", given)) },
      tool("lake-42\n"),
      tool("cat: nothing.txt: No such file or directory\n"),
      { role: "assistant", content: "", reasoning_content: "I shall write it.", tool_calls: [call("write", { filePath: "/home/user/lakes.txt", content: written })] },
      tool("Wrote file successfully."),
    ],
    functions: (one) => [one],
  },
};

test.each(Object.keys(agents))("%s: its turns are answered, and the model reads their messages and tools", async (name) => {
  const { path, headers, tools, requests } = JSON.parse(readFileSync(join(import.meta.dir, "recorded", `${name}.json`), "utf8")) as Recorded;
  const { said, messages, functions } = agents[name]!;
  const turns: Said[] = [];
  for (const request of requests) {
    const response = await server.send(path, { ...request, tools }, { headers });
    expect([response.status, response.headers.get("content-type")]).toEqual([200, "text/event-stream; charset=utf-8"]);
    turns.push(said(await eventsOf(response)));
  }
  expect(turns.map(({ reasoning, text }) => [reasoning, text])).toEqual(requests.map(() => ["I think.", "Well."]));
  // Each turn reads only its new messages.
  for (const [i, { cached }] of turns.entries()) expect(cached >= (i === 0 ? 0 : turns[i - 1]!.prompt - 16)).toBe(true);
  using session = model.session().chat([...messages], { specialTokens: "text", tools: tools.flatMap(functions) });
  expect(turns.at(-1)!.prompt).toBe(session.length);
});
