// llama.cpp's tokens for a GGUF file, by node-llama-cpp: `node llama.mjs FOLDER FILE`, with { texts, prompts, count } in JSON on the
// standard input; FOLDER has node-llama-cpp in its node_modules. Prints { texts: the ids of each, prompts: `count` greedy tokens each }.
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, file] = process.argv.slice(2);
const require = createRequire(join(resolve(folder), "package.json"));
const { getLlama, LlamaLogLevel } = await import(pathToFileURL(require.resolve("node-llama-cpp")).href);
const { texts, prompts, count } = JSON.parse(readFileSync(0, "utf8"));

const llama = await getLlama({ gpu: false, build: "never", logLevel: LlamaLogLevel.error });
const model = await llama.loadModel({ modelPath: file });
const ofTexts = texts.map((text) => [...model.tokenize(text, true)]);
const ofPrompts = [];
for (const prompt of prompts) {
  const context = await model.createContext({ contextSize: 512, threads: 1 });
  const tokens = [];
  for await (const token of context.getSequence().evaluate(prompt, { temperature: 0, yieldEogToken: true })) {
    tokens.push(token);
    if (tokens.length >= count) break;
  }
  ofPrompts.push(tokens);
  await context.dispose();
}
process.stdout.write(JSON.stringify({ texts: ofTexts, prompts: ofPrompts }), () => process.exit(0));
