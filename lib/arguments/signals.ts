/** Signals that callers pass. */

const abortedOf = Object.getOwnPropertyDescriptor(AbortSignal.prototype, "aborted")!.get!;

/** Whether a value is an AbortSignal, and not a proxy of one or an object that only has its prototype. */
export function isSignal(value: unknown): value is AbortSignal {
  try {
    abortedOf.call(value);
    return true;
  } catch {
    return false;
  }
}
