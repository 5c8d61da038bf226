import { importZod } from "../arguments/import-zod.ts";
import { expectMaker, maker } from "../arguments/made.ts";
import type { Maker } from "../arguments/made.ts";
import { checkOptions } from "../arguments/options.ts";
import type { Device } from "../device/device.ts";
import { DisposedError, UnsupportedError } from "../errors.ts";
import { asDevice } from "../device/device-handle.ts";
import type { WeightBytes } from "../checkpoint/tensor-loader.ts";
import type { MatrixUse } from "../checkpoint/matrix.ts";
import type { ActivationForm } from "../native/options.ts";
import type { FloatDType } from "../tensor/dtype.ts";
import { expectRunnable, readBatch } from "./batch.ts";
import { loadModelWeights } from "./load-weights.ts";
import type { LoadedModel } from "./load-weights.ts";
import { expectFits } from "./memory-plan.ts";
import type { ModelConfig } from "./model-config.ts";
import type { BatchEntry, IdentityOptions, LoadModelOptions, Prompts } from "./model-options.ts";
import { identityOptions, loadModelOptions } from "./model-schemas.ts";
import type { CompleteLoadOptions } from "./model-schemas.ts";
import { ModelCore } from "./model-core.ts";
import { rememberMemory } from "./model-memory.ts";
import { prepareModel } from "./prepare-model.ts";
import type { RunResult } from "./run-result.ts";
import { readModelSampling } from "./sampling/generation-config.ts";
import type { SamplingSettings } from "./sampling/settings.ts";
import { makeSequence, noState } from "./sequence.ts";
import type { Sequence } from "./sequence.ts";
import { makeCache } from "./session/prefix-cache.ts";
import type { SessionCache, SessionCacheOptions } from "./session/prefix-cache.ts";
import { Scheduler } from "./session/scheduler.ts";
import { makeSession } from "./session/session.ts";
import type { Session } from "./session/session.ts";
import type { SessionOptions } from "./session/session-options.ts";
import { ModelText } from "./text/model-text.ts";

/**
 * A text model on a device (Qwen3.5, Qwen3-Next, OLMo hybrid): weights, and memory for the states, keys and values of many sequences.
 *
 * With f32 states, the logits of a sequence have the same bits however its tokens are split into runs, whatever else is in
 * its batches, and whether or not it was forked: the bits of one run over all its tokens, alone. With `prompts: "matrix"` they
 * also depend on the tokens' roles.
 *
 * @example
 * using model = await LanguageModel.load(device, folder);
 * using sequence = model.sequence();
 * const [result] = await model.run([{ sequence, tokens: prompt }]);
 * const next = result.logits.indexOf(Math.max(...result.logits));
 */
export class LanguageModel implements Disposable {
  /** The device of the model's weights and memory. */
  readonly device: Device;
  /** The model's shape and options, from its folder. */
  readonly config: ModelConfig;
  /** Dtype of the activations. */
  readonly dtype: FloatDType;
  /** How tokens that are read are multiplied. */
  readonly prompts: Prompts;
  /** Number of tokens of a page. */
  readonly pageTokens: number;
  /** Names of the folder's tensors that were not loaded: those of a vision tower and of `mtp.*`. */
  readonly skipped: readonly string[];
  /** Bytes of the weights in mapped files and in the library's memory. */
  readonly weights: WeightBytes;
  /** How rows are multiplied by packed weights. */
  readonly activations: ActivationForm;
  /** How rows are multiplied by each matrix. */
  readonly matrices: readonly MatrixUse[];
  /** The tokenizer and chat templates, if the folder or the GGUF file has them. They are read when they are first used. */
  readonly text: ModelText;
  readonly #scheduler: Scheduler;
  #sampling: Partial<SamplingSettings> | undefined;
  readonly #core: ModelCore;

