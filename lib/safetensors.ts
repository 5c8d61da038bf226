/**
 * Safetensors files and checkpoints: https://github.com/huggingface/safetensors.
 *
 * Files come from strangers. Everything a header claims is checked before it is used, and only what is asked for is
 * read, so that a damaged, lying or hostile file of any size ends in a {@link FileError} that names it.
 */
export { openCheckpoint } from "./safetensors/checkpoint.ts";
export { safetensorsDTypes, tensorBytes } from "./safetensors/dtypes.ts";
export type { FloatArray, SafetensorsDType } from "./safetensors/dtypes.ts";
export { SafetensorsFile, openSafetensors } from "./safetensors/file.ts";
export type { TensorInfo } from "./safetensors/header.ts";
export type { TensorSource } from "./safetensors/source.ts";
export { writeSafetensors } from "./safetensors/write.ts";
export type { TensorToWrite } from "./safetensors/write.ts";
