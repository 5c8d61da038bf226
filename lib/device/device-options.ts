/** Options of {@link Device}'s methods. */
import { GatedDeltaError, describe } from "../errors.ts";
import { checkOptions } from "../arguments/options.ts";
import { isSignal } from "../arguments/signals.ts";
import { membersOf } from "../arguments/members.ts";
import { deviceOptions } from "./device-schemas.ts";

/** A backend by name: `auto` is Metal on a Mac and the CPU elsewhere. */
export type BackendName = "auto" | "cpu" | "metal";

/** Options of {@link Device.open}. */
export interface DeviceOptions {
  /** Where ops run. @default "auto" */
  readonly backend?: BackendName | undefined;
  /** Number of CPU threads that this device's work may use, 0..1024; 0 is every core that the process may use. @default 0 */
  readonly threads?: number | undefined;
}

/** Options of {@link Device.finish}. */
export interface FinishOptions {
  /** Ends the wait; the work continues. The promise rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds after which the promise rejects with a {@link TimeoutError}; the work continues. @default Infinity */
  readonly timeoutMs?: number | undefined;
}

/** Checks the options of {@link Device.open}. The common forms don't need zod, which is slow to load. */
export function asDeviceOptions(options: BackendName | DeviceOptions | undefined): {
  backend: BackendName;
  threads: number;
} {
  if (options === undefined) return { backend: "auto", threads: 0 };
  if (options === "auto" || options === "cpu" || options === "metal") return { backend: options, threads: 0 };
  return checkOptions(deviceOptions, "Device.open", typeof options === "string" ? { backend: options } : options);
}

/** Checks the options of {@link Device.finish}. */
export function asFinishOptions(op: string, options: FinishOptions): FinishOptions {
  const { signal, timeoutMs } = membersOf(op, options, ["signal", "timeoutMs"], { argument: "", expected: "{ signal?, timeoutMs? }" });
  if (signal !== undefined && !isSignal(signal)) {
    throw new GatedDeltaError("invalid-argument", {
      op,
      argument: "signal",
      expected: "an AbortSignal",
      received: describe(signal),
    });
  }
  return { signal, timeoutMs: asTimeout(op, timeoutMs) };
}

/** Checks a timeout; undefined means none. */
export function asTimeout(op: string, value: unknown): number | undefined {
  if (value === undefined) return undefined;
  if (typeof value === "number" && value >= 0) return value;
  const expected = "a number of milliseconds, at least 0";
  throw new GatedDeltaError("invalid-argument", { op, argument: "timeoutMs", expected, received: describe(value) });
}
