/** The families of models that can be loaded. */
import type { Family } from "./family.ts";
import { olmoHybrid } from "./olmo-hybrid.ts";
import { qwen35 } from "./qwen3-5.ts";
import { qwen35Moe } from "./qwen3-5-moe.ts";
import { qwen3Next } from "./qwen3-next.ts";

export const families: readonly Family[] = [qwen35, qwen35Moe, qwen3Next, olmoHybrid];
