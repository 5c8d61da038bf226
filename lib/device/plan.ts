import type { Device } from "./device.ts";
import { DisposedError, GatedDeltaError } from "../errors.ts";
import { native } from "../tensor/device-handle.ts";
import { createPlan, releasePlan, runPlan } from "../native/device.ts";
import type { Handle } from "../native/handle.ts";
import { recordPass } from "./pass.ts";
import type { Pass } from "./pass.ts";
import { PlanRecorder } from "./encoders.ts";
import type { Submissions } from "./submissions.ts";
import { storageOf } from "../tensor/tensor.ts";

/** Records a plan; what {@link Device.plan} does. */
export let makePlan: (host: PlanHost, build: (pass: Pass) => void) => Plan;

/** What a plan needs of its device. */
export interface PlanHost {
  readonly device: Device;
  readonly submissions: Submissions;
  /** Throws where the device can't take work now. */
  expectIdle(op: string): void;
}

let makingPlan = false;

/**
 * Ops that were checked once and can be replayed with a single native call each time.
 *
 * A replay reads the tensors as they are then. Index data are read anew and checked at every replay: from the same
 * JavaScript arrays, which must keep their lengths, or from the same i32 tensors.
 *
 * A plan keeps its tensors from being collected. A plan over a tensor that was disposed refuses to run.
 *
 * @example
 * const slots = new Int32Array([0]);
 * using plan = device.plan((pass) => {
 *   pass.gatedDeltaStep({ …, readSlots: slots, writeSlots: slots });
 * });
 * for (const token of tokens) {
 *   embed(token, x.data);
 *   plan.run();
 *   device.wait();
 * }
 */
export class Plan implements Disposable {
  static readonly #collected = new FinalizationRegistry<Handle>(releasePlan);

  /** The device that runs it. */
  readonly device: Device;
  readonly #handle: Handle;
  readonly #recorder: PlanRecorder;
  readonly #host: PlanHost;
  /** Memory of the caller's that pending replays need; usually none. */
  readonly #owners: readonly unknown[];
  #disposed = false;
  #running = false;

  private constructor(host: PlanHost, build: (pass: Pass) => void) {
    if (!makingPlan)
      throw new GatedDeltaError("invalid-argument", {
        op: "Plan",
        expected: "device.plan(…) instead of a constructor",
      });
    this.device = host.device;
    this.#host = host;
    this.#handle = createPlan(host.device[native], "device.plan");
    this.#recorder = new PlanRecorder(host.device, this.#handle);
    try {
      recordPass(this.#recorder, "device.plan", build);
    } catch (error) {
      this.#release();
      throw error;
    }
    const owners = this.#recorder.tensors.map(({ tensor }) => storageOf(tensor).owner);
    this.#owners = [...new Set(owners.filter((owner) => owner !== undefined))];
    Plan.#collected.register(this, this.#handle, this);
    Object.freeze(this);
  }

  static {
    makePlan = (host, build) => {
      makingPlan = true;
      try {
        return new Plan(host, build);
      } finally {
        makingPlan = false;
      }
    };
  }

  /** Whether it, or its device, is gone. */
  get disposed(): boolean {
    return this.#disposed || this.device.closed;
  }

  /**
   * Runs the plan's ops, after everything that was encoded or committed before.
   *
   * @returns the submission's ticket.
   * @throws {DisposedError} when the plan or one of its tensors was disposed.
   * @throws {GatedDeltaError} for index data that are out of range by now; nothing runs then.
   */
  run(): number {
    const op = "plan.run";
    if (this.disposed) throw new DisposedError({ op, expected: "a plan that is not disposed" });
    // Reading index arrays can run code of the caller's, which must not replay this plan half way through.
    if (this.#running) throw new GatedDeltaError("state", { op, message: "this plan is being run" });
    this.#running = true;
    try {
      for (const used of this.#recorder.tensors) {
        if (!used.tensor.disposed) continue;
        const received = "a disposed one";
        throw new DisposedError({
          op: used.op,
          argument: used.argument,
          expected: "a tensor that is not disposed",
          received,
        });
      }
      this.#recorder.indices.refresh();
      if (this.disposed) throw new DisposedError({ op, expected: "a plan that is not disposed" });
      this.#host.expectIdle(op);
      return this.#host.submissions.committed(runPlan(this.#handle, op), this.#owners);
    } finally {
      this.#running = false;
    }
  }

  /** Ends the plan; replays that are pending still run. Doing it again does nothing. */
  [Symbol.dispose](): void {
    if (this.#disposed) return;
    this.#disposed = true;
    Plan.#collected.unregister(this);
    this.#release();
  }

  #release(): void {
    if (!this.device.closed) releasePlan(this.#handle);
    this.#recorder.indices.dispose();
  }
}
