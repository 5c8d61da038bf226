import { Device } from "gated-delta";
import { LanguageModel, tinyModel } from "gated-delta/model";

const folder = process.argv[2] ?? tinyModel; // of a checkpoint
using device = Device.open();
using model = await LanguageModel.load(device, folder, { states: 4, pages: 16 });
using sequence = model.sequence();

let tokens = [17, 42, 99]; // a prompt's token ids
const answer: number[] = [];
while (answer.length < 8) {
  const [result] = await model.run([{ sequence, tokens }]); // logits of the last token
  const next = result!.logits.indexOf(Math.max(...result!.logits));
  answer.push(next);
  tokens = [next];
}
console.log(answer.join(" "));
