/** Folders and GGUF files that `verify` checks, by the kind of their checkpoint. */

import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { reasonOf, statOf } from "../../checkpoint/regular-file.ts";
import type { Device } from "../../device/device.ts";
import { FileError } from "../../errors.ts";
import type { Prompts } from "../../model/model-options.ts";
import { findGguf } from "../../checkpoint/gguf/find-gguf.ts";
import { modelTypes } from "../../checkpoint/mixer-config.ts";
import { readConfig } from "../../checkpoint/read-config.ts";
import { openCheckpoint } from "../../checkpoint/safetensors.ts";
import type { ActivationForm } from "../../native/options.ts";
import type { FloatDType } from "../../tensor/dtype.ts";
import { mixerKind } from "./mixer-folders.ts";
import { modelKind } from "./model-folders.ts";
import { Report, type Row } from "./report.ts";

/** How checkpoints are run. */
export interface CheckSettings {
  /** Dtype of activations, convolution states and pages; recurrent states are always f32. */
  readonly dtype: FloatDType;
  /** How a model's rows are multiplied by packed weights. */
  readonly activations: ActivationForm;
  /** How models multiply tokens that are read: each in turn. */
  readonly prompts: readonly Prompts[];
}

/** A kind of folder. */
export interface FolderKind {
  /** The class that the folders test, for the report. */
  readonly op: string;
  /** The contents of such a folder, for messages. */
  readonly noun: string;
  /**
   * Whether a folder is of this kind.
   *
   * @param names the names of the checkpoint's tensors.
   * @param types each `model_type` of the configuration.
   */
  matches(names: readonly string[], types: readonly string[]): boolean;
  /**
   * Runs the checkpoint in every way and reports each.
   *
   * @param names the names of the checkpoint's tensors.
   * @throws a typed error if the folder does not fit its kind.
   */
  check(folder: string, names: readonly string[], device: Device, report: Report, settings: CheckSettings): void | Promise<void>;
}

/** Every kind of folder; the first that matches is taken. */
const kinds: readonly FolderKind[] = [modelKind, mixerKind];

/** Whether a path names a folder or a GGUF file. */
export function isCheckpoint(path: string): boolean {
  return (statOf(path)?.isDirectory() ?? false) || findGguf(path) !== undefined;
}

/** Checks a folder, and reports it under the given path. */
export async function checkFolder(path: string, device: Device, settings: CheckSettings): Promise<readonly Row[]> {
  const nouns = kinds.map(({ noun }) => noun).join(" or ");
  try {
    if (statOf(path)?.isDirectory()) readdirSync(path);
  } catch (cause) {
    throw new FileError(path, { op: "verify", expected: "a readable folder", received: reasonOf(cause), cause });
  }
  if (findGguf(path) === undefined && !existsSync(join(path, "config.json"))) {
    throw new FileError(path, { op: "verify", expected: `a golden file, or the directory of ${nouns}`, received: "a directory without config.json" });
  }
  const { names, types } = contentsOf(path);
  const kind = kinds.find(({ matches }) => matches(names, types));
  if (!kind) throw new FileError(path, { op: "verify", expected: nouns, received: "a checkpoint of another kind" });
  const report = new Report({ file: path, op: kind.op, backend: device.backend });
  await kind.check(path, names, device, report, settings);
  return report.rows;
}

function contentsOf(path: string): { readonly names: readonly string[]; readonly types: readonly string[] } {
  using source = openCheckpoint(path, "verify");
  return { names: source.names, types: modelTypes(readConfig(source, undefined, "verify").config) };
}
