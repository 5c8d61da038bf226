import { Device } from "gated-delta";
import { LanguageModel, tinyModel } from "gated-delta/model";

const folder = process.argv[2] ?? tinyModel; // of a checkpoint
using device = Device.open();
using model = await LanguageModel.load(device, folder, { states: 4, pages: 64 });
using session = model.session().chat([{ role: "user", content: "Which lake is deepest?" }]);

const lake = {
  type: "object",
  properties: { name: { type: "string", maxLength: 12 }, depth: { type: "integer", minimum: 1, maximum: 2000 }, salty: { type: "boolean" } },
  required: ["name", "depth", "salty"],
};
using forked = session.fork();
const answer = await session.complete({ schema: lake, maxTokens: 200 });
const { name, depth, salty } = JSON.parse(answer.text) as { name: string; depth: number; salty: boolean };
console.log(typeof name, depth, salty);

const code = await forked.complete({ regex: "[A-Z]{2}-\\d{4}", temperature: 1 });
console.log(code.text);
