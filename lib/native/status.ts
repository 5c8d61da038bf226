/** Status codes of native calls, as errors. */
import { errorFromNative } from "../errors.ts";
import { constants, symbols } from "./layout.ts";
import { library } from "./library.ts";

/** The texts of `gd_last_error`, by index. */
const message = 0;
const opName = 1;
const argument = 2;
const expected = 3;
const received = 4;

/** The ops by their public names: `gd_encode_gated_delta` encodes `gatedDelta`. */
const opNames: ReadonlySet<string> = new Set(
  Object.keys(symbols)
    .filter((name) => name.startsWith("gd_encode_"))
    .map((name) => name.slice("gd_encode_".length).replace(/_(.)/g, (_, letter: string) => letter.toUpperCase())),
);

/** Throws the error of a native call unless its status is GD_OK. `op` is the public name of the call. */
export function check(status: number, op: string): void {
  if (status !== constants.GD_OK) throw lastError(status, op);
}

/** The error of the last native call on this thread, which returned `status`. */
export function lastError(status: number, op: string): Error {
  const native = library();
  const text = (which: number): string => String(native.gd_last_error(which) ?? "");
  // A failed submission or replay names the op that failed; for other calls use the public name of the user's call.
  const failed = text(opName);
  return errorFromNative(
    status,
    opNames.has(failed) ? failed : op,
    text(argument),
    text(expected),
    text(received),
    text(message),
  );
}
