/** The keys of clients. */
import { createHash } from "node:crypto";
import { Problem } from "./problem.ts";

/** Keys are compared by their hashes, so that the time of a comparison reveals nothing about a key. */
const hash = (text: string): string => createHash("sha256").update(text).digest("hex");

/** Finds a request's salt by its key. */
export class Keys {
  /** Salts by the hashes of keys; undefined if no key is needed. */
  readonly #salts: ReadonlyMap<string, string> | undefined;

  constructor(keys: readonly string[] | Readonly<Record<string, string>> | undefined) {
    if (keys === undefined) return;
    const pairs = Array.isArray(keys) ? keys.map((key: string) => [hash(key), hash(key)] as const) : Object.entries(keys).map(([key, salt]) => [hash(key), salt] as const);
    this.#salts = new Map(pairs);
  }

  /**
   * The salt of a request. Clients that have a setting for each header may send two keys: the first known one counts.
   *
   * @throws {Problem} for a request without a key or without a known one.
   */
  saltOf(headers: { get(name: string): string | null }): string {
    if (this.#salts === undefined) return "";
    const bearer = /^Bearer +(\S+)$/i.exec(headers.get("authorization") ?? "")?.[1];
    const given = [bearer, headers.get("x-api-key") ?? undefined].filter((key) => key !== undefined);
    const salt = given.map((key) => this.#salts!.get(hash(key))).find((one) => one !== undefined);
    if (salt === undefined) throw new Problem("wrong-key", given.length === 0 ? "an API key is missing" : "the API key is not known here", { headers: { "www-authenticate": "Bearer" } });
    return salt;
  }
}
