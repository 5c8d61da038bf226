/**
 * Safetensors files and checkpoints: https://github.com/huggingface/safetensors.
 *
 * Files are untrusted. A header is checked before it is used, and tensors are read on demand: a damaged or hostile file of
 * any size ends in a {@link FileError} that names it.
 */
export { downloadAdvice, openCheckpoint } from "./open-checkpoint.ts";
export { fileDTypes, floatDType, safetensorsDTypes, tensorBytes } from "./dtypes.ts";
export type { FloatArray, SafetensorsDType } from "./dtypes.ts";
export { SafetensorsFile, openSafetensors } from "./safetensors-file.ts";
export type { TensorInfo } from "./header.ts";
export type { TensorSource } from "./source.ts";
export { writeSafetensors } from "./write.ts";
export type { TensorToWrite } from "./write.ts";
