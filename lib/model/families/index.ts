/** The families of models that can be loaded. */
import type { Family } from "./family.ts";
import { olmoHybrid } from "./olmo-hybrid.ts";
import { qwen35 } from "./qwen3-5.ts";

export const families: readonly Family[] = [qwen35, olmoHybrid];
