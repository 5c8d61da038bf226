/**
 * A model without sessions: weights, the memory of states, keys and values, and runs over them. {@link LanguageModel} adds
 * sessions; {@link memoryOf} returns its core.
 */
import type { Device } from "../device/device.ts";
import { DisposedError, GatedDeltaError, UnsupportedError } from "../errors.ts";
import { DraftMemory } from "../states/draft-memory.ts";
import type { StatePool } from "../states/state-pool.ts";
import type { Entry } from "./batch.ts";
import { Matchers } from "./constraints/matchers.ts";
import { ModelIdentity } from "./identity/model-identity.ts";
import type { LoadedModel } from "./load-weights.ts";
import { freeBeside, planMemory } from "./memory-plan.ts";
import type { LoadModelOptions } from "./model-options.ts";
import type { CompleteLoadOptions } from "./model-schemas.ts";
import { makePages, makeStates } from "./model-pools.ts";
import type { ModelWeights } from "./model-weights.ts";
import type { PagePool } from "./page-pool.ts";
import { PendingRuns } from "./pending-runs.ts";
import { verificationOf } from "./run-result.ts";
import type { RunResult } from "./run-result.ts";
import { RunTurns } from "./run-turns.ts";
import { Runner } from "./runner.ts";
import { expectStatesFit } from "./state-limit.ts";

export class ModelCore implements Disposable {
  readonly pool: StatePool;
  readonly pages: PagePool;
  /** Memory for the records of guesses that are verified. */
  readonly records: DraftMemory;
  readonly weights: ModelWeights;
  readonly identity: ModelIdentity;
  /** The matchers for answers that follow a grammar. */
  readonly matchers = new Matchers();
  /** Whether kernels are chosen by a token's role, so that bits depend on it. */
  readonly byRole: boolean;
  /** The turns of runs and sessions. */
  readonly turns = new RunTurns();
  readonly #runner: Runner;
  readonly #pending: PendingRuns;
  /** Whether a call of {@link runInTurn} with requested results is in progress. */
  #inTurn = false;
  #disposed = false;

  /** @throws if there is too little memory; the weights are disposed then. */
  constructor(op: string, device: Device, { config, weights, bytes, stored }: LoadedModel, options: CompleteLoadOptions) {
    const { dtype, batchTokens, draftTokens } = options;
    this.byRole = options.prompts === "matrix";
    using made = new DisposableStack();
    made.use(weights);
    const { states: { slots, dtype: stateDtype }, pages: { count, tokens, dtype: pageDtype } } = planMemory(op, config, options, freeBeside(bytes));
    const layers = config.layers.filter((type) => type === "gatedDelta").length;
    if (layers === 0) {
      throw new UnsupportedError({ op, argument: "folder", expected: "a model with Gated DeltaNet layers", received: "one without" });
    }
    expectStatesFit(op, slotsArgument(options), slots, config.mixer, { state: stateDtype, conv: dtype });
    this.pool = made.use(makeStates(device, config, { slots, stateDtype, dtype }));
    this.pages = made.use(makePages(op, device, config, { slots, count, tokens, dtype: pageDtype }));
    this.records = made.use(new DraftMemory(this.pool, { rows: draftTokens, dtype, perKey: config.mixer.gateDims === "key" }));
    this.#pending = new PendingRuns(device);
    const committed = (): void => this.#pending.follow();
    const memory = { pool: this.pool, pages: this.pages, records: this.records };
    this.#runner = made.use(new Runner({ device, config, weights, weightBytes: bytes.mapped + bytes.copied, ...memory, committed, dtype, batchTokens, byRole: this.byRole }));
    this.weights = weights;
    this.identity = new ModelIdentity(config, stored, options.activations);
    made.move();
    Object.freeze(this);
  }

  get disposed(): boolean {
    return this.#disposed;
  }

  /** Whether a run with requested results is pending. */
  get running(): boolean {
    return this.#pending.withResults;
  }

  /** Settles when all currently pending runs are over. */
  idle(): Promise<void> {
    return this.#pending.over();
  }

  /**
   * Runs checked entries in a turn that the caller has taken. Entries may have guesses: {@link verificationOf} of their results
   * ends the verification. If records or pages are short, fewer guesses are verified, or none. A run that fails does not change
   * the sequences whose guesses it verifies.
   *
   * @param alone whether nothing else waits to be run: then the next step of sequences that continue may begin.
   */
  async run(op: string, entries: readonly Entry[], alone = false): Promise<RunResult[]> {
    if (this.#disposed) throw new DisposedError({ op, expected: "a model that is not disposed" });
    const results = this.#runner.run(op, entries);
    const ticket = alone && !this.turns.contended ? this.#runner.runAhead(entries) : undefined;
    try {
      await this.#pending.wait(entries, ticket);
    } catch (error) {
      for (const result of results) verificationOf(result)?.leave();
      throw error;
    }
    return results;
  }

  /**
   * Takes a turn and runs entries without guesses. A run without requested results keeps its turn until it is committed.
   *
   * @param ready called in the turn, right before the run; an error that it throws ends the run.
   * @throws {GatedDeltaError} of code `state` while another call with requested results is in progress.
   */
  async runInTurn(op: string, entries: readonly Entry[], ready: () => void): Promise<RunResult[]> {
    if (this.#inTurn) {
      const message = "the previous run's results are still in use: await it first";
      throw new GatedDeltaError("state", { op, message });
    }
    const withResults = entries.some(({ logits, hidden }) => logits !== "none" || hidden !== "none");
    this.#inTurn = withResults;
    try {
      if (this.turns.taken) await this.turns.take();
      else void this.turns.take();
      let results;
      try {
        ready();
        results = this.run(op, entries);
        if (withResults) await results;
      } finally {
        this.turns.give();
      }
      return await results;
    } finally {
      if (withResults) this.#inTurn = false;
    }
  }

  [Symbol.dispose](): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.identity[Symbol.dispose]();
    this.matchers[Symbol.dispose]();
    this.#runner[Symbol.dispose]();
    this.records[Symbol.dispose]();
    this.pages[Symbol.dispose]();
    this.pool[Symbol.dispose]();
    this.weights[Symbol.dispose]();
  }
}

/** The option that sets the number of states. */
function slotsArgument({ sessions, states }: LoadModelOptions): string {
  return sessions !== undefined ? "sessions" : typeof states === "object" ? "states.slots" : "states";
}
