/** The golden matrices that MLX has quantised: see test/golden/affine/make.py. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { FloatDType } from "../../lib/index.ts";
import { openSafetensors } from "../../lib/checkpoint/safetensors.ts";
import type { Quantised } from "../reference/quantised.ts";
import { reference } from "../reference/tensor.ts";
import type { Reference } from "../reference/tensor.ts";

const folder = join(import.meta.dir, "../golden/affine");

/** One matrix, and MLX's quantised form of it. */
export interface Affine {
  readonly format: FloatDType;
  readonly weight: Quantised;
  /** The numbers in its packed stream. */
  readonly q: ArrayLike<number>;
  readonly x: Reference;
  readonly out: ArrayLike<number>;
}

/** The files' paths. */
export function affineFiles(): string[] {
  return readdirSync(folder).filter((name) => name.endsWith(".safetensors")).sort().map((name) => join(folder, name));
}

/** A file's matrices. */
export function loadAffine(path: string): Affine[] {
  using file = openSafetensors(path);
  const bits = Number(file.metadata.get("bits"));
  return file
    .namesWithPrefix("g")
    .filter((key) => key.endsWith(".words"))
    .map((key) => {
      const prefix = key.slice(0, -"words".length);
      const [group, format] = prefix.split(".") as [string, FloatDType];
      const tensor = (name: string) => reference(file.info(prefix + name).shape, file.float64(prefix + name));
      const weight = { bits, group: Number(group.slice(1)), words: tensor("words"), scales: tensor("scales"), biases: tensor("biases") };
      return { format, weight, q: tensor("q").data, x: tensor("x"), out: tensor("out").data };
    });
}
