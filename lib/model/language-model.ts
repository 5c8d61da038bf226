import { expectMaker, maker } from "../arguments/made.ts";
import type { Maker } from "../arguments/made.ts";
import { checkOptions } from "../arguments/options.ts";
import type { Device } from "../device/device.ts";
import { DisposedError } from "../errors.ts";
import { asDevice } from "../device/device-handle.ts";
import type { FloatDType } from "../tensor/dtype.ts";
import { expectRunnable, readBatch } from "./batch.ts";
import { importSchemas } from "./import-schemas.ts";
import { loadModelWeights } from "./load-weights.ts";
import type { LoadedModel } from "./load-weights.ts";
import type { ModelConfig } from "./model-config.ts";
import type { BatchEntry, IdentityOptions, LoadModelOptions } from "./model-options.ts";
import { identityOptions, loadModelOptions } from "./model-schemas.ts";
import type { CheckedLoadOptions } from "./model-schemas.ts";
import { ModelCore } from "./model-core.ts";
import { rememberMemory } from "./model-memory.ts";
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
 * A text model on a device, dense Qwen3.5 or OLMo hybrid: weights, and memory for the states, keys and values of many sequences.
 *
 * With f32 states the logits of a sequence have the same bits however its tokens are cut into runs, whatever else is in
 * its batches, and whether it was forked: those of all its tokens in one run, alone.
 *
 * @example
 * using model = await LanguageModel.load(device, folder);
 * using sequence = model.sequence();
 * const [result] = await model.run([{ sequence, tokens: prompt }]);
 * const next = result.logits.indexOf(Math.max(...result.logits));
 */
export class LanguageModel implements Disposable {
  /** The device that it is on. */
  readonly device: Device;
  /** Its shape and options, read from its folder. */
  readonly config: ModelConfig;
  /** Dtype of the activations. */
  readonly dtype: FloatDType;
  /** Tokens of a page. */
  readonly pageTokens: number;
  /** Tensors of the folder that belong to parts that are not loaded: a vision tower's, and those of `mtp.*`. */
  readonly skipped: readonly string[];
  /** Its tokenizer and chat templates, where the folder has them: they are read when they are used first. */
  readonly text: ModelText;
  readonly #scheduler: Scheduler;
  #sampling: Partial<SamplingSettings> | undefined;
  readonly #core: ModelCore;

