/** The function of a Worker that computes signatures. The Worker gets it as text, so it uses nothing from outside. */

/** Bytes to sign, which move to the Worker. */
export interface SigningRequest {
  readonly key: Uint8Array;
  readonly object: Uint8Array<ArrayBuffer>;
  /** Where the signed bytes begin. */
  readonly from: number;
}

/** The signature, and the bytes, which move back. */
export interface SigningAnswer {
  readonly signature: Uint8Array;
  readonly object: Uint8Array<ArrayBuffer>;
}

/** Answers requests, in their order. Runs in a Worker. */
export function signObjects(): void {
  const { createHmac } = process.getBuiltinModule("node:crypto");
  const { parentPort } = process.getBuiltinModule("node:worker_threads");
  parentPort!.on("message", ({ key, object, from }: SigningRequest) => {
    const signature = Uint8Array.from(createHmac("sha256", key).update(object.subarray(from)).digest());
    const answer: SigningAnswer = { signature, object };
    parentPort!.postMessage(answer, [object.buffer]);
  });
}
