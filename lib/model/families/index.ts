/** The families of models that can be loaded. Imported with the first model, because their schemas need zod, which takes 13 ms. */
import type { Family } from "./family.ts";
import { olmoHybrid } from "./olmo-hybrid.ts";
import { qwen35 } from "./qwen3-5.ts";

export const families: readonly Family[] = [qwen35, olmoHybrid];
