/**
 * Which library is in use: the public part of finding it, in a file whose declarations name no types of Bun's.
 */
import type { LibrarySource } from "./candidates.ts";
import { loadedInfo } from "./library.ts";

/** The library in use. */
export interface LibraryInfo {
  /** The file that was loaded. */
  readonly path: string;
  /** How it was found. */
  readonly source: LibrarySource;
  /** Its own version text. */
  readonly version: string;
  /** The version of its C interface, an integer from 1 on; this package loads no other than its own. */
  readonly abiVersion: number;
}

/**
 * Loads the library if need be and says which one it is.
 *
 * @throws {LibraryError} when none can be found or used; its message lists everything that was tried.
 */
export function libraryInfo(): LibraryInfo {
  return loadedInfo();
}
