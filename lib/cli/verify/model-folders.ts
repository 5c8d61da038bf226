/** Folders of language models. */

import { kdaArchitecture } from "../../checkpoint/kda-config.ts";
import type { FolderKind } from "./folders.ts";

/** The kind of these folders. The check is imported with the first folder, because golden files need no models. */
export const modelKind: FolderKind = {
  op: "LanguageModel",
  noun: "a language model",
  // Architectures with a decay for each key dimension have only mixers here.
  matches: (names, types) => names.some((name) => /(?:^|\.)embed_tokens\.weight$/.test(name)) && !types.some((type) => kdaArchitecture(type) !== undefined),
  check: async (folder, _names, device, report, settings) =>
    (await import("./model-check.ts")).checkModel(folder, device, report, settings),
};
