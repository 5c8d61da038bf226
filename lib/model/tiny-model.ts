/** The package's model. */
import { join } from "node:path";
import { packageRoot } from "../native/candidates.ts";

/**
 * The folder of a tiny model with a tokenizer, a chat template and random weights (1 MB), which is part of the package, for trying
 * a program without a checkpoint. The model's answers are meaningless. Bundled programs do not include it.
 */
export const tinyModel: string = join(packageRoot, "test", "golden", "models", "qwen3_5-mlx-mixed");
