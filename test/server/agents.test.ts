/**
 * Requests in the forms that agents send. Codex: the members of `ResponsesApiRequest` and the tools of `ToolSpec` in github.com/openai/codex
 * (codex-rs/codex-api, codex-rs/tools). Claude Code: messages of the system within a conversation, and the members of its requests.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { LanguageModel } from "../../lib/model.ts";
import { strictTemplate, thinkingTemplate } from "../support/chat-templates.ts";
import { openDevice } from "../support/devices.ts";
import { eventsOf, lakeParameters, runTool, serve } from "../support/servers.ts";
import type { TestServer } from "../support/servers.ts";
import { openReciter } from "../support/turns.ts";

const call = (name: string, value: object) => `<tool_call>\n{"name": "${name}", "arguments": ${JSON.stringify(value).replaceAll('":', '": ').replaceAll(',"', ', "')}}\n</tool_call>`;
const patch = "*** Begin Patch\n*** Add File: lakes.txt\n+Baikal: 1642 m 🏞️\n*** End Patch\n";

const device = openDevice(2);
let strict: LanguageModel;
let server: TestServer;
beforeAll(async () => {
  const answers = {
    5: `I shall write it down.\n</think>\n\n${call("apply_patch", { input: patch })}`,
    8: `Now the depth.\n</think>\n\n${call("mcp__lakes__depth", { lake: "Baikal" })}`,
    10: "That is all.\n</think>\n\nIt is 1642 metres deep.",
    6: "A reminder came.\n</think>\n\nUnderstood.",
  };
  strict = await openReciter(device, { answers, template: strictTemplate, tokens: "other" }, { states: 12 });
  server = serve(strict);
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  device.close();
});

const inText = (text: string) => [{ type: "input_text", text }];

/** A request as Codex sends it to a provider in its configuration. */
const codexRequest = (input: readonly object[]) => ({
  model: "local-model",
  instructions: "You are a coding agent running in the Codex CLI, a terminal-based coding assistant.",
  input,
  tools: [
    { type: "function", name: "exec_command", description: "Runs a command in a PTY.", strict: false, parameters: { type: "object", properties: { cmd: { type: "string" } }, required: ["cmd"], additionalProperties: false } },
    { type: "custom", name: "apply_patch", description: "Use the `apply_patch` tool to edit files.", format: { type: "grammar", syntax: "lark", definition: 'start: "*** Begin Patch"' } },
    { type: "namespace", name: "mcp__lakes__", description: "Tools in the mcp__lakes__ namespace.", tools: [{ type: "function", name: "depth", description: "The depth of a lake", strict: false, defer_loading: true, parameters: lakeParameters }] },
    { type: "namespace", name: "multi_agent_v1", description: "Tools for spawning and managing sub-agents.", tools: [{ type: "function", name: "spawn", description: "", strict: false, parameters: { type: "object", properties: {} } }] },
  ],
  tool_choice: "auto",
  parallel_tool_calls: false,
  reasoning: { effort: "medium", summary: "auto", context: null },
  store: false,
  stream: true,
  stream_options: { include_obfuscation: false },
  include: ["reasoning.encrypted_content"],
  service_tier: "auto",
  prompt_cache_key: "0198a7c5-2d1f",
  text: { verbosity: "low" },
  client_metadata: { "x-codex-installation-id": "0" },
});
const codexHeaders = { authorization: "Bearer any", originator: "codex_cli_rs", "user-agent": "codex_cli_rs/0.147.0", version: "0.147.0", session_id: "0198a7c5", "x-client-request-id": "0198a7c5", accept: "text/event-stream" };

test("Codex: free-form tools, tools of namespaces and later instructions", async () => {
  const input: any[] = [
    { type: "message", role: "developer", content: inText("<permissions instructions>Sandbox: read-only.</permissions instructions>") },
    { type: "message", role: "user", content: inText("<environment_context>\n  <cwd>/work</cwd>\n</environment_context>") },
    { type: "message", role: "user", content: inText("Write down how deep Baikal is.") },
  ];
  const seen: unknown[] = [];
  for (let turn = 0; turn < 3; turn++) {
    const response = await server.send("/v1/responses", codexRequest(input), { headers: codexHeaders });
    const events = await eventsOf(response);
    expect([response.status, events.at(-1).type]).toEqual([200, "response.completed"]);
    const { output, usage, id } = events.at(-1).response;
    expect([typeof id, usage.total_tokens]).toEqual(["string", usage.input_tokens + usage.output_tokens]);
    expect(events.filter(({ type }) => type === "response.output_item.done").map(({ item }) => item)).toEqual(output);
    seen.push(output.map(({ type, content, ...item }: any) => (type === "custom_tool_call" ? [item.name, item.input] : type === "function_call" ? [item.namespace, item.name, item.arguments] : content[0].text)));
    if (turn === 0) {
      const ofCall = events.filter(({ type }) => type.startsWith("response.custom_tool_call_input"));
      expect(ofCall.map(({ type, delta, input: whole }) => [type, delta ?? whole])).toEqual([["response.custom_tool_call_input.delta", patch], ["response.custom_tool_call_input.done", patch]]);
    } else expect(usage.input_tokens_details.cached_tokens).toBeGreaterThan(0.5 * usage.input_tokens);
    // Codex sends items back without their identifiers, and thoughts sealed.
    for (const { id: _, content, status, ...item } of output) {
      if (item.type === "message") input.push({ ...item, content: [{ type: "output_text", text: content[0].text }] });
      else input.push(item.type === "custom_tool_call" ? { ...item, status } : item);
      if (item.type === "custom_tool_call") input.push({ type: "custom_tool_call_output", call_id: item.call_id, output: inText("Success. Updated the following files:\nA lakes.txt\n") });
      if (item.type === "function_call") input.push({ type: "function_call_output", call_id: item.call_id, output: runTool(item.name, JSON.parse(item.arguments)) });
    }
    if (turn === 0) input.push({ type: "message", role: "developer", content: inText("<collaboration_mode>Default</collaboration_mode>") });
  }
  expect(seen).toEqual([
    ["I shall write it down.", ["apply_patch", patch]],
    ["Now the depth.", ["mcp__lakes__", "depth", '{"lake": "Baikal"}']],
    ["That is all.", "It is 1642 metres deep."],
  ]);
});

