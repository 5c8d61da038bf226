import { invalid } from "../arguments/checks.ts";
import { GatedDeltaError } from "../errors.ts";
import type { LanguageModel } from "../model/language-model.ts";
import type { SessionCache } from "../model/session/prefix-cache.ts";

/** Checks an option `cache`: a session of the model would refuse another model's cache. */
export function expectCache(op: string, model: LanguageModel, cache: SessionCache | undefined): void {
  try {
    model.session({ cache })[Symbol.dispose]();
  } catch (error) {
    if (error instanceof GatedDeltaError && error.argument === "cache") throw invalid(op, "cache", "a cache of this model", cache);
    throw error;
  }
}
