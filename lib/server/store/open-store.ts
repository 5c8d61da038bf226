/** Opens stores by their places. */
import { invalid } from "../../arguments/checks.ts";
import { checkOptions } from "../../arguments/options.ts";
import { FolderStore } from "./folder-store.ts";
import { RedisStore } from "./redis-store.ts";
import { S3Store } from "./s3-store.ts";
import type { SessionStore, StoreOptions } from "./session-store.ts";
import { storeOptions } from "./store-schemas.ts";

/**
 * A store in which servers keep conversations for each other: a shared folder, Redis, or an S3 bucket.
 *
 * Redis and S3 are used through Bun's clients. The S3 client takes credentials and the endpoint from the environment (`S3_ACCESS_KEY_ID`,
 * `S3_SECRET_ACCESS_KEY`, `S3_ENDPOINT`, `S3_REGION`, or the same with `AWS_`). S3 removes nothing by itself: give the bucket a rule that
 * removes objects after twice {@link StoreOptions.seconds}.
 *
 * @example
 * const store = openStore("redis://127.0.0.1:6379");
 * const handler = createHandler(model, { cache, store, secret: process.env.GATED_DELTA_SECRET });
 *
 * @param place a folder, which is made if it is missing; `redis://…` or `rediss://…`; or `s3://BUCKET`, `s3://BUCKET/FOLDER`.
 * @throws {GatedDeltaError} that names the argument, for other places and wrong options; `FileError` for a folder that can't be made. An
 *   unreachable server is found only when the store is used.
 */
export function openStore(place: string, options: StoreOptions = {}): SessionStore {
  const op = "openStore";
  const { seconds, bytes } = checkOptions(storeOptions, op, options);
  const expected = "a folder, redis://…, rediss://… or s3://BUCKET/FOLDER";
  if (typeof place !== "string" || place === "") throw invalid(op, "place", expected, place);
  const [, scheme] = /^([a-z0-9+.-]+):\/\//i.exec(place) ?? [];
  switch (scheme?.toLowerCase()) {
    case undefined:
      return new FolderStore(op, place, { seconds, bytes });
    case "redis":
    case "rediss":
      if (!URL.canParse(place) || new URL(place).hostname === "") break;
      return new RedisStore(place, { seconds });
    case "s3": {
      const [, bucket, folder = ""] = /^s3:\/\/([^/]+)(?:\/(.*?))?\/*$/i.exec(place) ?? [];
      if (bucket === undefined) break;
      return new S3Store(bucket, folder === "" ? "" : `${folder}/`, { seconds });
    }
  }
  throw invalid(op, "place", expected, place);
}
