import { Device } from "gated-delta";
import { LanguageModel, tinyModel } from "gated-delta/model";

using device = Device.open(); // the GPU of a Mac, else the CPU
using model = await LanguageModel.load(device, process.argv[2] ?? tinyModel);
using question = model.session().chat([{ role: "user", content: "Name a large lake." }]);
await question.logits(); // the prompt is read once
for (const seed of [1, 2, 3]) {
  using answer = question.fork(); // and shared, not copied
  for await (const { text } of answer.generate({ temperature: 0.8, seed, maxTokens: 20 })) process.stdout.write(text);
  process.stdout.write("\n");
}
