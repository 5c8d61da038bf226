/** Status codes of native calls, as errors. */
import { errorFromNative } from "../errors.ts";
import { constants, symbols } from "./layout.ts";
import { library } from "./library.ts";

/** Which text of `gd_last_error`. */
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

/** Throws what a native call reported, unless it is GD_OK. `op` is the public name of what was called. */
export function check(status: number, op: string): void {
  if (status !== constants.GD_OK) throw lastError(status, op);
}

/** The failure of the last native call on this thread, which returned `status`. */
export function lastError(status: number, op: string): Error {
  const native = library();
  const text = (which: number): string => String(native.gd_last_error(which) ?? "");
  // A failed submission or replay names the op that failed, which is more than the caller knows; other calls go by the
  // public name of what the user called.
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
