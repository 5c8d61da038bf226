/** Stamps of files: a file that is written to, replaced or renamed gets another stamp. */
import { fstatSync } from "node:fs";

/** Identifies a version of a file's contents. Times are in nanoseconds; `changed` is the inode's change time, which programs can't set. */
export interface FileStamp {
  readonly device: bigint;
  readonly inode: bigint;
  readonly size: bigint;
  readonly modified: bigint;
  readonly changed: bigint;
}

/** The stamp of an open file. */
export function stampOf(descriptor: number): FileStamp {
  const { dev: device, ino: inode, size, mtimeNs: modified, ctimeNs: changed } = fstatSync(descriptor, { bigint: true });
  return { device, inode, size, modified, changed };
}

/** A stamp as text; different stamps have different texts. */
export function stampText({ device, inode, size, modified, changed }: FileStamp): string {
  return [device, inode, size, modified, changed].join(" ");
}
