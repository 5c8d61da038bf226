/** The identity of a loaded model, computed once, on the first request. */
import { unlessAborted } from "../../arguments/signals.ts";
import { DisposedError, FileError, GatedDeltaError, errorOf } from "../../errors.ts";
import type { ActivationForm } from "../../native/options.ts";
import type { ModelConfig } from "../model-config.ts";
import { identityOf } from "./algorithm.ts";
import { isSettled, readDigests, writeDigests } from "./digest-cache.ts";
import type { StoredFile, StoredTensor } from "./stored-tensors.ts";
import { changedError, digestTensors } from "./tensor-digests.ts";

/** A running computation. */
interface Work {
  readonly promise: Promise<string>;
  readonly controller: AbortController;
  /** How many calls wait for the work, which is cancelled when none is left. */
  waiting: number;
}

export class ModelIdentity implements Disposable {
  readonly #config: ModelConfig;
  readonly #tensors: readonly StoredTensor[];
  readonly #activations: ActivationForm;
  #known: string | undefined;
  #work: Work | undefined;
  #disposed = false;

  constructor(config: ModelConfig, tensors: readonly StoredTensor[], activations: ActivationForm = "exact") {
    this.#activations = activations;
    this.#config = config;
    this.#tensors = tensors;
  }

  /**
   * The identity, in hexadecimal.
   *
   * @param op the call named in errors.
   * @throws {FileError} (as a rejection) if a file has changed since it was loaded; {@link DisposedError} if the model is
   *   disposed meanwhile; the signal's reason.
   */
  async get(op: string, signal?: AbortSignal): Promise<string> {
    signal?.throwIfAborted();
    if (this.#disposed) throw disposedError(op);
    if (this.#known !== undefined) return this.#known;
    const work = (this.#work ??= this.#begin());
    work.waiting++;
    const ended = signal === undefined ? work.controller.signal : AbortSignal.any([signal, work.controller.signal]);
    try {
      return await unlessAborted(work.promise, ended);
    } catch (error) {
      if (this.#disposed) throw disposedError(op);
      throw signal?.aborted ? signal.reason : inNameOf(op, error);
    } finally {
      work.waiting--;
      if (work.waiting === 0) {
        if (this.#work === work) this.#work = undefined;
        work.controller.abort();
      }
    }
  }

  [Symbol.dispose](): void {
    this.#disposed = true;
    this.#work?.controller.abort();
  }

  #begin(): Work {
    const controller = new AbortController();
    return { promise: this.#compute(controller.signal), controller, waiting: 0 };
  }

  async #compute(signal: AbortSignal): Promise<string> {
    const byFile = Map.groupBy(this.#tensors, ({ file }) => file);
    const changed = [...byFile.keys()].find(({ changedMeanwhile }) => changedMeanwhile);
    if (changed !== undefined) throw changedError(changed.path, "a file that was changed while it was loaded");
    const settled = [...byFile.keys()].filter(({ stamp }) => isSettled(stamp));
    const known = new Map<StoredFile, Map<string, string>>();
    for (const file of byFile.keys()) known.set(file, new Map(await readDigests(file.stamp)));
    signal.throwIfAborted();
    const missing = this.#tensors.filter(({ name, file }) => !known.get(file)!.has(name));
    if (missing.length > 0) {
      for (const [{ name, file }, digest] of await digestTensors(missing, signal)) known.get(file)!.set(name, digest);
      const news = new Set(missing.map(({ file }) => file));
      await Promise.all(settled.filter((file) => news.has(file)).map((file) => writeDigests(file.stamp, known.get(file)!)));
    }
    this.#known = identityOf(this.#config, this.#tensors, ({ name, file }) => known.get(file)!.get(name)!, this.#activations);
    return this.#known;
  }
}

function disposedError(op: string): DisposedError {
  return new DisposedError({ op, expected: "a model that is not disposed" });
}

/** An error of the shared computation, with the name of a waiting call. */
function inNameOf(op: string, error: unknown): unknown {
  if (!(error instanceof GatedDeltaError)) return error;
  const { code, expected, received } = error;
  if (error instanceof FileError) return new FileError(error.path, { op, expected, received, cause: error });
  return errorOf(code, { op, message: error.message, cause: error });
}