test("Codex: tools that the server would have to run are refused by name", async () => {
  for (const tool of [{ type: "web_search", external_web_access: false }, { type: "image_generation", output_format: "png" }, { type: "local_shell" }, { type: "tool_search", execution: "client", description: "", parameters: {} }]) {
    const { tools, ...rest } = codexRequest([{ type: "message", role: "user", content: inText("Hello") }]);
    const response = await server.send("/v1/responses", { ...rest, tools: [...tools, tool] }, { headers: codexHeaders });
    expect([response.status, ((await response.json()) as any).error]).toEqual([400, { message: expect.stringContaining(tool.type), type: "invalid_request_error", param: "tools[4].type", code: "unsupported_value" }]);
  }
});

test("Claude Code: messages of the system within a conversation, thinking as it sees fit", async () => {
  const body = {
    model: "local-model",
    system: [
      { type: "text", text: "x-anthropic-billing-header: cc_version=2.1.177.a1b; cc_entrypoint=cli; cch=00000;" },
      { type: "text", text: "You are Claude Code, Anthropic's official CLI for Claude.", cache_control: { type: "ephemeral", ttl: "1h" } },
    ],
    messages: [
      { role: "user", content: [{ type: "text", text: "Hello" }] },
      { role: "assistant", content: [{ type: "thinking", thinking: "A greeting.", signature: "gated-delta" }, { type: "text", text: "Hello!" }] },
      { role: "system", content: "The user has opened lakes.txt." },
      { role: "user", content: [{ type: "text", text: "Well?", cache_control: { type: "ephemeral" } }] },
    ],
    tools: [],
    metadata: { user_id: '{"device_id":"0","account_uuid":"","session_id":"0"}' },
    max_tokens: 32000,
    thinking: { type: "adaptive", display: "summarized" },
    output_config: { effort: "high" },
    context_management: { edits: [{ type: "clear_thinking_20251015", keep: "all" }] },
    temperature: 1,
    stream: true,
  };
  const headers = { "anthropic-version": "2023-06-01", "anthropic-beta": "claude-code-20250219,context-1m-2025-08-07,interleaved-thinking-2025-05-14,context-management-2025-06-27,effort-2025-11-24", "x-app": "cli", authorization: "Bearer any" };
  const response = await server.send("/v1/messages?beta=true", body, { headers });
  const events = await eventsOf(response);
  expect(events.filter(({ type }) => type === "content_block_delta").map(({ delta }) => delta.thinking ?? delta.text ?? "").join("")).toBe("A reminder came.Understood.");
  using session = strict.session().chat([
    { role: "system", content: body.system[1]!.text },
    { role: "user", content: "Hello" },
    { role: "assistant", content: "Hello!", reasoning_content: "A greeting." },
    { role: "user", content: "<system-reminder>\nThe user has opened lakes.txt.\n</system-reminder>" },
    { role: "user", content: "Well?" },
  ], { specialTokens: "text", variables: { enable_thinking: true } });
  expect(events.at(-2).usage.input_tokens + events.at(-2).usage.cache_read_input_tokens).toBe(session.length);
});

test("a template that writes later messages of the system gets them as they are", async () => {
  const model = await openReciter(device, { answers: { 4: "Well.\n</think>\n\nYes." }, template: thinkingTemplate, tokens: "other" });
  await using lenient = serve(model);
  const messages = [{ role: "user", content: "One" }, { role: "assistant", content: "Two" }, { role: "system", content: "Three" }];
  const { usage } = (await (await lenient.send("/v1/chat/completions", { messages, max_tokens: 1 })).json()) as any;
  using session = model.session().chat(messages, { specialTokens: "text" });
  expect(usage.prompt_tokens).toBe(session.length);
});
