/** Folders that `verify` checks: what is in one decides how. */

import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Device } from "../../device/device.ts";
import { FileError } from "../../errors.ts";
import { openCheckpoint } from "../../checkpoint/safetensors.ts";
import type { FloatDType } from "../../tensor/dtype.ts";
import { mixerKind } from "./mixer-folders.ts";
import { modelKind } from "./model-folders.ts";
import { Report, type Row } from "./report.ts";

/** What `verify` knows about one kind of folders. */
export interface FolderKind {
  /** The operation that the folders are about, for the report. */
  readonly op: string;
  /** What such a folder is, for messages. */
  readonly what: string;
  /** Whether a folder whose checkpoint has these tensors is of this kind. */
  matches(names: readonly string[]): boolean;
  /**
   * Runs what is in the folder in every way there is and reports each.
   *
   * @param names the names of the checkpoint's tensors.
   * @param dtype of activations and of what is kept of them; recurrent states are f32 always.
   * @throws a typed error where the folder is not what its kind says.
   */
  check(folder: string, names: readonly string[], device: Device, report: Report, dtype: FloatDType): void | Promise<void>;
}

/** Every kind of folders; the first that matches is taken. */
const kinds: readonly FolderKind[] = [modelKind, mixerKind];

/** Whether a path names a folder. */
export function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

/** Checks a folder, which is reported under the path as given. */
export async function checkFolder(path: string, device: Device, dtype: FloatDType): Promise<readonly Row[]> {
  const what = kinds.map((kind) => kind.what).join(" or ");
  if (!existsSync(join(path, "config.json"))) {
    throw new FileError(path, { op: "verify", expected: `a golden file, or the directory of ${what}`, received: "a directory without config.json" });
  }
  const names = namesOf(path);
  const kind = kinds.find(({ matches }) => matches(names));
  if (!kind) throw new FileError(path, { op: "verify", expected: what, received: "a checkpoint of another kind" });
  const report = new Report({ file: path, op: kind.op, backend: device.backend });
  await kind.check(path, names, device, report, dtype);
  return report.rows;
}

function namesOf(path: string): readonly string[] {
  using source = openCheckpoint(path, "verify");
  return source.names;
}
