/** Paths that users give for a model: one of its files, an adapter, the Hub's cache. */
import { afterAll, describe, expect, test } from "bun:test";
import { cpSync, mkdirSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { FileError, GatedDeltaNet } from "../lib/index.ts";
import { LanguageModel } from "../lib/model.ts";
import { writeSafetensors } from "../lib/checkpoint/write.ts";
import { openDevice, thrownBy } from "./support/devices.ts";
import { scratch } from "./support/files.ts";
import { rejection } from "./support/models.ts";

const golden = join(import.meta.dir, "golden/models/qwen3_5-mlx-mixed");
const { newPath } = scratch();
const device = openDevice(1);
afterAll(() => device.close());
const load = (path: string) => LanguageModel.load(device, path, { states: 1, pages: 2 });

/** A folder with these files: the golden model's where the text is null, otherwise a file of this text. */
function folderOf(files: Readonly<Record<string, string | null>>): string {
  const folder = newPath("folder");
  mkdirSync(folder);
  for (const [name, text] of Object.entries(files)) {
    const path = join(folder, name);
    mkdirSync(join(path, ".."), { recursive: true });
    if (text === null) cpSync(join(golden, name.split("/").at(-1)!), path);
    else writeFileSync(path, text);
  }
  return folder;
}

/** The error of both ways to load from a path. */
async function refused(path: string): Promise<FileError> {
  const error = await rejection(load(path));
  expect(error).toBeInstanceOf(FileError);
  const { expected, received } = thrownBy(() => GatedDeltaNet.load(device, path, { layer: 0 }));
  expect([expected, received]).toEqual([error.expected!, error.received!]);
  return error as FileError;
}

test("one file of a model finds what lies next to it, through a link too", async () => {
  using whole = await load(golden);
  const linked = newPath("linked");
  mkdirSync(linked);
  for (const name of ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"]) symlinkSync(join(golden, name), join(linked, name));
  for (const folder of [golden, linked]) {
    using model = await load(join(folder, "model.safetensors"));
    expect(model.text.folder).toBe(folder);
    expect(model.config).toEqual(whole.config);
    const messages = [{ role: "user", content: "a b" }];
    expect(model.text.chat(messages)).toEqual(whole.text.chat(messages));
  }
});

describe("an adapter", () => {
  const config = JSON.stringify({ peft_type: "LORA", base_model_name_or_path: "org/base" });
  const weights = { "adapter_config.json": config, "adapter_model.safetensors": "x" };
  const model = { "config.json": null, "model.safetensors": null };

  test.each<[what: string, files: Record<string, string | null>, base: string | undefined]>([
    ["of peft", weights, "org/base"],
    ["of mlx-lm", { "adapter_config.json": JSON.stringify({ model: "org/other" }), "adapters.safetensors": "x" }, "org/other"],
    ["without weights", { "adapter_config.json": config }, "org/base"],
    ["without a configuration", { "adapter_model.safetensors": "x" }, undefined],
    ["whose configuration is damaged", { ...weights, "adapter_config.json": "{" }, undefined],
    ["next to a whole model", { ...model, ...weights }, "org/base"],
  ])("%s is named", async (_, files, base) => {
    const { expected, received } = await refused(folderOf(files));
    expect(received).toBe("an adapter (LoRA)");
    expect(expected).toStartWith(`a whole model: merge the adapter into its base${base === undefined ? "" : `, ${base},`} first`);
  });

  test("that was merged leaves a configuration, which is none", async () => {
    using merged = await load(folderOf({ ...model, "adapter_config.json": config }));
    expect(merged.text.hasTokenizer).toBe(false);
  });

  test.each(["base_model.model.model.layers.0.mlp.up_proj.lora_A.weight", "model.layers.0.mlp.up_proj.lora_a"])("in a file, by %s", async (name) => {
    const path = join(folderOf({ "config.json": null }), "model.safetensors");
    writeSafetensors(path, { [name]: { dtype: "F32", shape: [1], data: new Float32Array(1) } });
    for (const place of [path, join(path, "..")]) expect((await rejection(load(place))).received).toBe("an adapter (LoRA)");
  });
});

describe("the Hub's cache", () => {
  const snapshot = (revision: string) => ({ [`snapshots/${revision}/config.json`]: null, [`snapshots/${revision}/model.safetensors`]: null });
  const named = (path: string) => `the folder of a model: name ${path}`;

  test("of a model is told with the snapshot of its main branch", async () => {
    const root = folderOf({ "refs/main": "abc\n", "blobs/x": "", ...snapshot("abc"), ...snapshot("def") });
    const error = await refused(root);
    expect([error.expected, error.received]).toEqual([named(join(root, "snapshots/abc")), "the root of a model in the Hub's cache"]);
    (await load(join(root, "snapshots/abc")))[Symbol.dispose]();
  });

  test("of a model without a main branch is told with its newest snapshot", async () => {
    const root = folderOf({ ...snapshot("abc"), ...snapshot("def"), ".no_exist/x": "" });
    utimesSync(join(root, "snapshots/abc"), 1, 1);
    for (const path of [root, join(root, "snapshots")]) expect((await refused(path)).expected).toBe(named(join(root, "snapshots/def")));
  });

  test("of several models is told with one of them", async () => {
    const hub = folderOf({ "models--org--name/refs/main": "abc", "models--org--name/snapshots/abc/config.json": null, "version.txt": "1" });
    const error = await refused(hub);
    expect([error.expected, error.received]).toEqual([named(join(hub, "models--org--name/snapshots/abc")), "the Hub's cache of several models"]);
  });

  test("without a snapshot is told as such", async () => {
    const root = folderOf({ "refs/main": "abc", "snapshots/.keep": "" });
    expect((await refused(root)).received).toBe("the root of a model in the Hub's cache, without a snapshot");
  });
});
