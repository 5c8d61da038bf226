/** A bucket of S3, or of another server with its API, as a store. Large objects are uploaded in parts and downloaded in ranges. */
import type { S3Client, S3Options } from "bun";
import { pieceBytes, piecesOf } from "./session-store.ts";
import type { SessionStore, StoredObject } from "./session-store.ts";

/** How many pieces of an object are transferred at a time. */
const atOnce = 4;

export class S3Store implements SessionStore {
  readonly #client: S3Client;
  readonly #prefix: string;
  readonly #milliseconds: number;

  /** @param prefix the beginning of every key; empty, or with a slash at its end. */
  constructor(bucket: string, prefix: string, { seconds }: { readonly seconds: number }) {
    this.#client = new Bun.S3Client({ bucket, ...environment() });
    this.#prefix = prefix;
    this.#milliseconds = 1000 * seconds;
  }

  async members(sets: readonly string[]): Promise<readonly (readonly string[])[]> {
    return await Promise.all(
      sets.map(async (set) => {
        const prefix = `${this.#prefix}${set}/`;
        const { contents = [] } = await this.#client.list({ prefix });
        return contents.map(({ key }) => key.slice(prefix.length));
      }),
    );
  }

  async add(set: string, member: string): Promise<void> {
    await this.#client.write(`${this.#prefix}${set}/${member}`, "");
  }

  async has(objects: readonly StoredObject[]): Promise<readonly boolean[]> {
    return await Promise.all(
      objects.map(async ({ name, bytes }) => {
        const found = await unlessMissing(this.#client.stat(this.#prefix + name), undefined);
        // S3 can't be told that an object is used: an old one is written again. One that a newer one uses may get up to twice as old.
        return found !== undefined && found.size === bytes && Date.now() - found.lastModified.getTime() < this.#milliseconds;
      }),
    );
  }

  async read(name: string, into: Uint8Array<ArrayBuffer>): Promise<boolean> {
    const file = this.#client.file(this.#prefix + name);
    const pieces = [...piecesOf(into.length)];
    const take = async (): Promise<boolean> => {
      for (let piece = pieces.shift(); piece !== undefined; piece = pieces.shift()) {
        const { from, to } = piece;
        // The last range asks for one more byte than an object of this size has.
        const bytes = await unlessMissing(file.slice(from, to === into.length ? to + 1 : to).bytes(), undefined);
        if (bytes?.length !== to - from) return false;
        into.set(bytes, from);
      }
      return true;
    };
    const whole = await Promise.all(Array.from({ length: atOnce }, take));
    return whole.every((there) => there);
  }

  async write(name: string, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    const file = this.#client.file(this.#prefix + name);
    if (bytes.length <= pieceBytes) {
      await file.write(bytes);
      return;
    }
    const writer = file.writer({ partSize: pieceBytes, queueSize: atOnce, retry: 3 });
    for (const { from, to } of piecesOf(bytes.length)) {
      writer.write(bytes.subarray(from, to));
      await writer.flush();
    }
    // Without credentials nothing is written and nothing is thrown.
    if ((await writer.end()) !== bytes.length) throw new Error(`${name} could not be written to the bucket`);
  }

  async remove({ name }: StoredObject): Promise<void> {
    await this.#client.delete(this.#prefix + name);
  }

  async close(): Promise<void> {}
}

/** Credentials and the endpoint from the current environment: Bun itself reads it only when the process starts. */
function environment(): S3Options {
  const names = { accessKeyId: "ACCESS_KEY_ID", secretAccessKey: "SECRET_ACCESS_KEY", sessionToken: "SESSION_TOKEN", region: "REGION", endpoint: "ENDPOINT" };
  const values = Object.entries(names).map(([option, name]) => [option, process.env[`S3_${name}`] ?? process.env[`AWS_${name}`]] as const);
  return Object.fromEntries(values.filter(([, value]) => value !== undefined));
}

async function unlessMissing<T, Else>(work: Promise<T>, otherwise: Else): Promise<T | Else> {
  try {
    return await work;
  } catch (error) {
    const { code } = error as { code?: unknown };
    if (code === "NoSuchKey" || code === "NotFound" || code === "InvalidRange") return otherwise;
    throw error;
  }
}
