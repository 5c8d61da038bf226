/** The interface of stores, in which servers keep conversations for each other. */

/** An object of a store. */
export interface StoredObject {
  /** Letters, digits, dots, hyphens, underscores, and slashes between non-empty parts. */
  readonly name: string;
  /** The object's size in bytes, at least 1. */
  readonly bytes: number;
}

/**
 * A place where servers keep the states, keys and values of conversations, so that any server can continue a conversation that another
 * one began: objects of bytes under names, and sets of short texts. {@link openStore} offers a folder, Redis and S3; other stores
 * implement this interface.
 *
 * A server trusts nothing that a store gives: objects are signed, and one that is missing or was changed costs only time. So a store may
 * lose objects and need not write durably. It sees the states, keys and values of conversations, from which the conversations can be
 * reconstructed.
 */
export interface SessionStore {
  /**
   * The members of sets, in any order; none for a set that does not exist. Like the other functions, this one rejects if the store fails.
   */
  members(sets: readonly string[]): Promise<readonly (readonly string[])[]>;
  /** Adds a member, letters and digits, to a set. */
  add(set: string, member: string): Promise<void>;
  /** For each object, whether it exists. Existing objects count as used, so that unused objects are dropped before them. */
  has(objects: readonly StoredObject[]): Promise<readonly boolean[]>;
  /**
   * Reads an object.
   *
   * @param into as many bytes as the object has.
   * @returns whether there is an object of this size. If not, the bytes are undefined.
   */
  read(name: string, into: Uint8Array<ArrayBuffer>): Promise<boolean>;
  /** Writes or replaces an object. Readers see all of it or none, or bytes that are not an object. */
  write(name: string, bytes: Uint8Array<ArrayBuffer>): Promise<void>;
  /** Removes an object, if there is one. */
  remove(object: StoredObject): Promise<void>;
  /** Ends connections. */
  close(): Promise<void>;
}

/** Options of {@link openStore}. */
export interface StoreOptions {
  /** How many seconds objects are kept after their last use, 1 .. 2^31 - 1. @default 604800, a week */
  readonly seconds?: number | undefined;
  /**
   * The most bytes of a folder: above this limit, the least recently used objects are removed. Redis has its own limit
   * (`maxmemory`), S3 has none. @default 2^36, 64 GiB
   */
  readonly bytes?: number | undefined;
}

/** The largest pieces in which objects are sent over a network, in bytes. */
export const pieceBytes = 8 * 2 ** 20;

/** The pieces of an object of that many bytes. */
export function piecesOf(bytes: number): readonly { readonly from: number; readonly to: number }[] {
  return Array.from({ length: Math.max(1, Math.ceil(bytes / pieceBytes)) }, (_, i) => ({ from: i * pieceBytes, to: Math.min(bytes, (i + 1) * pieceBytes) }));
}
