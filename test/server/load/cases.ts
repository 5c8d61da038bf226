/** Requests whose answers are known: those of the same messages, read whole and alone. */
import type { LanguageModel } from "../../../lib/model.ts";
import { Random } from "../../support/random.ts";

/** A request and its answer. */
export interface Case {
  readonly path: string;
  readonly body: Readonly<Record<string, unknown>>;
  readonly text: string;
  readonly tokens: number;
}

const words = "lake deep north name three ice winter boat the of and a shore wind older water map blue six seven".split(" ");

/** Cases of a seed: conversations of three turns through chat completions, and single turns through the other APIs. */
export async function casesOf(model: LanguageModel, seed: number, conversations: number): Promise<Case[]> {
  const random = new Random(seed);
  const textOf = (most: number) => Array.from({ length: 1 + random.below(most) }, () => random.pick(words)).join(" ");
  const cases: Case[] = [];
  for (let i = 0; i < conversations; i++) {
    const settings = { temperature: random.pick([0, 0.8, 1.2]), top_p: random.pick([1, 0.9]), seed: random.below(1000) };
    const options = { sampling: "model" as const, temperature: settings.temperature, topP: settings.top_p, seed: settings.seed };
    const messages: { role: string; content: string }[] = random.below(2) === 0 ? [] : [{ role: "system", content: `Be brief. ${textOf(40)}` }];
    for (let turn = 0; turn < 3; turn++) {
      messages.push({ role: "user", content: textOf(turn === 0 && i % 4 === 0 ? 150 : 20) });
      const maxTokens = 2 + random.below(24);
      using session = model.session().chat(messages, { specialTokens: "text" });
      const { text, tokens } = await session.complete({ ...options, maxTokens });
      cases.push({ path: "/v1/chat/completions", body: { messages: [...messages], max_tokens: maxTokens, ...settings }, text, tokens: tokens.length });
      if (turn === 0 && messages.length === 1) {
        const { content } = messages[0]!;
        cases.push({ path: "/v1/responses", body: { input: content, max_output_tokens: maxTokens, ...settings }, text, tokens: tokens.length });
        // Anthropic's API has no seeds.
        using other = model.session().chat(messages, { specialTokens: "text", variables: { enable_thinking: false } });
        const answer = await other.complete({ sampling: "model", temperature: 0, maxTokens });
        cases.push({ path: "/v1/messages", body: { messages: [...messages], max_tokens: maxTokens, temperature: 0 }, text: answer.text, tokens: answer.tokens.length });
        using raw = model.session().append(content);
        const continued = await raw.complete({ ...options, maxTokens });
        cases.push({ path: "/v1/completions", body: { prompt: content, max_tokens: maxTokens, ...settings }, text: continued.text, tokens: continued.tokens.length });
      }
      messages.push({ role: "assistant", content: text });
    }
  }
  return cases;
}

/** The text and the number of tokens of a whole answer, in its API's form. */
export function answerOf(path: string, body: any): readonly [text: string, tokens: number] {
  switch (path) {
    case "/v1/chat/completions":
      return [body.choices[0].message.content, body.usage.completion_tokens];
    case "/v1/completions":
      return [body.choices[0].text, body.usage.completion_tokens];
    case "/v1/responses":
      return [body.output.map((item: any) => item.content[0].text).join(""), body.usage.output_tokens];
    default:
      return [body.content.map(({ text }: any) => text).join(""), body.usage.output_tokens];
  }
}

/** The same of a stream, of any API. */
export function streamedAnswer(stream: string): readonly [text: string, tokens: number] {
  const events = stream.split("\n\n").flatMap((block) => block.split("\n").filter((line) => line.startsWith("data: ") && line !== "data: [DONE]").map((line) => JSON.parse(line.slice(6))));
  const failure = events.find((event) => event.error !== undefined && event.error !== null);
  if (failure !== undefined) throw new Error(JSON.stringify(failure.error));
  let [text, tokens] = ["", -1];
  for (const event of events) {
    text += event.choices?.[0]?.delta?.content ?? event.choices?.[0]?.text ?? (event.type === "response.output_text.delta" ? event.delta : undefined) ?? event.delta?.text ?? "";
    tokens = event.usage?.completion_tokens ?? event.response?.usage?.output_tokens ?? event.usage?.output_tokens ?? tokens;
  }
  return [text, tokens];
}
