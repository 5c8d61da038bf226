import { rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Device } from "gated-delta";
import { LanguageModel, Session, tinyModel, type ChatMessage, type GenerateOptions, type ToolCall } from "gated-delta/model";

const folder = process.argv[2] ?? tinyModel; // of a checkpoint that calls tools
using device = Device.open();
using model = await LanguageModel.load(device, folder, { states: 8, pages: 256 });
using cache = model.cache({ bytes: 4 * (model.stateBytes + 32 * model.pageBytes), step: 16 });

const lakes: Record<string, { depth: number; area: number; countries: string[] }> = {
  Baikal: { depth: 1642, area: 31722, countries: ["Russia"] },
  Superior: { depth: 406, area: 82103, countries: ["Canada", "United States"] },
};
const tools: Record<string, { description: string; run: (name: string) => unknown }> = {
  depth: { description: "The greatest depth of a lake in metres", run: (lake) => lakes[lake]?.depth },
  area: { description: "The area of a lake in square kilometres", run: (lake) => lakes[lake]?.area },
  countries: { description: "The countries around a lake", run: (lake) => lakes[lake]?.countries },
};
const parameters = { type: "object", properties: { lake: { type: "string" } }, required: ["lake"] };
const described = Object.entries(tools).map(([name, { description }]) => ({ type: "function", function: { name, description, parameters } }));

/** Runs a tool. Errors are results, too: the model reads them. */
async function execute({ name, arguments: { lake } }: ToolCall): Promise<ChatMessage> {
  return { role: "tool", name, content: JSON.stringify((await tools[name]?.run(String(lake))) ?? `${name} knows nothing about this`) };
}

/** Answers, with the results of all tools that the model calls. Calls of one answer run at the same time. */
async function answer(session: Session, options: GenerateOptions = {}): Promise<void> {
  for (;;) {
    for await (const { parts } of session.generate({ maxTokens: 400, ...options })) {
      for (const part of parts) {
        if (part.type === "text") process.stdout.write(part.text);
        else if (part.type === "reasoning") process.stdout.write(`\x1b[2m${part.text}\x1b[0m`);
      }
    }
    const { toolCalls } = await session.answer({ maxTokens: 0 }); // the whole answer, as it is now
    if (toolCalls.length === 0) return;
    session.chat(await Promise.all(toolCalls.map(execute)));
  }
}

const path = join(tmpdir(), `gated-delta-agent-${process.pid}.safetensors`);
{
  using session = model.session({ cache }).chat([{ role: "user", content: "Which is deeper, Baikal or Superior?" }], { tools: described });
  const signal = AbortSignal.timeout(Number(process.argv[3] ?? 20)); // milliseconds
  await answer(session, { signal }).catch((error: unknown) => {
    if (error !== signal.reason) throw error;
  });
  await session.save(path);
}
using session = await Session.load(model, path, { cache, trust: true }); // here or in another process: it goes on where the other has stopped
rmSync(path);
await answer(session);
session.chat([{ role: "user", content: "Give both depths, in metres." }]);
const depth = { type: "integer", minimum: 1, maximum: 9999 };
const schema = { type: "object", properties: { Baikal: depth, Superior: depth }, required: ["Baikal", "Superior"], additionalProperties: false };
const { content } = await session.answer({ schema, maxTokens: 400 }); // it begins after the thoughts
console.log(`\nBaikal is ${JSON.parse(content).Baikal} metres deep`);
