import { Device } from "gated-delta";
import { LanguageModel, tinyModel, type LogitsProcessor } from "gated-delta/model";

const folder = process.argv[2] ?? tinyModel; // of a checkpoint
using device = Device.open();
using model = await LanguageModel.load(device, folder, { states: 6, pages: 64 });
using session = model.session().chat([{ role: "user", content: "Name a large lake." }]);

// Four answers to a prompt that is read once. The third one again: the same seed.
const options = { temperature: 0.9, topP: 0.95, presencePenalty: 1.5, maxTokens: 20 };
const answers = await session.completeMany(4, { ...options, seed: 7 });
using again = session.fork();
console.log(answers[2]!.text === (await again.complete({ ...options, seed: 9 })).text);

// The three most likely tokens of each position, where a token never comes twice in a row.
const noRepeats: LogitsProcessor = (logits, tokens) => void (logits[tokens.at(-1)!] = -Infinity);
for await (const { text, topLogprobs } of session.generate({ processors: [noRepeats], topLogprobs: 3, maxTokens: 5 })) {
  console.log(JSON.stringify(text), topLogprobs!.map(({ token, logprob }) => `${token} ${logprob.toFixed(2)}`).join(", "));
}
