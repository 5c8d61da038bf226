/** Temporary safetensors files, sound and unsound, for the tests of their reader. */
import { afterAll, expect } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FileError } from "../../lib/errors.ts";

/** A folder for one test file. */
export interface Scratch {
  readonly folder: string;
  /** A path in the folder that was not used before. */
  newPath(name?: string): string;
  /**
   * A file with a header as given, well-formed or not, and `dataBytes` bytes counting up from 0.
   *
   * @param claimedLength the header's length according to the file, if that is wrong.
   */
  fileOf(header: string | Uint8Array, dataBytes?: number, claimedLength?: bigint): string;
}

/** Makes a folder that is removed after the calling file's tests. */
export function scratch(): Scratch {
  const folder = mkdtempSync(join(tmpdir(), "gated-delta-test-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  let made = 0;
  const newPath = (name = "x.safetensors") => {
    mkdirSync(folder, { recursive: true }); // the first of two test files that share a module may have removed it
    return join(folder, `${made++}-${name}`);
  };
  const fileOf: Scratch["fileOf"] = (header, dataBytes = 0, claimedLength) => {
    const json = typeof header === "string" ? new TextEncoder().encode(header) : header;
    const file = new Uint8Array(8 + json.length + dataBytes);
    new DataView(file.buffer).setBigUint64(0, claimedLength ?? BigInt(json.length), true);
    file.set(json, 8);
    for (let i = 0; i < dataBytes; i++) file[8 + json.length + i] = i;
    const path = newPath();
    writeFileSync(path, file);
    return path;
  };
  return { folder, newPath, fileOf };
}

/** The header of a file whose one tensor, `a`, is four bytes. */
export const oneTensor = `{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}`;

/** The text after the path in the error of opening it; fails unless that error is a FileError that names the path. */
export function refusal(path: string, open: (path: string) => unknown): string {
  try {
    open(path);
  } catch (error) {
    if (!(error instanceof FileError)) throw error;
    expect(error.path).toBe(path);
    expect(error.code).toBe("file");
    expect(error.message).toContain(path);
    return error.message.slice(error.message.indexOf(path) + path.length + 2);
  }
  throw new Error(`${path} was opened`);
}
