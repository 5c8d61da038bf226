/**
 * The library in use. This public part is a separate file, because its declarations must not name Bun's types.
 */
import type { LibrarySource } from "./candidates.ts";
import { loadedInfo } from "./library.ts";

/** The library in use. */
export interface LibraryInfo {
  /** The file that was loaded. */
  readonly path: string;
  /** How it was found. */
  readonly source: LibrarySource;
  /** The library's own version text. */
  readonly version: string;
  /** The version of the library's C interface, an integer from 1 on; this package loads only its own version. */
  readonly abiVersion: number;
}

/**
 * Describes the library in use, and loads it if necessary.
 *
 * @throws {LibraryError} if no library can be found or used; the message lists everything that was tried.
 */
export function libraryInfo(): LibraryInfo {
  return loadedInfo();
}
