import { Device } from "gated-delta";
import { LanguageModel, tinyModel } from "gated-delta/model";

const folder = process.argv[2] ?? tinyModel; // of a checkpoint
using device = Device.open("cpu");
using model = await LanguageModel.load(device, folder, { states: 4, pages: 16 });
using prompt = model.sequence();
await model.run([{ sequence: prompt, tokens: [17, 42, 99], logits: "none" }]);
using fork = prompt.fork();
using other = model.sequence();

// One token of the fork, a prompt of another sequence, two tokens of the parent: one batch.
const [first] = await model.run([
  { sequence: fork, tokens: [7] },
  { sequence: other, tokens: [1, 2, 3, 4, 5], logits: "none" },
  { sequence: prompt, tokens: [7, 8], logits: "all" },
]);
const batched = first!.logits.slice();

// The same tokens again, cold and alone: the same bits.
using cold = model.sequence();
const [alone] = await model.run([{ sequence: cold, tokens: [17, 42, 99, 7] }]);
console.log("equal:", batched.every((logit, i) => Object.is(logit, alone!.logits[i])));
