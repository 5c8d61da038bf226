/**
 * Misspelt names: every public function, constructor and method that takes an object of named members refuses an unknown name,
 * whether the object has it itself or inherits it. A function in neither of the tables here fails the test.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { membersOf } from "../lib/arguments/members.ts";
import * as ai from "../lib/ai.ts";
import * as ggml from "../lib/ggml.ts";
import * as api from "../lib/index.ts";
import * as models from "../lib/model.ts";
import * as servers from "../lib/server.ts";
import { makeOp, soundArguments } from "./support/arguments.ts";
import type { OpName } from "./support/arguments.ts";
import { openDevice, thrownBy } from "./support/devices.ts";
import { scratch } from "./support/files.ts";
import { loadRandom, smallConfig } from "./support/layers.ts";

const { Device, GatedDeltaNet, PrefixCache, StatePool } = api;
const { newPath } = scratch();
const folder = join(import.meta.dir, "golden/models/qwen3_5-mlx-mixed");
const layerFile = join(import.meta.dir, "golden/layer-f32.safetensors");
const shape = { slots: 32, layers: 1, keyHeads: 1, valueHeads: 1, keyDim: 8, valueDim: 8, convWidth: 4 };

const device = openDevice(1);
const pool = StatePool.create(device, shape);
const { layer } = loadRandom(device, smallConfig, 1);
let model: models.LanguageModel;
beforeAll(async () => {
  model = await models.LanguageModel.load(device, folder, { states: 2, pages: 8 });
});
afterAll(() => device.close());

type Call = (given: any) => unknown;

/** For each function, a sound object and a call with that or a changed one. After a colon, the name continues with a member of it. */
const cases: Record<string, [sound: object, call: Call]> = {
  "Device.open": [{ backend: "cpu" }, (given) => Device.open(given)],
  "Device#fromPointer": [{ owner: {} }, (given) => device.fromPointer("f32", [1], 64, given)],
  "Device#finish": [{ timeoutMs: 1000 }, (given) => device.finish(given)],
  "Tensor#view": [{ shape: [2] }, (given) => device.tensor("f32", [4]).view(given)],
  "Plan#run": [{}, (given) => device.plan((pass) => pass.add(soundArguments.add(device) as never)).run(given)],
  "StatePool.create": [shape, (given) => StatePool.create(device, given)],
  "StatePool#run": [{ undoable: true }, (given) => pool.run([pool.allocate()], () => [], given)],
  "StatePool#step": [{ undoable: true }, (given) => pool.step([pool.allocate()], given)],
  "StatePool#draft": [{ records: "deltas" }, (given) => pool.draft([pool.allocate()], [1], given)],
  "StatePool#save": [{ stateDtype: "f32" }, (given) => pool.save([], newPath(), given)],
  "StatePool#load": [{ convert: true }, (given) => pool.load(newPath(), given)],
  "StatePool#export": [{ layout: "hf" }, (given) => pool.export([], newPath(), given)],
  "new PrefixCache": [{ bytes: 1 }, (given) => new PrefixCache(pool, given)],
  "GatedDeltaNet.load": [{ layer: 0 }, (given) => GatedDeltaNet.load(device, layerFile, given)],
  "GatedDeltaNet.loadAll": [{ dtype: "f32" }, (given) => GatedDeltaNet.loadAll(device, layerFile, given)],
  "GatedDeltaNet#forward": [{}, (given) => layer.forward(given)],
  "GatedDeltaNet#decode": [{}, (given) => layer.decode(given)],
  "GatedDeltaNet#mix": [{}, (given) => layer.mix(given)],
  "GatedDeltaNet#mixStep": [{}, (given) => layer.mixStep(given)],
  "LanguageModel.load": [{ states: 2, pages: 8 }, (given) => models.LanguageModel.load(device, folder, given)],
  "LanguageModel.load: states": [{ slots: 2 }, (states) => models.LanguageModel.load(device, folder, { states, pages: 8 })],
  "LanguageModel.load: pages": [{ count: 8 }, (pages) => models.LanguageModel.load(device, folder, { states: 2, pages })],
  "LanguageModel#session": [{ salt: "a" }, (given) => model.session(given)],
  "LanguageModel#cache": [{ bytes: 1 }, (given) => model.cache(given)],
  "LanguageModel#run": [{ tokens: [1] }, (given) => model.run([given])],
  "Session.load": [{ salt: "a" }, (given) => models.Session.load(model, newPath(), given)],
  "Session#append": [{ specialTokens: "text" }, (given) => model.session().append("a", given)],
  "Session#chat": [{ addGenerationPrompt: true }, (given) => model.session().chat([{ role: "user", content: "a" }], given)],
  "Session#generate": [{ maxTokens: 1 }, (given) => model.session().append([1]).generate(given).next()],
  "Session#generate: drafts": [{ tokens: 2 }, (drafts) => model.session().append([1]).generate({ drafts }).next()],
  "Session#generate: toolChoice": [{ name: "a" }, (toolChoice) => model.session().append([1]).generate({ toolChoice }).next()],
  "Session#complete": [{ maxTokens: 1 }, (given) => model.session().append([1]).complete(given)],
  "Session#completeMany": [{ maxTokens: 1 }, (given) => model.session().append([1]).completeMany(1, given)],
  "Session#answer": [{ maxTokens: 1 }, (given) => model.session().chat([{ role: "user", content: "a" }]).answer(given)],
  "LanguageModel#identity": [{}, (given) => model.identity(given)],
  "Session#logits": [{}, (given) => model.session().append([1]).logits(given)],
  "Session#hidden": [{}, (given) => model.session().append([1]).hidden(given)],
  "ModelText#chat": [{ addGenerationPrompt: true }, (given) => model.text.chat([{ role: "user", content: "a" }], given)],
  "ChatTemplate#render": [{ addGenerationPrompt: true }, (given) => model.text.template.render([{ role: "user", content: "a" }], given)],
  "ChatTemplate#pieces": [{ addGenerationPrompt: true }, (given) => model.text.template.pieces([{ role: "user", content: "a" }], given)],
  languageModel: [{ name: "a" }, (given) => ai.languageModel(model, given)],
  createHandler: [{ name: "a" }, (given) => servers.createHandler(model, given)],
  "createHandler: limits": [{ queue: 1 }, (limits) => servers.createHandler(model, { limits })],
  openStore: [{ seconds: 1 }, (given) => servers.openStore(newPath(), given)],
  "Tokenizer#encode": [{ addSpecialTokens: false }, (given) => model.text.tokenizer.encode("a", given)],
  "Tokenizer#decode": [{ specialTokens: true }, (given) => model.text.tokenizer.decode([1], given)],
  "Tokenizer#detokenizer": [{ specialTokens: true }, (given) => model.text.tokenizer.detokenizer(given)],
};
for (const name of Object.keys(soundArguments) as OpName[]) {
  const sound = soundArguments[name](device);
  cases[name] = [sound, (given) => makeOp(name, given)];
  cases[`Pass#${name}`] = [sound, (given) => device.run((pass) => void (pass as any)[name](given))];
  for (const [member, value] of Object.entries(sound)) {
    if (Object.getPrototypeOf(value) !== Object.prototype) continue;
    cases[`${name}: ${member}`] = [value as object, (given) => makeOp(name, { ...sound, [member]: given })];
  }
}

