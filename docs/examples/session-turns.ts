import { Device } from "gated-delta";
import { LanguageModel, tinyModel } from "gated-delta/model";

const folder = process.argv[2] ?? tinyModel; // of a checkpoint
using device = Device.open();
using model = await LanguageModel.load(device, folder, { states: 8, pages: 100 });
using cache = model.cache({ bytes: 6 * (model.stateBytes + 4 * model.pageBytes), step: 16 });

using session = model.session({ cache });
for (const question of ["Why is the sky blue?", "And why red in the evening?"]) {
  session.chat([{ role: "user", content: question }]); // the session has what was said before
  for await (const { text } of session.generate({ maxTokens: 20 })) process.stdout.write(text);
  const { keptTokens, addedTokens, rereadTokens } = session.turn!;
  console.log(`\n${keptTokens} tokens kept, ${addedTokens} added, ${rereadTokens} to be read again`);
}
console.log(session.messages.length, "messages");
