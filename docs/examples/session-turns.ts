import { Device } from "gated-delta";
import { LanguageModel, tinyModel, type ChatMessage } from "gated-delta/model";

const folder = process.argv[2] ?? tinyModel; // of a checkpoint
using device = Device.open();
using model = await LanguageModel.load(device, folder, { states: 8, pages: 100 });
using cache = model.cache({ bytes: 6 * (model.stateBytes + 4 * model.pageBytes), step: 16 });

const messages: ChatMessage[] = [];
for (const question of ["Why is the sky blue?", "And why red in the evening?"]) {
  messages.push({ role: "user", content: question });
  using session = model.session({ cache }).chat(messages); // all messages: the cache finds the part that was read before
  let answer = "";
  for await (const { text } of session.generate({ maxTokens: 20 })) answer += text;
  messages.push({ role: "assistant", content: answer });
}
console.log(messages.length, "messages,", cache.tokensSaved, "tokens not read again");
