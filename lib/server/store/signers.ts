/** The process's Workers that compute signatures of large objects, so that answers do not wait. They end when they are idle. */
import { Worker } from "node:worker_threads";
import { GatedDeltaError } from "../../errors.ts";
import { signObjects } from "./signing-program.ts";
import type { SigningAnswer, SigningRequest } from "./signing-program.ts";

/** The most Workers: with two, hashing keeps up with a fast network. */
const mostSigners = 2;

/** Milliseconds without work after which a Worker ends. */
const idle = 10_000;

interface Waiting {
  resolve(answer: SigningAnswer): void;
  reject(error: unknown): void;
}

class Signer {
  readonly #worker = new Worker(`(${signObjects})()`, { eval: true, name: "gated-delta signatures" });
  /** Waiting requests, in order, which is also the order of the answers. */
  readonly #waiting: Waiting[] = [];
  #timer: Timer | undefined;
  ended = false;

  constructor() {
    this.#worker.on("message", (answer: SigningAnswer) => {
      this.#waiting.shift()!.resolve(answer);
      if (this.#waiting.length === 0) this.#timer = setTimeout(() => this.#end("idle"), idle).unref();
    });
    this.#worker.on("error", (error) => this.#end(error));
    this.#worker.on("exit", () => this.#end("it ended"));
    this.#worker.unref();
  }

  /** How many objects are being signed. */
  get pending(): number {
    return this.#waiting.length;
  }

  ask(request: SigningRequest): Promise<SigningAnswer> {
    clearTimeout(this.#timer);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#worker.postMessage(request, [request.object.buffer]);
    });
  }

  #end(cause: unknown): void {
    if (this.ended) return;
    this.ended = true;
    signers.delete(this);
    for (const { reject } of this.#waiting) reject(new GatedDeltaError("internal", { message: "a Worker that signs objects ended before it was done", cause }));
    void this.#worker.terminate();
  }
}

const signers = new Set<Signer>();

/** Computes a signature. The object's bytes move away; use the answer's bytes. */
export function signed(request: SigningRequest): Promise<SigningAnswer> {
  let signer = [...signers].sort((a, b) => a.pending - b.pending)[0];
  if (signer === undefined || (signer.pending > 0 && signers.size < mostSigners)) signers.add((signer = new Signer()));
  return signer.ask(request);
}
