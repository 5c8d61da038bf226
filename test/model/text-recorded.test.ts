/** Chat templates as transformers renders them: its texts for random conversations and expressions, recorded in chat-recorded.json. */
import { afterAll, describe, expect, setSystemTime, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ChatTemplate } from "../../lib/model/text/chat-template.ts";
import type { ChatMessage } from "../../lib/model/text/chat-template.ts";
import recorded from "./chat-recorded.json";

const folder = mkdtempSync(join(tmpdir(), "gated-delta-recorded-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const templates = Object.entries({ ...recorded.templates }).map(([name, template]) => ({ name, template }));
writeFileSync(join(folder, "tokenizer_config.json"), JSON.stringify({ chat_template: templates, bos_token: "<s>", eos_token: { content: "</s>" } }));
const template = ChatTemplate.load(folder)!;

describe("recorded from transformers", () => {
  test("conversations: null, boolean and number arguments, tool calls, thoughts, parts, JSON", () => {
    expect(recorded.conversations.length).toBe(60);
    for (const { template: name, messages, tools, addGenerationPrompt, variables, expected } of recorded.conversations as Recorded[]) {
      const options = { template: name, tools, addGenerationPrompt, variables };
      expect(template.render(messages, options)).toBe(expected);
      const pieces = template.pieces(messages, { ...options, specialTokens: "text" });
      expect(pieces.map(({ text }) => text).join("")).toBe(expected);
    }
  });

  test("expressions: methods of strings, filters, tests, operators, numbers", () => {
    const variables = { ...recorded.values, big: BigInt(recorded.big) };
    const differ = recorded.expressions.filter(([expression, expected]) => rendered(`{{ ${expression} }}`, variables) !== expected);
    expect(differ).toEqual([]);
    expect(recorded.expressions.length).toBeGreaterThan(200);
  });
});

interface Recorded {
  readonly template: string;
  readonly messages: readonly ChatMessage[];
  readonly tools?: readonly object[];
  readonly addGenerationPrompt: boolean;
  readonly variables: Record<string, unknown>;
  readonly expected: string;
}

function rendered(source: string, variables: Record<string, unknown> = {}): string {
  const inner = mkdtempSync(join(folder, "one-"));
  writeFileSync(join(inner, "chat_template.jinja"), source);
  return ChatTemplate.load(inner)!.render([], { variables });
}

describe("values as Python writes them", () => {
  test.each([
    [0.1, "0.1"], [1e-5, "1e-05"], [1e-4, "0.0001"], [1.5e16, "15000000000000000"], [1e21, "1e+21"], [1.5e300, "1.5e+300"], [5e-324, "5e-324"],
    [12345678901234567890n, "12345678901234567890"], [-(2n ** 80n), String(-(2n ** 80n))], [null, "None"], [true, "True"],
  ])("%p", (value, expected) => {
    const messages = [{ role: "assistant", content: "", tool_calls: [{ name: "f", arguments: { x: value } }] }];
    const inner = mkdtempSync(join(folder, "one-"));
    writeFileSync(join(inner, "chat_template.jinja"), "{{ messages[0].tool_calls[0].arguments.x }}|{{ messages[0].tool_calls[0].arguments|tojson }}");
    const json = { None: "null", True: "true" }[expected] ?? expected;
    expect(ChatTemplate.load(inner)!.render(messages)).toBe(`${expected}|{"x": ${json}}`);
  });

  test("floats of templates, and line ends of other systems", () => {
    expect(rendered("{{ 1.0 }} {{ 2 / 2 }} {{ 7 // 2 }} {{ -7 % 3 }} {{ [1.0, none] }}")).toBe("1.0 1.0 3 2 [1.0, None]");
    expect(rendered("a\r\n{% if true %}\r\nb\r{% endif %}\n")).toBe("a\nb\n");
  });

  test("a macro sees the variables where it is defined; a loop's are gone after each round", () => {
    expect(rendered("{% macro f() %}{{ x }}{% endmacro %}{% for x in [1] %}[{{ f() }}]{% endfor %}")).toBe("[]");
    expect(rendered("{% for i in [1, 2] %}{{ y }}{% set y = i %}{% endfor %}")).toBe("");
    expect(rendered("{% macro f() %}<{{ caller() }}>{% endmacro %}{% call f() %}in{% endcall %}")).toBe("<in>");
    expect(rendered("{% for a, b in {'k': 1}.items() %}{{ a }}{{ b }}{% break %}{% endfor %}{% for i in [1, 2] if i > 5 %}{% else %}none{% endfor %}")).toBe("k1none");
  });

  test("dates in the C locale", () => {
    setSystemTime(new Date(2026, 6, 4, 15, 8, 9));
    using _ = { [Symbol.dispose]: () => setSystemTime() };
    expect(rendered("{{ strftime_now('%Y-%m-%d %d %B %b %y %A %a %H:%M:%S %I %p %-d %e %F %T %% %q') }}")).toBe("2026-07-04 04 July Jul 26 Saturday Sat 15:08:09 03 PM 4  4 2026-07-04 15:08:09 % %q");
  });
});