  private constructor(by: Maker, device: Device, loaded: LoadedModel, options: CheckedLoadOptions) {
    const op = "LanguageModel.load";
    expectMaker(by, "LanguageModel", "LanguageModel.load(…)");
    this.#core = new ModelCore(op, device, loaded, options);
    const { dtype, batchTokens, promptTokens } = options;
    const { pool, pages } = this.#core;
    this.device = device;
    this.config = loaded.config;
    this.dtype = dtype;
    this.pageTokens = pages.ledger.pageTokens;
    this.skipped = loaded.skipped;
    this.text = new ModelText(loaded.folder, loaded.config);
    rememberMemory(this, this.#core);
    const { swap = pool.capacity * pool.slotBytes + this.pages * pages.pageBytes } = options;
    this.#scheduler = new Scheduler(this, { promptTokens, batchTokens, swap });
    Object.freeze(this);
  }

  /**
   * Loads a model from a Hugging Face folder, as transformers or mlx-lm leaves it; the path of its one `.safetensors` file
   * will do, next to which the others are. Weights are read straight into the library's memory, and used in the form that
   * they are stored in; other work goes on meanwhile.
   *
   * @throws {FileError} for files that are missing, damaged or of other shapes; {@link UnsupportedError} for other
   *   architectures and quantisations, which says what it is; `ShapeError` for a pool longer than a tensor can be.
   *   Nothing stays allocated then.
   */
  static async load(device: Device, folder: string, options: LoadModelOptions = {}): Promise<LanguageModel> {
    const op = "LanguageModel.load";
    asDevice(op, device);
    await importSchemas();
    const checked = checkOptions(loadModelOptions, op, options);
    const { dtype, onProgress } = checked;
    const loaded = await loadModelWeights(device, folder, { dtype, onProgress });
    return new LanguageModel(maker, device, loaded, checked);
  }

  /** How many sequences there can be. */
  get states(): number {
    return this.#core.pool.capacity;
  }

  /** How many more sequences and forks there can be. */
  get freeStates(): number {
    return this.#core.pool.free;
  }

  /** How many pages there are; 0 for a model without attention layers. */
  get pages(): number {
    return this.#core.pages.layers.length > 0 ? this.#core.pages.ledger.capacity : 0;
  }

  /** How many pages hold nothing. */
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

  /** Whether it was disposed. */
  get disposed(): boolean {
    return this.#core.disposed;
  }

  /**
   * A new sequence of no tokens.
   *
   * @throws {GatedDeltaError} of code `out-of-memory` when no state is free, and none is a cache's or an idle session's.
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
   * A new session of no tokens: a conversation that shares the model's steps with all others. It takes a state when its first
   * tokens are read.
   *
   * @throws {GatedDeltaError} for wrong options, and for a cache of another model.
   */
  session(options: SessionOptions = {}): Session {
    this.#alive("model.session");
    return makeSession(this, this.#scheduler, options);
  }

  /**
   * A cache of what sessions have read, for those that are made with it.
   *
   * @throws {GatedDeltaError} for wrong options.
   */
  cache(options: SessionCacheOptions): SessionCache {
    this.#alive("model.cache");
    const { stateBytes, pageBytes, pageTokens } = this;
    return makeCache({ scheduler: this.#scheduler, stateBytes, pageBytes, pageTokens }, options);
  }

  /** How many steps of sessions have run: each is one {@link run}. */
  get steps(): number {
    return this.#scheduler.steps;
  }

  /** Sampling settings of the folder's `generation_config.json`; read when they are first asked for. */
  modelSampling(): Partial<SamplingSettings> {
    return (this.#sampling ??= readModelSampling(this.text.folder));
  }

  /**
   * Tells this model apart from others: a SHA-256 over every tensor that it has read, with name, dtype, shape and bytes, and over its
   * configuration. Copies of a folder, and its tensors in other files, have the same one; a folder in
   * which one bit of a weight differs has another. A session's file holds it, so that no other model goes on from it.
   *
   * It is computed when it is asked for first, here or by a session that is saved or loaded: in the background, from the files,
   * at 2 GB/s or more where the processor has instructions for SHA-256. Then it is kept in the user's cache folder
   * (`GATED_DELTA_CACHE`, `$XDG_CACHE_HOME/gated-delta`, or the system's usual one), for as long as the files stay as they are.
   *
   * @returns 64 hexadecimal digits, the same in every process and on every machine.
   *
   * @throws {FileError} (as a rejection, like the others) where it is not known yet and a file was changed, replaced or
   *   removed since the model was loaded; {@link DisposedError} where the model is disposed, also meanwhile; the signal's reason.
   */
  async identity(options: IdentityOptions = {}): Promise<string> {
    const op = "model.identity";
    this.#alive(op);
    const { signal } = checkOptions(identityOptions, op, options);
    return await this.#core.identity.get(op, signal);
  }

  /** Whether a run whose logits or hidden states are wanted is pending. */
  get running(): boolean {
    return this.#core.running;
  }

  /**
   * Adds tokens to sequences: any mixture of prompts, pieces of them and single tokens. The batch runs as one submission,
   * or as several that follow each other where it has more than `batchTokens` tokens.
   *
   * Logits and hidden states lie in memory that every run uses: a result can be read until the next run. So while a call of
   * which some are wanted is pending another one is refused; runs that want none may follow each other without waiting.
   *
   * Sessions run by themselves: a run waits while one of their steps is under way, steps and runs take turns, and results end
   * with the next step, which begins in a later turn of the event loop than the one in which they can be had.
   *
   * @returns one result an entry, in order, when the work is done.
   * @throws {GatedDeltaError} (as a rejection) that names the argument: entries of another form, a sequence that comes
   *   twice, was disposed or belongs to another model, no tokens, ids outside the vocabulary, tokens past
   *   `config.maxPositions`; of code `out-of-memory` where pages run out; of code `state` for an invalid sequence, and
   *   while a call whose results are wanted is pending. No sequence has changed then, and nothing has run.
   * @throws the failure of its work, or of a run that it followed: the sequences that this was to write are invalid. Where
   *   they are not, the failure of other work on the device, as `device.finish`.
   */
  async run(batch: readonly BatchEntry[]): Promise<RunResult[]> {
    const op = "model.run";
    this.#alive(op);
    const { vocabSize, maxPositions } = this.config;
    const limits = { model: this, vocabSize, maxPositions, states: this.states };
    const entries = readBatch(op, batch, limits);
    this.#alive(op); // reading the batch can run code of the caller's
    expectRunnable(op, entries, limits);
    if (entries.length === 0) return [];
    return await this.#core.runInTurn(op, entries, () => {
      this.#alive(op);
      expectRunnable(op, entries, limits);
      const { ledger } = this.#core.pages;
      this.#scheduler.room.callersPages(ledger.needed(entries.map(({ parts }) => parts.list), entries.map(({ tokens }) => tokens.length)));
    });
  }

  /** Frees weights, states and pages as soon as no pending work needs them. Its sequences end too. */
  [Symbol.dispose](): void {
    this.#core[Symbol.dispose]();
  }

  #alive(op: string): void {
    if (this.#core.disposed) throw new DisposedError({ op, expected: "a model that is not disposed" });
  }
}
