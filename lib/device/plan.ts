import type { Device } from "./device.ts";
import { DisposedError, GatedDeltaError, describe } from "../errors.ts";
import { native } from "./device-handle.ts";
import { createPlan, releasePlan, runPlan } from "../native/device.ts";
import type { Handle } from "../native/handle.ts";
import { expectMaker, maker } from "../arguments/made.ts";
import type { Maker } from "../arguments/made.ts";
import { membersOf } from "../arguments/members.ts";
import { recordPass } from "./pass.ts";
import type { Pass } from "./pass.ts";
import { PlanRecorder } from "./encoders.ts";
import type { DeviceWork } from "./work.ts";
import { disposals, storageOf } from "../tensor/tensor.ts";

/** Records a plan: implements {@link Device.plan}. */
export let makePlan: (work: DeviceWork, build: (pass: Pass) => void) => Plan;

/** Options of {@link Plan.run}. */
export interface PlanRunOptions {
  /** The step whose states the replay reads and writes; only for a plan recorded with a placeholder. */
  readonly step?: object | undefined;
}

/** Whether a value is a {@link Plan}. */
export let isPlan: (value: unknown) => value is Plan;

/**
 * Ops that were checked once and can be replayed with a single native call each time.
 *
 * A replay reads the current contents of the tensors. Index data is read and checked again at every replay: from the same
 * JavaScript arrays, which must keep their lengths, or from the same i32 tensors.
 *
 * A plan keeps its tensors from being garbage-collected. It refuses to run after one of them is disposed.
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

  /** The device that runs the plan. */
  readonly device: Device;
  readonly #handle: Handle;
  readonly #recorder: PlanRecorder;
  readonly #work: DeviceWork;
  /** Owners of the caller's memory that pending replays need; usually none. */
  readonly #owners: readonly unknown[];
  /** Reads the index data again. Made once, not for each replay. */
  readonly #refresh = (): void => this.#recorder.indices.refresh();
  /** The disposal counter when all tensors were last seen alive. */
  #disposals = -1;
  #disposed = false;

  private constructor(by: Maker, work: DeviceWork, build: (pass: Pass) => void) {
    expectMaker(by, "Plan", "device.plan(…) instead of a constructor");
    this.device = work.device;
    this.#work = work;
    this.#handle = createPlan(work.device[native], "device.plan");
    this.#recorder = new PlanRecorder(work.device, this.#handle);
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
    isPlan = (value): value is Plan => typeof value === "object" && value !== null && #handle in value;
    makePlan = (work, build) => new Plan(maker, work, build);
  }

  /** Whether the plan or its device is gone. */
  get disposed(): boolean {
    return this.#disposed || this.device.closed;
  }

  /**
   * Runs the plan's ops, after all work that was encoded or committed earlier.
   *
   * @param options `{ step }` for a plan that was recorded with a pool's placeholder: an open step of that pool, with the
   *   same number of sequences. The replay counts as a write of what the plan's ops write in the step.
   * @returns the submission's ticket.
   * @throws {DisposedError} when the plan or one of its tensors was disposed.
   * @throws {GatedDeltaError} for index data that is out of range now, and of code `state` while ops of the device are recorded or their index data
   *   is read; nothing runs then.
   */
  run(options?: PlanRunOptions): number {
    const op = "plan.run";
    const step = options === undefined ? undefined : membersOf(op, options, ["step"], { argument: "", expected: "{ step }" }).step;
    if (this.disposed) throw new DisposedError({ op, expected: "a plan that is not disposed" });
    this.#work.expectIdle(op);
    this.#expectTensors();
    const entered = this.#enter(op, step);
    // Reading index arrays can run code of the caller, which must run no plan meanwhile.
    this.#work.record(this.#refresh);
    if (this.disposed) throw new DisposedError({ op, expected: "a plan that is not disposed" });
    entered?.expectOpen();
    const { participants, submissions } = this.#work;
    participants.expectCommittable(op);
    const ticket = runPlan(this.#handle, op);
    if (entered !== undefined) {
      participants.join(entered.participant);
      entered.wrote();
    }
    submissions.committed(ticket, this.#owners);
    participants.committed(ticket);
    return ticket;
  }

  /** Throws if a tensor was disposed. The native side keeps buffers alive, so only views can be gone. */
  #expectTensors(): void {
    if (this.#disposals === disposals) return;
    for (const { op, argument, tensor } of this.#recorder.tensors) {
      if (tensor.disposed) throw new DisposedError({ op, argument, expected: "a tensor that is not disposed" });
    }
    this.#disposals = disposals;
  }

  /** Substitutes the step of this replay for the placeholder. */
  #enter(op: string, step: unknown) {
    const { placeholder, uses } = this.#recorder.planStates;
    if (placeholder !== undefined) return placeholder.enter(op, step, uses);
    if (step === undefined) return undefined;
    const expected = "nothing: the plan was recorded without a placeholder";
    throw new GatedDeltaError("invalid-argument", { op, argument: "step", expected, received: describe(step) });
  }

  /** Ends the plan; pending replays still run. Disposing again does nothing. */
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
