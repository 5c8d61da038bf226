import { isStepCount, jsonSchema, streamText, tool } from "ai";
import { Device } from "gated-delta";
import { languageModel } from "gated-delta/ai";
import { LanguageModel, tinyModel } from "gated-delta/model";

const folder = process.argv[2] ?? tinyModel; // of a checkpoint that calls tools
using device = Device.open();
using model = await LanguageModel.load(device, folder, { states: 8, pages: 256 });
using cache = model.cache({ bytes: 4 * (model.stateBytes + 32 * model.pageBytes), step: 16 });

const depth = tool({
  description: "The greatest depth of a lake in metres",
  inputSchema: jsonSchema<{ lake: string }>({ type: "object", properties: { lake: { type: "string" } }, required: ["lake"] }),
  execute: ({ lake }) => ({ Baikal: 1642, Superior: 406 })[lake] ?? "not known",
});
const { stream, usage } = streamText({
  model: languageModel(model, { cache }),
  prompt: "Which is deeper, Baikal or Superior?",
  tools: { depth },
  stopWhen: isStepCount(5),
  maxOutputTokens: 100,
  providerOptions: { gatedDelta: { minP: 0.05, maxReasoningTokens: 60 } },
});
for await (const part of stream) {
  if (part.type === "reasoning-delta") process.stdout.write(`\x1b[2m${part.text}\x1b[0m`);
  else if (part.type === "text-delta") process.stdout.write(part.text);
}
const { inputTokens, inputTokenDetails, outputTokens } = await usage;
console.log(`\n${inputTokens} tokens read, ${inputTokenDetails.cacheReadTokens} of them from the cache, ${outputTokens} written`);
