/** Folders of language models. */

import type { FolderKind } from "./folders.ts";

/** The kind of these folders. Their check is imported with the first one, because golden files need no models. */
export const modelKind: FolderKind = {
  op: "LanguageModel",
  noun: "a language model",
  matches: (names) => names.some((name) => /(?:^|\.)embed_tokens\.weight$/.test(name)),
  check: async (folder, _names, device, report, settings) =>
    (await import("./model-check.ts")).checkModel(folder, device, report, settings),
};
