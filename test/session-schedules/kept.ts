/**
 * Sessions that a process keeps on disk while it may be killed at any moment, and a journal that tells another process
 * the files' required contents: a line before each save holds its contents, and one after it says that the file exists.
 */
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Session } from "../../lib/model.ts";

/** The number of files; each is written again and again. */
const places = 4;

export class Keeper {
  readonly #folder: string;
  /** The files that are not being written, the oldest first. */
  readonly #free = Array.from({ length: places }, (_, place) => place);

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Saves a session of these tokens, unless all files are being written. */
  async save(session: Session, tokens: readonly number[]): Promise<void> {
    const place = this.#free.shift();
    if (place === undefined) return;
    const line = (what: string) => appendFileSync(journalOf(this.#folder), `${place} ${what}\n`);
    line(`saves ${tokens.join(",")}`);
    await session.save(pathOf(this.#folder, place));
    line("saved");
    this.#free.push(place);
  }
}

/** A file that a killed process has left. */
export interface Kept {
  readonly path: string;
  /** Its possible contents: those of the last save and, if that was under way, those of the save before. */
  readonly texts: readonly (readonly number[])[];
}

/**
 * The files that a process has left.
 *
 * @throws if a written one is missing.
 */
export function keptIn(folder: string): Kept[] {
  if (!existsSync(journalOf(folder))) return [];
  const texts = new Map<string, { saved: number[] | undefined; under: number[] | undefined }>();
  for (const line of readFileSync(journalOf(folder), "utf8").split("\n").slice(0, -1)) {
    const [place, what, tokens = ""] = line.split(" ") as [string, string, string?];
    const known = texts.get(place) ?? { saved: undefined, under: undefined };
    texts.set(place, what === "saves" ? { ...known, under: tokens.split(",").map(Number) } : { saved: known.under, under: undefined });
  }
  const found: Kept[] = [];
  for (const [place, { saved, under }] of texts) {
    const path = pathOf(folder, place);
    if (existsSync(path)) found.push({ path, texts: [saved, under].filter((text) => text !== undefined) });
    else if (saved !== undefined) throw new Error(`${path} was written and is not there`);
  }
  return found;
}

/** Whether a process has begun to save. */
export const hasBegun = (folder: string) => existsSync(journalOf(folder));

const journalOf = (folder: string) => join(folder, "journal");
const pathOf = (folder: string, place: number | string) => join(folder, `kept-${place}`);
