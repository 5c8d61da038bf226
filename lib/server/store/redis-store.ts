/** Redis as a store: an object is one or more keys of at most {@link pieceBytes}, a set is a set. */
import type { RedisClient } from "bun";
import { piecesOf } from "./session-store.ts";
import type { SessionStore, StoredObject } from "./session-store.ts";

/** The beginning of every key. */
const prefix = "gated-delta:";

/** Milliseconds for a connection. */
const connectionTimeout = 2000;

export class RedisStore implements SessionStore {
  readonly #client: RedisClient;
  readonly #seconds: number;

  constructor(address: string, { seconds }: { readonly seconds: number }) {
    // The client keeps trying to reach an unavailable server; its users do not wait for that.
    this.#client = new Bun.RedisClient(address, { connectionTimeout, enableOfflineQueue: true, maxRetries: 1_000_000 });
    this.#seconds = seconds;
  }

  async members(sets: readonly string[]): Promise<readonly (readonly string[])[]> {
    return await Promise.all(sets.map((set) => this.#client.smembers(prefix + set)));
  }

  async add(set: string, member: string): Promise<void> {
    await Promise.all([this.#client.sadd(prefix + set, member), this.#client.expire(prefix + set, this.#seconds)]);
  }

  async has(objects: readonly StoredObject[]): Promise<readonly boolean[]> {
    const found = objects.map(({ name, bytes }) => Promise.all(keysOf(name, bytes).map(({ key }) => this.#client.expire(key, this.#seconds))));
    return (await Promise.all(found)).map((pieces) => pieces.every((there) => there === 1));
  }

  async read(name: string, into: Uint8Array<ArrayBuffer>): Promise<boolean> {
    const whole = await Promise.all(
      keysOf(name, into.length).map(async ({ key, from, to }) => {
        const piece = await this.#client.getBuffer(key);
        if (piece?.length !== to - from) return false;
        into.set(piece, from);
        return true;
      }),
    );
    return whole.every((there) => there);
  }

  async write(name: string, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    for (const { key, from, to } of keysOf(name, bytes.length)) await this.#client.set(key, bytes.subarray(from, to), "EX", this.#seconds);
  }

  async remove({ name, bytes }: StoredObject): Promise<void> {
    await this.#client.del(...keysOf(name, bytes).map(({ key }) => key));
  }

  async close(): Promise<void> {
    this.#client.close();
  }
}

function keysOf(name: string, bytes: number) {
  return piecesOf(bytes).map(({ from, to }, i, all) => ({ key: `${prefix}${name}:${i + 1}:${all.length}`, from, to }));
}
