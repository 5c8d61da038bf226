/**
 * Signed objects: a signature of 32 bytes, then the contents. The signature is HMAC-SHA256 over the contents, with a key that depends
 * on the object's name, so that no object passes for another.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import { signed } from "./signers.ts";

/** Bytes of a signature. */
export const signatureBytes = 32;

/** Larger objects, which take a few tenths of a millisecond, are hashed in another thread. */
const most = 2 ** 17;

/** Signs objects and verifies signatures. An object's bytes may move: use those that are returned. */
export class Seal {
  readonly #secret: Uint8Array;

  constructor(secret: Uint8Array) {
    this.#secret = secret;
  }

  /** An object with its signature. */
  async sign(name: string, object: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
    const { signature, object: moved } = await this.#signature(name, object);
    moved.set(signature);
    return moved;
  }

  /** The object, if it was signed under this name with the same secret and is unchanged. */
  async verified(name: string, object: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const { signature, object: moved } = await this.#signature(name, object);
    return timingSafeEqual(signature, moved.subarray(0, signatureBytes)) ? moved : undefined;
  }

  async #signature(name: string, object: Uint8Array<ArrayBuffer>) {
    const key = Uint8Array.from(createHmac("sha256", this.#secret).update(`object ${name}`).digest());
    if (object.length > most) return await signed({ key, object, from: signatureBytes });
    return { signature: createHmac("sha256", key).update(object.subarray(signatureBytes)).digest(), object };
  }
}
