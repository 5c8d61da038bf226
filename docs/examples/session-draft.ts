import { Device } from "gated-delta";
import { LanguageModel, tinyModel } from "gated-delta/model";

const folder = process.argv[2] ?? tinyModel; // of a checkpoint
using device = Device.open();
using model = await LanguageModel.load(device, folder, { states: 16, pages: 64 });

/** The answer's tokens, and how many steps of the model they took. */
async function answer(drafts: boolean): Promise<{ tokens: string; steps: number }> {
  using session = model.session().append("to be or not to be or not to be or not to be or not");
  const before = model.steps;
  const tokens: number[] = [];
  for await (const { token } of session.generate({ maxTokens: 40, ignoreModelStops: true, drafts })) tokens.push(token);
  return { tokens: tokens.join(), steps: model.steps - before };
}

const plain = await answer(false);
const drafted = await answer(true);
console.log("the same tokens:", plain.tokens === drafted.tokens, `in ${plain.steps} and ${drafted.steps} steps`);
