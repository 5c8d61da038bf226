import { rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Device } from "gated-delta";
import { LanguageModel, Session, tinyModel } from "gated-delta/model";

const folder = process.argv[2] ?? tinyModel; // of a checkpoint
using device = Device.open();
using model = await LanguageModel.load(device, folder, { states: 4, pages: 64 });

/** The next tokens of a session, the most likely ones. */
async function goOn(session: Session): Promise<number[]> {
  const tokens: number[] = [];
  for await (const { token } of session.generate({ maxTokens: 5, ignoreModelStops: true })) tokens.push(token);
  return tokens;
}

using session = model.session().chat([{ role: "user", content: "Name a large lake." }]);
await session.logits();
const path = join(tmpdir(), `gated-delta-session-${process.pid}.safetensors`);
await session.save(path);
const here = await goOn(session);

using loaded = await Session.load(model, path); // in this process, or in any other with the same model
const later = await goOn(loaded);
console.log("the same tokens:", here.join() === later.join());
rmSync(path);
