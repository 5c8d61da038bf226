import { Device } from "gated-delta";
import { LanguageModel, tinyModel, type ChatMessage } from "gated-delta/model";

const folder = process.argv[2] ?? tinyModel; // of a checkpoint
using device = Device.open();
using model = await LanguageModel.load(device, folder, { states: 16, pages: 256 });
using cache = model.cache({ bytes: 12 * model.stateBytes, step: 16 });

const system: ChatMessage = { role: "system", content: "You answer in one sentence. You know a lot about lakes, rivers and seas." };
for (const question of ["Name a large lake.", "Name a long river.", "Name a deep sea."]) {
  using session = model.session({ cache }).chat([system, { role: "user", content: question }]);
  const before = cache.tokensSaved;
  for await (const _ of session.generate({ maxTokens: 8 }));
  console.log(`${session.length} tokens, ${cache.tokensSaved - before} of them not read again`);
}