  private constructor(by: Maker, device: Device, loaded: LoadedModel, options: CompleteLoadOptions) {
    const op = "LanguageModel.load";
    expectMaker(by, "LanguageModel", "LanguageModel.load(…)");
    this.#core = new ModelCore(op, device, loaded, options);
    const { dtype, batchTokens, promptTokens } = options;
    const { pool, pages } = this.#core;
    this.device = device;
    this.config = loaded.config;
    this.dtype = dtype;
    this.prompts = options.prompts;
    this.pageTokens = pages.ledger.pageTokens;
    this.skipped = loaded.skipped;
    this.weights = Object.freeze(loaded.bytes);
    this.activations = options.activations;
    this.matrices = Object.freeze(loaded.matrices.map((use) => Object.freeze(use)));
    this.text = new ModelText(loaded.folder, loaded.config);
    rememberMemory(this, this.#core);
    const { swap = pool.capacity * pool.slotBytes + this.pages * pages.pageBytes } = options;
    this.#scheduler = new Scheduler(this, { promptTokens, batchTokens, swap });
    Object.freeze(this);
  }

  /**
   * Loads a model from a Hugging Face folder, as transformers or mlx-lm writes it; from the path of its only `.safetensors`
   * file, in the same folder as its other files; or from a GGUF file, any file of a split one, or a folder with one. Weights are
   * read in the background, straight into the library's memory, or stay in their files with `weights: "mapped"`; they keep their
   * stored form. Meanwhile a GPU's kernels for the model are compiled.
   *
   * @throws {FileError} for files that are missing, damaged or of other shapes; `UnsupportedError`, which
   *   names them, for other architectures and quantisations, and for `activations: "int8"` on a backend other than the CPU;
   *   `ShapeError` for a pool longer than a tensor can be; `GatedDeltaError` of code `out-of-memory`, with both numbers, before
   *   anything is read, if weights, states and pages need more memory than there is. Nothing stays allocated then.
   */
  static async load(device: Device, folder: string, options: LoadModelOptions = {}): Promise<LanguageModel> {
    const op = "LanguageModel.load";
    asDevice(op, device);
    await importZod();
    const checked = checkOptions(loadModelOptions, op, options);
    const { dtype, onProgress, weights, activations, prompts } = checked;
    if (activations !== "exact" && device.backend !== "cpu") {
      throw new UnsupportedError({ op, argument: "activations", expected: "exact on this backend", received: activations });
    }
    if (prompts === "matrix" && device.backend !== "metal") {
      throw new UnsupportedError({ op, argument: "prompts", expected: '"exact": a CPU has no matrix units', received: '"matrix"' });
    }
    const fits = (config: ModelConfig, bytes: WeightBytes, own: FloatDType): void => expectFits(op, config, { ...checked, dtype: own }, bytes);
    const loaded = await loadModelWeights(device, folder, {
      dtype, onProgress, weights, activations, expectFits: fits,
      prepare: (model, progress) => prepareModel(op, device, model, { ...checked, dtype: model.dtype }, progress),
    });
    return new LanguageModel(maker, device, loaded, { ...checked, dtype: loaded.dtype });
  }

  /** The largest number of sequences at a time, forks included. */
  get states(): number {
    return this.#core.pool.capacity;
  }

  /** Number of states for further sequences and forks. */
  get freeStates(): number {
    return this.#core.pool.free;
  }

  /** Number of pages; 0 for a model without attention layers. */
  get pages(): number {
    return this.#core.pages.layers.length > 0 ? this.#core.pages.ledger.capacity : 0;
  }

  /** Number of unused pages. */
  get freePages(): number {
    return this.#core.pages.layers.length > 0 ? this.#core.pages.ledger.free : 0;
  }

  /** Bytes of one sequence's states. */
  get stateBytes(): number {
    return this.#core.pool.slotBytes;
  }

  /** Bytes of one page in all layers. */
  get pageBytes(): number {
    return this.#core.pages.pageBytes;
  }

  /** Whether the model was disposed. */
  get disposed(): boolean {
    return this.#core.disposed;
  }

  /**
   * A new, empty sequence.
   *
   * @throws {GatedDeltaError} of code `out-of-memory` if all states are in use; states of caches and idle sessions are freed first.
   */
  sequence(): Sequence {
    const op = "model.sequence";
    this.#alive(op);
    this.#scheduler.room.callersState();
    const { free, capacity } = this.#core.pool;
    if (free === 0) throw noState(op, capacity);
    const { ledger } = this.#core.pages;
    return makeSequence({ model: this, ledger, handle: this.#core.pool.allocate(), list: ledger.create(), lost: undefined, verification: undefined });
  }

  /**
   * A new, empty session: a conversation that shares the model's steps with all others. It takes a state when its first tokens
   * are read.
   *
   * @throws {GatedDeltaError} for wrong options, and for a cache of another model.
   */
  session(options: SessionOptions = {}): Session {
    this.#alive("model.session");
    return makeSession(this, this.#scheduler, options);
  }

  /**
   * A cache of the prefixes that sessions have read. A session uses the cache that it is created with.
   *
   * @throws {GatedDeltaError} for wrong options.
   */
  cache(options: SessionCacheOptions): SessionCache {
    this.#alive("model.cache");
    const { stateBytes, pageBytes, pageTokens } = this;
    return makeCache({ scheduler: this.#scheduler, stateBytes, pageBytes, pageTokens }, options);
  }

  /** Number of sessions' steps that have run; each is one {@link run}. */
  get steps(): number {
    return this.#scheduler.steps;
  }

  /** Sampling settings of the folder's `generation_config.json` or of the GGUF file's metadata; read at the first access. */
  modelSampling(): Partial<SamplingSettings> {
    return (this.#sampling ??= readModelSampling(this.text.folder));
  }

  /**
   * Identifies the model: a SHA-256 over its configuration, its activations unless they are exact, and the name, dtype, shape and
   * bytes of every tensor that it has loaded. Copies of a folder, even with the tensors in other files, have the same identity; a
   * folder with one different bit in a weight has another. Session files hold the identity, so that no other model continues them.
   *
   * The first call, or the first save or load of a session, computes the identity: in the background, from the files, at 2 GB/s or
   * more if the processor has instructions for SHA-256. It is then kept in the user's cache folder (`GATED_DELTA_CACHE`,
   * `$XDG_CACHE_HOME/gated-delta`, or the system's usual one) until the files change.
   *
   * @returns 64 hexadecimal digits, the same in every process and on every machine.
   *
   * @throws {FileError} (as a rejection, like the others) if the identity is not known yet and a file was changed, replaced or
   *   removed since the model was loaded; {@link DisposedError} if the model is disposed, even meanwhile; the signal's reason.
   */
  async identity(options: IdentityOptions = {}): Promise<string> {
    const op = "model.identity";
    this.#alive(op);
    const { signal } = checkOptions(identityOptions, op, options);
    return await this.#core.identity.get(op, signal);
  }

  /** Whether a run with requested logits or hidden states is pending. */
  get running(): boolean {
    return this.#core.running;
  }

  /**
   * Adds tokens to sequences: any mixture of prompts, pieces of prompts and single tokens. The batch runs as one submission, or
   * as several consecutive ones if it has more than `batchTokens` tokens.
   *
   * Logits and hidden states are in memory that every run overwrites: a result can be read until the next run. So further calls
   * are refused while a call with requested logits or hidden states is pending; runs without any need not be awaited.
   *
   * Runs and the steps of sessions take turns: a run waits for a step that is in progress, and the next step ends the results.
   * That step begins in a later turn of the event loop than the one in which the results arrive.
   *
   * @returns one result for each entry, in order, when the work is done.
   * @throws {GatedDeltaError} (as a rejection) that names the argument: for malformed entries, a sequence that occurs twice, was
   *   disposed or belongs to another model, no tokens, ids outside the vocabulary, tokens past `config.maxPositions`; of code
   *   `out-of-memory` if pages run out; of code `state` for an invalid sequence, and while a call with requested results is
   *   pending. No sequence has changed then, and nothing has run.
   * @throws the failure of the run's work, or of an earlier run that it depends on; the sequences of the failed run are then
   *   invalid. Otherwise the failure of other work on the device, as `device.finish`.
   */
  async run(batch: readonly BatchEntry[]): Promise<RunResult[]> {
    const op = "model.run";
    this.#alive(op);
    const { vocabSize, maxPositions } = this.config;
    const limits = { model: this, vocabSize, maxPositions, states: this.states };
    const entries = readBatch(op, batch, limits);
    this.#alive(op); // reading the batch can run the caller's code
    expectRunnable(op, entries, limits);
    if (entries.length === 0) return [];
    return await this.#core.runInTurn(op, entries, () => {
      this.#alive(op);
      expectRunnable(op, entries, limits);
      const { ledger } = this.#core.pages;
      this.#scheduler.room.callersPages(ledger.needed(entries.map(({ parts }) => parts.list), entries.map(({ tokens }) => tokens.length)));
    });
  }

  /** Frees weights, states and pages as soon as no pending work needs them. The model's sequences also end. */
  [Symbol.dispose](): void {
    this.#core[Symbol.dispose]();
  }

  #alive(op: string): void {
    if (this.#core.disposed) throw new DisposedError({ op, expected: "a model that is not disposed" });
  }
}
