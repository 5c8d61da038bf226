/** The model that comes with the package. */
import { join } from "node:path";
import { packageRoot } from "../native/candidates.ts";

/**
 * The folder of a tiny model with a tokenizer, a chat template and random weights (1 MB), which comes with the package: to try a
 * program before there is a checkpoint. Its answers mean nothing. A program that a bundler made does not have it.
 */
export const tinyModel: string = join(packageRoot, "test", "golden", "models", "qwen3_5-mlx-mixed");
