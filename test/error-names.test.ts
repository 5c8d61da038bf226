/** Errors about files name the caller's call, not the library's function that met them. */
import { afterAll, expect, test } from "bun:test";
import { readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { GatedDeltaNet } from "../lib/index.ts";
import { GatedDeltaError } from "../lib/errors.ts";
import { LanguageModel, Session } from "../lib/model.ts";
import { openCheckpoint, openSafetensors, writeSafetensors } from "../lib/checkpoint/safetensors.ts";
import { openDevice } from "./support/devices.ts";
import { scratch } from "./support/files.ts";
import { openTiny, textOf, tinyFolder } from "./support/models.ts";
import { statesOn } from "./support/states.ts";

const device = openDevice(1);
afterAll(() => device.close());
const files = scratch();

/** The start of a failure's message: the call, and the subject of the failure. */
async function startOf(run: () => unknown): Promise<string> {
  try {
    await run();
  } catch (error) {
    expect(error).toBeInstanceOf(GatedDeltaError);
    const { op, argument, message } = error as GatedDeltaError;
    expect(message.startsWith(`${op}: ${argument}: `)).toBe(true);
    return `${op}: ${argument}`;
  }
  throw new Error("nothing was thrown");
}

/** Unreadable files of each kind: missing, a folder, of another kind, cut off in its header. */
function unreadable(): string[] {
  const [text, cut] = [files.newPath("text"), files.newPath("cut")];
  writeFileSync(text, "this is no file of tensors, but it is long enough to be read");
  writeFileSync(cut, readFileSync(join(import.meta.dir, "golden/layer-f32.safetensors")).subarray(0, 100));
  return [files.newPath("missing"), files.folder, text, cut];
}

const nowhere = () => join(files.folder, "no", "such", "folder");

test("files of sessions", async () => {
  using model = await openTiny(device, { states: 2 });
  for (const path of unreadable()) expect(await startOf(() => Session.load(model, path))).toBe(`Session.load: ${path}`);
  using session = model.session().append(textOf(1, 9));
  expect(await startOf(() => session.save(nowhere()))).toBe(`session.save: ${nowhere()}`);
  expect(await startOf(() => session.save(files.folder))).toBe(`session.save: ${files.folder}`);
  // A file that loses a tensor, and one that becomes shorter while it is being read.
  await session.logits();
  const path = files.newPath("session");
  await session.save(path);
  const bad = files.newPath("bad");
  {
    using file = openSafetensors(path);
    const tensors = file.names.filter((name) => name !== "tokens").map((name) => [name, { dtype: file.info(name).dtype, shape: file.info(name).shape, data: file.read(name) }] as const);
    writeSafetensors(bad, new Map(tensors), file.metadata);
  }
  expect(await startOf(() => Session.load(model, bad))).toBe(`Session.load: ${bad}`);
  const loading = Session.load(model, path);
  truncateSync(path, readFileSync(path).length - 1);
  expect(await startOf(() => loading)).toBe(`Session.load: ${path}`);
  for (const [options, argument] of [[{ salt: 1 }, "salt"], [{ other: 1 }, "other"], [{ cache: {} }, "cache"]] as const) {
    expect(await startOf(() => Session.load(model, path, options as never))).toBe(`Session.load: ${argument}`);
  }
});

test("folders of models and mixers", async () => {
  const empty = files.newPath("folder");
  const cut = tinyFolder({}, 77);
  truncateSync(join(cut, "model.safetensors"), 1000);
  for (const folder of [empty, nowhere()]) {
    expect(await startOf(() => LanguageModel.load(device, folder, { states: 1, pages: 1 }))).toBe(`LanguageModel.load: ${folder}`);
    expect(await startOf(() => GatedDeltaNet.load(device, folder, { layer: 0 }))).toBe(`GatedDeltaNet.load: ${folder}`);
    expect(await startOf(() => GatedDeltaNet.loadAll(device, folder))).toBe(`GatedDeltaNet.loadAll: ${folder}`);
  }
  const file = join(cut, "model.safetensors");
  expect(await startOf(() => LanguageModel.load(device, cut, { states: 1, pages: 1 }))).toBe(`LanguageModel.load: ${file}`);
  expect(await startOf(() => GatedDeltaNet.loadAll(device, [file, file]))).toBe(`GatedDeltaNet.loadAll: ${file}`);
});

test("a name on the Hub is told apart from a folder that is missing", async () => {
  const load = (folder: string) => LanguageModel.load(device, folder, { states: 1, pages: 1 }).catch((error: Error) => error.message);
  expect(await load("Qwen/Qwen3.5-0.8B")).toContain("`hf download Qwen/Qwen3.5-0.8B` does that");
  expect(await load("./no/such/folder")).not.toContain("download");
});

test("what a session needs and what is short for it", async () => {
  const path = files.newPath("session");
  using large = await openTiny(device);
  using long = large.session().append(textOf(1, 30));
  await long.logits();
  await long.save(path);
  const over = async (change: "model" | "device") => {
    const own = openDevice(1);
    const model = await openTiny(own);
    const pieces = model.session().append(textOf(1, 9)).generate({ ignoreModelStops: true });
    await pieces.next();
    const next = pieces.next();
    if (change === "model") model[Symbol.dispose]();
    own.close();
    // A token that was chosen earlier is still given.
    return next.then(() => pieces.next()).then(() => "a token", (error: Error) => error.message);
  };
  expect(await over("model")).toMatch(/^session(?:\.generate)?: expected a model that is not disposed/);
  expect(await over("device")).toMatch(/^session: expected a device that is open/);
  using small = await openTiny(device, { states: 1, pages: { count: 2, tokens: 8 } });
  using tooLong = await Session.load(small, path, { whenFull: "error" });
  expect(await tooLong.append([1]).logits().catch((error: Error) => error.message)).toMatch(/^session.logits: expected at most 16 tokens.*\(`pages` of LanguageModel\.load/);
  using _ = small.sequence();
  using short = small.session({ whenFull: "error" }).append([1]);
  expect(await short.logits().catch((error: Error) => error.message)).toMatch(/^session: expected a free state \(`states` of LanguageModel\.load/);
});

test("an index whose second file is missing", async () => {
  const index = files.newPath("model.safetensors.index.json");
  using whole = openSafetensors(join(tinyFolder(), "model.safetensors"));
  writeFileSync(index, JSON.stringify({ weight_map: Object.fromEntries(whole.names.map((name) => [name, "gone.safetensors"])) }));
  const gone = join(files.folder, "gone.safetensors");
  const config = JSON.parse(readFileSync(join(tinyFolder(), "config.json"), "utf8")) as object;
  expect(await startOf(() => GatedDeltaNet.load(device, index, { layer: 0, config }))).toBe(`GatedDeltaNet.load: ${gone}`);
});

test("files of states", async () => {
  const { newPool } = statesOn(device);
  using pool = newPool(1);
  using handle = pool.allocate();
  for (const path of unreadable()) expect(await startOf(() => pool.load(path))).toBe(`pool.load: ${path}`);
  expect(await startOf(() => pool.save([handle], nowhere()))).toBe(`pool.save: ${nowhere()}`);
  expect(await startOf(() => pool.export([handle], nowhere(), { layout: "mlx" }))).toBe(`pool.export: ${nowhere()}`);
});

test("errors about files that are opened directly name the function that opens them", async () => {
  for (const path of unreadable()) expect(await startOf(() => openSafetensors(path))).toBe(`openSafetensors: ${path}`);
  const path = join(import.meta.dir, "golden/layer-f32.safetensors");
  using file = openSafetensors(path);
  expect(await startOf(() => file.read("none"))).toBe(`read: ${path}`);
  expect(await startOf(() => openCheckpoint(nowhere()))).toBe(`openSafetensors: ${nowhere()}`);
  expect(await startOf(() => writeSafetensors(nowhere(), {}))).toBe(`writeSafetensors: ${nowhere()}`);
});
