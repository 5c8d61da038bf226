/** The GGUF file that a path names: a file of that format, under any name, or a folder with one model in it. */
import { closeSync, openSync, readSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { firstShards } from "./shards.ts";

/** Names of safetensors checkpoints, which take precedence in a folder with both. */
const checkpoint = /^model(?:-\d+-of-\d+)?\.safetensors(?:\.index\.json)?$/;

/** Files with only an image projector or prediction blocks, which lie next to their model. */
const addition = /^mmproj|[-._]mmproj|^mtp-/i;

/** The names of the models in a folder's GGUF files, one each; none if the folder has a safetensors checkpoint. */
export function ggufNames(entries: readonly string[]): string[] {
  if (entries.some((name) => checkpoint.test(name))) return [];
  const names = entries.filter((name) => name.endsWith(".gguf"));
  const models = names.filter((name) => !addition.test(name));
  return firstShards(models.length === 0 ? names : models).sort();
}

/** The path of the GGUF file, or of the first of a split model; undefined if a path names none or a folder with several. */
export function findGguf(path: string): string | undefined {
  try {
    const stat = statSync(path);
    if (stat.isFile()) return path.endsWith(".gguf") || beginsAsGguf(path) ? path : undefined;
    if (!stat.isDirectory()) return undefined;
    const [name, other] = ggufNames(readdirSync(path));
    return name === undefined || other !== undefined ? undefined : join(path, name);
  } catch {
    return undefined; // opening the path reports the reason
  }
}

function beginsAsGguf(path: string): boolean {
  if (/\.(?:safetensors|json)$/.test(path)) return false;
  const descriptor = openSync(path, "r");
  try {
    const head = new Uint8Array(4);
    return readSync(descriptor, head, 0, 4, 0) === 4 && String.fromCharCode(...head) === "GGUF";
  } finally {
    closeSync(descriptor);
  }
}