/** Functions that take no such object. */
const others = [
  "decodeBf16", "encodeBf16", "libraryInfo",
  "Device#tensor", "Device#tensorFrom", "Device#wrap", "Device#unsafeWrap", "Device#run", "Device#encode", "Device#submit",
  "Device#discard", "Device#plan", "Device#prepare", "Device#wait", "Device#close",
  "Draft#layer", "Draft#convInput", "Draft#run", "Draft#commit", "Draft#abort", "Pass#encode",
  "PoolStep#layer", "PoolStep#wrote", "PoolStep#done", "PoolStep#abort",
  "PrefixCache#lookup", "PrefixCache#insert", "PrefixCache#makeRoom", "PrefixCache#clear",
  "StateHandle#fork", "StateHandle#free", "StepPlaceholder#layer",
  "StatePool#state", "StatePool#conv", "StatePool#allocate", "StatePool#zero", "StatePool#placeholder",
  "Tensor#slice", "Tensor#narrow", "Tensor#reshape", "Tensor#copyFrom", "Tensor#toFloat32",
  "ChatTemplate.load", "ChatTemplate#format", "Tokenizer.load", "Detokenizer#push", "Detokenizer#end",
  "LanguageModel#sequence", "LanguageModel#modelSampling", "ModelText#encode", "Sequence#fork",
  "Session#fork", "Session#save", "SessionCache#clear", "Tokenizer#idOf", "Tokenizer#isSpecial",
];

