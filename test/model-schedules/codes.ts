/** Calls that must be refused. */
import { GatedDeltaError } from "../../lib/index.ts";
import type { ErrorCode } from "../../lib/index.ts";

/** Throws unless a call throws an error of the library with one of these codes. */
export function expectCode(call: () => unknown, ...codes: readonly ErrorCode[]): void {
  try {
    call();
  } catch (error) {
    return expectOneOf(error, codes);
  }
  throw new Error(`nothing was refused, where ${codes.join(" or ")} was expected`);
}

/** {@link expectCode} for a promise. */
export async function expectRejection(promise: Promise<unknown>, ...codes: readonly ErrorCode[]): Promise<void> {
  try {
    await promise;
  } catch (error) {
    return expectOneOf(error, codes);
  }
  throw new Error(`nothing was refused, where ${codes.join(" or ")} was expected`);
}

function expectOneOf(error: unknown, codes: readonly ErrorCode[]): void {
  if (error instanceof GatedDeltaError && codes.includes(error.code)) return;
  throw error;
}
