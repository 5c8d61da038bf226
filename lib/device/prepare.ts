/** Compiles the kernels of recorded ops: implements {@link Device.prepare}. */
import type { Device } from "./device.ts";
import { PlanRecorder } from "./encoders.ts";
import { recordPass } from "./pass.ts";
import type { Pass } from "./pass.ts";
import { beginPreparation, createPlan, isPrepared, releasePlan } from "../native/device.ts";
import { native } from "./device-handle.ts";

/** A plan that is prepared and never run. */
export interface Preparation {
  /** Whether all kernels are compiled. Throws if one can't be. */
  isReady(op: string): boolean;
  /** Ends it, finished or not. */
  release(): void;
}

/** Records ops and starts to compile their kernels. */
export function preparePlan(device: Device, build: (pass: Pass) => void): Preparation {
  const op = "device.prepare";
  const plan = createPlan(device[native], op);
  const recorder = new PlanRecorder(device, plan);
  const release = () => {
    // A closed device has already released its plans.
    if (!device.closed) releasePlan(plan);
    recorder.indices.dispose();
  };
  try {
    recordPass(recorder, op, build);
    beginPreparation(plan, op);
  } catch (error) {
    release();
    throw error;
  }
  return { isReady: (caller) => isPrepared(plan, caller), release };
}
