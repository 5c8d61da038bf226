/** A model whose answers do not end. */
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tinyModel } from "../../lib/model.ts";

/** Writes the tiny model without end tokens, and with many positions, into a folder, and returns the folder. */
export function writeEndless(folder: string): string {
  cpSync(tinyModel, folder, { recursive: true });
  for (const name of ["config.json", "generation_config.json"]) {
    const settings = JSON.parse(readFileSync(join(folder, name), "utf8"));
    for (const part of [settings, settings.text_config]) if (part !== undefined) delete part.eos_token_id;
    if (name === "config.json") (settings.text_config ?? settings).max_position_embeddings = 200_000;
    writeFileSync(join(folder, name), JSON.stringify(settings));
  }
  return folder;
}
