/** Folders of models that a test changes: their tensors, configurations and files. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openCheckpoint, writeSafetensors } from "../../lib/checkpoint/safetensors.ts";
import type { TensorToWrite } from "../../lib/checkpoint/safetensors.ts";

/** The contents of a folder, which a test changes in place. */
export interface ModelParts {
  tensors: Record<string, TensorToWrite>;
  config: Record<string, any>;
  generation: Record<string, unknown> | undefined;
}

/** Reads a folder's checkpoint and configurations. */
export function readModel(folder: string): ModelParts {
  using source = openCheckpoint(folder);
  const tensors = Object.fromEntries(source.names.map((name) => {
    const { dtype, shape } = source.info(name);
    return [name, { dtype, shape, data: source.read(name) }] as const;
  }));
  const json = (name: string) => JSON.parse(readFileSync(join(folder, name), "utf8"));
  return { tensors, config: json("config.json"), generation: existsSync(join(folder, "generation_config.json")) ? json("generation_config.json") : undefined };
}

/** Writes a model's changed contents as one file. */
export function writeChanged(folder: string, base: ModelParts, change: (parts: ModelParts) => void = () => {}): string {
  const parts: ModelParts = { tensors: { ...base.tensors }, config: structuredClone(base.config), generation: base.generation };
  change(parts);
  mkdirSync(folder, { recursive: true });
  writeSafetensors(join(folder, "model.safetensors"), parts.tensors, { format: "pt" });
  writeFileSync(join(folder, "config.json"), JSON.stringify(parts.config));
  if (parts.generation) writeFileSync(join(folder, "generation_config.json"), JSON.stringify(parts.generation));
  return folder;
}

/** Tensors under other names. */
export function renamed(tensors: Readonly<Record<string, TensorToWrite>>, rename: (name: string) => string): Record<string, TensorToWrite> {
  return Object.fromEntries(Object.entries(tensors).map(([name, tensor]) => [rename(name), tensor]));
}

/** Zeros. */
export function zeros(dtype: "F32" | "BF16" | "I32" | "F64" | "F8_E4M3", shape: readonly number[]): TensorToWrite {
  const bytes = { F32: 4, BF16: 2, I32: 4, F64: 8, F8_E4M3: 1 }[dtype];
  return { dtype, shape, data: new Uint8Array(shape.reduce((product, size) => product * size, bytes)) };
}
