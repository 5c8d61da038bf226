/** Recognises folders that are easily mistaken for a model's, by their entries. */
import { readdirSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { FileError } from "../errors.ts";
import { readWhole, statOf } from "./regular-file.ts";

/** In bytes; adapters' configurations have a few thousand. */
const largestText = 1 << 20;

const adapterWeights = /^adapter(?:_model|s)\.(?:safetensors|bin|npz)$/;

/** The folders of models in the cache of `huggingface_hub`: `models--org--name/snapshots/REVISION`. */
const cachedModel = /^models--/;

/**
 * Refuses a folder that holds an adapter instead of a model, or whose subfolders hold the model, as in the Hub's cache.
 *
 * @param entries the folder's entries.
 * @throws {FileError} with the kind of folder and advice.
 */
export function refuseOtherFolders(op: string, folder: string, entries: readonly string[]): void {
  if (entries.some((name) => adapterWeights.test(name)) || (entries.includes("adapter_config.json") && !entries.includes("config.json"))) {
    throw adapterError(op, folder, entries.includes("adapter_config.json") ? baseOf(op, join(folder, "adapter_config.json")) : undefined);
  }
  if (entries.includes("config.json")) return;
  if (entries.includes("snapshots")) {
    throw cacheError(op, folder, newest(join(folder, "snapshots"), mainOf(op, folder)), "the root of a model in the Hub's cache");
  }
  if (basename(folder) === "snapshots" && entries.some((name) => isFolder(join(folder, name)))) {
    throw cacheError(op, folder, newest(folder, undefined), "the snapshots of a model in the Hub's cache");
  }
  const models = entries.filter((name) => cachedModel.test(name));
  if (models.length === 0) return;
  const [first] = models;
  throw cacheError(op, folder, newest(join(folder, first!, "snapshots"), mainOf(op, join(folder, first!))), "the Hub's cache of several models");
}

/** The error for an adapter of the model `base`. */
export function adapterError(op: string, path: string, base: string | undefined): FileError {
  const expected = `a whole model: merge the adapter into its base${base === undefined ? "" : `, ${base},`} first (\`merge_and_unload\` of peft, \`mlx_lm.fuse\`)`;
  return new FileError(path, { op, expected, received: "an adapter (LoRA)" });
}

function cacheError(op: string, folder: string, snapshot: string | undefined, received: string): FileError {
  const expected = snapshot === undefined ? "the folder of a model" : `the folder of a model: name ${snapshot}`;
  return new FileError(folder, { op, expected, received: snapshot === undefined ? `${received}, without a snapshot` : received });
}

/** A folder in `snapshots`: the requested one, otherwise the most recent. */
function newest(snapshots: string, wanted: string | undefined): string | undefined {
  let names: string[];
  try {
    names = readdirSync(snapshots);
  } catch {
    return undefined;
  }
  if (wanted !== undefined && names.includes(wanted)) return join(snapshots, wanted);
  const folders = names.map((name) => join(snapshots, name)).filter(isFolder);
  return folders.toSorted((a, b) => statSync(b).mtimeMs - statSync(a).mtimeMs)[0];
}

/** The revision that `refs/main` names. */
function mainOf(op: string, folder: string): string | undefined {
  return textOf(op, join(folder, "refs", "main"))?.trim();
}

/** The base model in an adapter's configuration. */
function baseOf(op: string, path: string): string | undefined {
  try {
    const { base_model_name_or_path: base, model } = JSON.parse(textOf(op, path) ?? "") as Record<string, unknown>;
    const name = base ?? model; // peft's key, and mlx-lm's
    return typeof name === "string" && name.length <= 256 ? name : undefined;
  } catch {
    return undefined;
  }
}

function textOf(op: string, path: string): string | undefined {
  try {
    return new TextDecoder().decode(readWhole(path, op, "a text", largestText));
  } catch {
    return undefined; // the error is about something else
  }
}

function isFolder(path: string): boolean {
  return statOf(path)?.isDirectory() === true;
}
