import { Device } from "gated-delta";
import { LanguageModel, tinyModel, type Session } from "gated-delta/model";

const folder = process.argv[2] ?? tinyModel; // of a checkpoint
using device = Device.open();
using model = await LanguageModel.load(device, folder, { states: 20, pages: 200 });
using question = model.session().chat([{ role: "user", content: "Name a large lake." }]);
await question.logits(); // read once, for all forks

const [yes, no] = ["Yes", "No"].map((word) => model.text.encode(word)[0]!);

/** An answer, with a score: how much more likely the model finds "Yes" than "No" when asked whether it is good. */
async function attempt(seed: number): Promise<{ session: Session; answer: string; score: number }> {
  const session = question.fork();
  let answer = "";
  for await (const { text } of session.generate({ temperature: 0.9, seed, maxTokens: 30 })) answer += text;
  using judge = session.fork().append("\nIs this a good answer? ");
  const logits = await judge.logits();
  return { session, answer, score: logits[yes!]! - logits[no!]! };
}

const attempts = await Promise.all(Array.from({ length: 8 }, (_, seed) => attempt(seed)));
const best = attempts.reduce((a, b) => (b.score > a.score ? b : a));
for (const { session } of attempts) if (session !== best.session) session[Symbol.dispose]();
using kept = best.session; // the conversation continues from here
console.log(JSON.stringify(best.answer), "of", kept.length, "tokens");
