/**
 * Chat templates as transformers renders them, by digests of random conversations that oracle.py recorded, and answers that a template
 * renders as they were. The folder's own templates are tested here; templates/SOURCES.md lists the released ones that are recorded.
 * The long run is templates/long.ts.
 */
import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { messageOf } from "../lib/model/text/formats/answer-message.ts";
import { AnswerParser } from "../lib/model/text/formats/answer-parser.ts";
import { formatOf, opensReasoning } from "../lib/model/text/formats/known-formats.ts";
import type { ChatMessage } from "../lib/model/text/chat-template.ts";
import { Random } from "./support/random.ts";
import { conversationOf } from "./templates/conversations.ts";
import { block, count, digestOf, hash, loadTemplate, rendered, seed } from "./templates/render.ts";
import { makeAnswer } from "./templates/answers.ts";
import recorded from "./templates/recorded.json";

const folder = join(import.meta.dir, "templates");
const names = readdirSync(folder).sort().filter((name) => name.endsWith(".jinja")).map((name) => name.replace(".jinja", ""));
const known = new Map(Object.values(recorded.templates).map((one) => [one.sha256, one]));
const sourceOf = (name: string): string => readFileSync(join(folder, `${name}.jinja`), "utf8");

describe.each(names)("%s", (name) => {
  const { template, sha256 } = loadTemplate(join(folder, `${name}.jinja`));

  test("every tenth block of conversations is as recorded", () => {
    const { blocks } = known.get(sha256)!;
    expect(blocks.length).toBe(count / block);
    for (let i = 0; i < blocks.length; i += 10) expect([i, digestOf(template, i * block)]).toEqual([i, blocks[i]!]);
  });

  test("the digests tell conversations apart", () => {
    const { blocks, refused } = known.get(sha256)!;
    expect(new Set(blocks).size).toBe(blocks.length);
    expect(count - refused).toBeGreaterThanOrEqual(2000);
    const { messages, options } = conversationOf(seed, 0);
    const one = rendered(template, { messages, options });
    expect(hash(rendered(template, { messages: [...messages, { role: "user", content: "more" }], options }))).not.toBe(hash(one));
  });

  test("an answer that was read is rendered back as it was", () => {
    const format = template.format();
    const thinks = format.reasoning !== undefined;
    for (let n = 0; n < 300; n++) {
      const random = new Random(n);
      const { messages, answer, tools, variables } = makeAnswer(random, thinks);
      const prompt = template.render(messages, { tools, variables });
      const whole = template.render([...messages, answer], { tools, variables, addGenerationPrompt: false });
      expect(whole.startsWith(prompt)).toBe(true);
      const written = whole.slice(prompt.length).replace(/(?:<\|im_end\|>\n|<\/s>)$/, "");
      const parser = new AnswerParser(format, { tools, reasoning: opensReasoning(format, prompt) ? "open" : "closed" });
      const message = messageOf([...parser.push(written), ...parser.end()], thinks);
      expect([n, template.render([...messages, message as ChatMessage], { tools, variables, addGenerationPrompt: false })]).toEqual([n, whole]);
      expect((message.tool_calls ?? []).length).toBe((answer["tool_calls"] as readonly object[] | undefined)?.length ?? 0);
    }
  });
});

describe("the format of a template", () => {
  test("is found by its text", () => {
    expect(names.filter((name) => name.startsWith("own-")).map((name) => [name, formatOf(sourceOf(name)).name])).toEqual([
      ["own-json", "qwen3"], ["own-python", "olmo"], ["own-xml", "qwen3.5"],
    ]);
    expect(formatOf("{{ messages }}").name).toBe("plain");
    expect(formatOf("<think>").reasoning).toEqual({ begin: "<think>", end: "</think>" });
    expect(formatOf("<tool_call> <function= <parameter=").name).toBe("qwen3-coder");
    expect(Object.isFrozen(formatOf("<think>")) && Object.isFrozen(formatOf("<think>").blank)).toBe(true);
  });

  test("says where a prompt ends inside thoughts", () => {
    const format = formatOf(sourceOf("own-xml"));
    const begin = "<|im_start|>user\nWhat is <think>?<|im_end|>\n<|im_start|>assistant\n";
    expect(["", "<think>\n", "<think>\n\n</think>\n\n", "<think>\nfirst", "a <think> b </think> c"].map((text) => opensReasoning(format, begin + text))).toEqual([false, true, false, true, false]);
    expect(opensReasoning(formatOf(sourceOf("own-python")), `${begin}<think>\n`)).toBe(false);
    expect(opensReasoning(formatOf("<think>"), "so <think>")).toBe(true);
  });
});
