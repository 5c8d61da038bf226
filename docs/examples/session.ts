import { Device } from "gated-delta";
import { LanguageModel, tinyModel } from "gated-delta/model";

const folder = process.argv[2] ?? tinyModel; // of a checkpoint
using device = Device.open();
using model = await LanguageModel.load(device, folder, { states: 2, pages: 64 });
using session = model.session().chat([{ role: "user", content: "Why is the sky blue?" }]);
for await (const { text } of session.generate({ maxTokens: 40 })) process.stdout.write(text);
