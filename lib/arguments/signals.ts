/** Signals that callers pass, and waits that they end. */
import { getter, throws } from "./reading.ts";

const abortedOf = getter<boolean>(AbortSignal.prototype, "aborted");

/** Whether a value is an AbortSignal, and not a proxy of one or an object that only has its prototype. */
export function isSignal(value: unknown): value is AbortSignal {
  return !throws(() => abortedOf(value));
}

/** The result of some work, unless the signal comes first: then its reason is thrown. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const abort = (): void => aborted.reject(signal.reason);
  signal.addEventListener("abort", abort);
  try {
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}
