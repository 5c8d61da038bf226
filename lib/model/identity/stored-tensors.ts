/** The tensors of a model in its files, from which its identity is computed. */
import { placeOf } from "../../checkpoint/open-checkpoint.ts";
import type { FileOrigin } from "../../checkpoint/file-tensors.ts";
import type { FileStamp } from "../../checkpoint/file-stamp.ts";
import type { TensorSource } from "../../checkpoint/source.ts";

/** A file with tensors of a model. */
export interface StoredFile {
  /** An absolute path. */
  readonly path: string;
  /** The stamp from when the file was opened, before any tensor was read. */
  readonly stamp: FileStamp;
  /** Whether the file changed while its tensors were read, so that their bytes are unknown. */
  readonly changedMeanwhile: boolean;
}

/** A tensor that a model has read. */
export interface StoredTensor {
  readonly name: string;
  /** A dtype of safetensors, or the format of blocks. */
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly bytes: number;
  readonly file: StoredFile;
  /** The tensor's first byte in the file. */
  readonly position: number;
}

/**
 * The tensors that were read from a source, in ascending order of name (in UTF-16 code units).
 *
 * @param source still open.
 */
export function storedTensors(source: TensorSource, wasRead: (name: string) => boolean): StoredTensor[] {
  const files = new Map<FileOrigin, StoredFile>();
  return source.names.filter(wasRead).sort().map((name) => {
    const { dtype, weightFormat, shape, bytes } = source.info(name);
    const { file: origin, position } = placeOf(source, name);
    let file = files.get(origin);
    if (file === undefined) files.set(origin, (file = { path: origin.path, stamp: origin.stamp, changedMeanwhile: !origin.unchanged() }));
    return { name, dtype: weightFormat ?? dtype, shape, bytes, file, position };
  });
}