/** Classes that are used with `new`; objects of the others come from methods. */
const constructed = ["PrefixCache"];

/** The names of all public functions, constructors and methods. */
function publicFunctions(): string[] {
  const found = new Set<string>();
  for (const [name, value] of Object.entries({ ...api, ...models, ...servers, ...ai, ...ggml })) {
    if (typeof value !== "function") continue;
    if (!/^class\b/.test(Function.prototype.toString.call(value))) found.add(name);
    else if (!(value.prototype instanceof Error) && (value as unknown) !== Error) {
      if (constructed.includes(name)) found.add(`new ${name}`);
      for (const key of functionsOf(value)) found.add(`${name}.${key}`);
      for (let holder: object = value.prototype; holder !== Object.prototype; holder = Object.getPrototypeOf(holder)) {
        for (const key of functionsOf(holder)) found.add(`${name}#${key}`);
      }
    }
  }
  return [...found].sort();
}

function functionsOf(holder: object): string[] {
  const members = Object.entries(Object.getOwnPropertyDescriptors(holder));
  return members.filter(([key, { value }]) => typeof value === "function" && key !== "constructor").map(([key]) => key);
}

test("the tables name every public function", () => {
  const taking = Object.keys(cases).filter((name) => !name.includes(": "));
  expect([...new Set([...taking, ...others])].sort()).toEqual(publicFunctions());
});

describe.each(Object.entries(cases))("%s", (_, [sound, call]) => {
  const inheriting = Object.create({ zzz: 1 }, Object.getOwnPropertyDescriptors(sound)) as object;
  test.each([["misspelt", { ...sound, zzz: 1 }], ["inherited", inheriting]])("refuses a %s name", async (_how, given) => {
    let error: unknown;
    try {
      await call(given);
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(api.GatedDeltaError);
    const { code, argument, expected } = error as api.GatedDeltaError;
    expect([code, argument?.split(".").at(-1)]).toEqual(["invalid-argument", "zzz"]);
    expect(expected).not.toBeUndefined();
  });
});

describe("members of an object", () => {
  const read = (value: object) => membersOf<Record<string, unknown>>("op", value as Record<string, unknown>, ["a", "b"]);

  test("are read once, also those that it inherits, and undefined ones count as left out", () => {
    let reads = 0;
    class Options {
      readonly b = undefined;
      get a() {
        return ++reads;
      }
    }
    expect(read(new Options())).toEqual({ a: 1 });
    expect(read(Object.create({ a: 2 }) as object)).toEqual({ a: 2 });
    expect(read(Object.assign(Object.create(null) as object, { b: 3 }))).toEqual({ b: 3 });
  });

  test("of what is no object, throws or never ends are refused", () => {
    const refused = (value: unknown) => thrownBy(() => read(value as object)).code;
    const endless = (): object => new Proxy({}, { getPrototypeOf: endless });
    const throwing = new Proxy({}, { ownKeys: () => { throw new Error("no"); } });
    for (const value of [undefined, null, 1, "a", [], () => {}, endless(), throwing, { get a() { throw new Error("no"); } }]) {
      expect(refused(value)).toBe("invalid-argument");
    }
  });
});
