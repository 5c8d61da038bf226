/** The tensors that a model was made of, as its files hold them: what its identity is computed from. */
import { placeOf } from "../../checkpoint/open-checkpoint.ts";
import type { SafetensorsDType } from "../../checkpoint/dtypes.ts";
import type { FileOrigin } from "../../checkpoint/safetensors-file.ts";
import type { FileStamp } from "../../checkpoint/file-stamp.ts";
import type { TensorSource } from "../../checkpoint/source.ts";

/** A file that some of a model's tensors were read from. */
export interface StoredFile {
  /** Absolute. */
  readonly path: string;
  /** When the file was opened, before a tensor was read. */
  readonly stamp: FileStamp;
  /** Whether the file was another one once all tensors had been read: it is not known which bytes these have. */
  readonly changedMeanwhile: boolean;
}

/** A tensor that a model has read. */
export interface StoredTensor {
  readonly name: string;
  readonly dtype: SafetensorsDType;
  readonly shape: readonly number[];
  readonly bytes: number;
  readonly file: StoredFile;
  /** Its first byte in the file. */
  readonly position: number;
}

/**
 * The tensors of a source that were read, by ascending name (in UTF-16 code units).
 *
 * @param source still open.
 */
export function storedTensors(source: TensorSource, wasRead: (name: string) => boolean): StoredTensor[] {
  const files = new Map<FileOrigin, StoredFile>();
  return source.names.filter(wasRead).sort().map((name) => {
    const { dtype, shape, bytes } = source.info(name);
    const { file: origin, position } = placeOf(source, name);
    let file = files.get(origin);
    if (file === undefined) files.set(origin, (file = { path: origin.path, stamp: origin.stamp, changedMeanwhile: !origin.unchanged() }));
    return { name, dtype, shape, bytes, file, position };
  });
}
