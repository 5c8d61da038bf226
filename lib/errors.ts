/**
 * Every failure of this library is a {@link GatedDeltaError}. Its `code` is the kind of failure; the message consists of `op`,
 * `argument`, `expected` and `received`.
 *
 * Subclasses exist only where callers branch with `instanceof`. Each stands for one code, so that a test of the class
 * and a test of the code always agree.
 */

/**
 * The kind of failure.
 *
 * - `invalid-argument`: a value of the wrong kind, or one that no option allows.
 * - `shape`: a tensor's dimensions, strides or byte length do not fit the op.
 * - `dtype`: an element type that this argument does not accept.
 * - `range`: a slot, offset, id or count outside its limits.
 * - `overlap`: two memory extents that must be apart share bytes, or two writes name the same slot.
 * - `disposed`: a handle used after it was disposed or closed.
 * - `unsupported`: valid, but this backend or machine has no way to do it.
 * - `out-of-memory`: an allocation failed.
 * - `timeout`: a wait ended before the work did; the work continues.
 * - `device`: the device failed while it ran the work.
 * - `state`: a call at the wrong time, such as committing twice.
 * - `file`: a file is missing, damaged, not in the form that it claims, or no longer the one that was mapped.
 * - `library`: the native library could not be found, loaded or trusted.
 * - `internal`: a mistake in this library; please report it.
 */
export type ErrorCode =
  | "invalid-argument"
  | "shape"
  | "dtype"
  | "range"
  | "overlap"
  | "disposed"
  | "unsupported"
  | "out-of-memory"
  | "timeout"
  | "device"
  | "state"
  | "file"
  | "library"
  | "internal";

/** The call and the value that an error is about. All members are optional. */
export interface ErrorDetails {
  /** The operation that failed, e.g. `gatedDelta`. */
  readonly op?: string | undefined;
  /** The argument (or file) at fault, e.g. `cuSeqlens` or `q.shape`. */
  readonly argument?: string | undefined;
  /** The values that are accepted, e.g. `a multiple of 8 in 8..256`. */
  readonly expected?: string | undefined;
  /** The value that was passed, as text. */
  readonly received?: string | undefined;
  /** Text for failures other than a mismatch of expected and received. */
  readonly message?: string | undefined;
  /** The error that led to this one. */
  readonly cause?: unknown;
}

/** The base of every error that this library throws. */
export class GatedDeltaError extends Error {
  /** The kind of failure. */
  readonly code: ErrorCode;
  /** The operation that failed, e.g. `gatedDelta`. */
  readonly op: string | undefined;
  /** The argument (or file) at fault, e.g. `cuSeqlens` or `q.shape`. */
  readonly argument: string | undefined;
  /** The values that are accepted, e.g. `a multiple of 8 in 8..256`. */
  readonly expected: string | undefined;
  /** The value that was passed, as text. */
  readonly received: string | undefined;

  constructor(code: ErrorCode, details: ErrorDetails = {}) {
    super(messageOf(code, details), details.cause === undefined ? undefined : { cause: details.cause });
    this.name = new.target.name;
    this.code = code;
    this.op = details.op;
    this.argument = details.argument;
    this.expected = details.expected;
    this.received = details.received;
  }
}

/** A tensor's dimensions, strides or byte length do not fit. */
export class ShapeError extends GatedDeltaError {
  constructor(details: ErrorDetails) {
    super("shape", details);
  }
}

/** An element type that the argument does not take. */
export class DTypeError extends GatedDeltaError {
  constructor(details: ErrorDetails) {
    super("dtype", details);
  }
}

/** A slot, offset, id or count outside its limits. JavaScript has a RangeError already. */
export class BoundsError extends GatedDeltaError {
  constructor(details: ErrorDetails) {
    super("range", details);
  }
}

/** Memory or slots that must not overlap do. */
export class OverlapError extends GatedDeltaError {
  constructor(details: ErrorDetails) {
    super("overlap", details);
  }
}

/** A tensor, pool, plan or device used after its disposal. `received` is "a disposed one" where only `expected` is given. */
export class DisposedError extends GatedDeltaError {
  constructor(details: ErrorDetails) {
    const { expected, received = expected && "a disposed one" } = details;
    super("disposed", { ...details, received });
  }
}

/** Valid, but not possible on this backend or machine. */
export class UnsupportedError extends GatedDeltaError {
  constructor(details: ErrorDetails) {
    super("unsupported", details);
  }
}

/** A wait ended before the work did. The work continues and can be waited for again. */
export class TimeoutError extends GatedDeltaError {
  constructor(details: ErrorDetails) {
    super("timeout", details);
  }
}

/** The device failed while it ran submitted work. */
export class DeviceError extends GatedDeltaError {
  constructor(details: ErrorDetails) {
    super("device", details);
  }
}

/** A file is missing, damaged, or not in the form that it claims. `argument` is the path. */
export class FileError extends GatedDeltaError {
  /** The file at fault. */
  readonly path: string;

  constructor(path: string, details: Omit<ErrorDetails, "argument">) {
    super("file", { ...details, argument: path === "" ? '""' : path });
    this.path = path;
  }
}

/** The native library could not be found, loaded or trusted. */
export class LibraryError extends GatedDeltaError {
  constructor(details: ErrorDetails) {
    super("library", details);
  }
}

/** An error of a code: an instance of its subclass, if there is one. */
export function errorOf(code: ErrorCode, details: ErrorDetails): GatedDeltaError {
  switch (code) {
    case "shape":
      return new ShapeError(details);
    case "dtype":
      return new DTypeError(details);
    case "range":
      return new BoundsError(details);
    case "overlap":
      return new OverlapError(details);
    case "disposed":
      return new DisposedError(details);
    case "unsupported":
      return new UnsupportedError(details);
    case "timeout":
      return new TimeoutError(details);
    case "device":
      return new DeviceError(details);
    case "file":
      return new FileError(details.argument ?? "(unknown file)", details);
    case "library":
      return new LibraryError(details);
    default:
      return new GatedDeltaError(code, details);
  }
}

/** Error codes by native status (`GD_ERROR_*` of gated_delta.h). A test compares them with the header. */
const nativeErrorCodes: Readonly<Record<number, ErrorCode>> = {
  2: "invalid-argument",
  3: "shape",
  4: "dtype",
  5: "range",
  6: "overlap",
  7: "disposed",
  8: "unsupported",
  9: "out-of-memory",
  10: "timeout",
  11: "device",
  12: "state",
  13: "internal",
  14: "file",
};

/**
 * The error of a failed native call, from its status and the five texts of `gd_last_error`. An empty text counts as
 * none, an unknown status as `internal`.
 */
export function errorFromNative(
  status: number,
  op: string,
  argument: string,
  expected: string,
  received: string,
  message: string,
): GatedDeltaError {
  const code = nativeErrorCodes[status];
  const orNothing = (text: string) => (text === "" ? undefined : text);
  const details = {
    op: orNothing(op),
    argument: orNothing(argument),
    expected: orNothing(expected),
    received: orNothing(received),
    // With expected or received, the native message only repeats them.
    message: expected === "" && received === "" ? orNothing(message) : undefined,
  };
  if (code !== undefined) return errorOf(code, details);
  return new GatedDeltaError("internal", { ...details, message: `native status ${status}${message && `: ${message}`}` });
}

/**
 * Describes any value for `received` in at most a line, and never throws. Arrays within arrays are only counted, since
 * they may be cyclic.
 */
export function describe(value: unknown): string {
  try {
    if (!Array.isArray(value)) return describeOne(value);
    const shown = value.slice(0, 9).map((item) => (Array.isArray(item) ? `an array of ${item.length}` : describeOne(item)));
    return clip(`[${shown.join(", ")}${value.length > 9 ? `, … (${value.length} in all)` : ""}]`);
  } catch {
    return "an object"; // a proxy or getter that throws must not hide the error being described
  }
}

function describeOne(value: unknown): string {
  if (typeof value === "string") return clip(JSON.stringify(value.slice(0, longestText)));
  if (typeof value === "bigint") return clip(`${value}n`);
  if (typeof value === "function") return "a function";
  if (typeof value === "symbol") return "a symbol";
  if (typeof value !== "object" || value === null) return Object.is(value, -0) ? "-0" : String(value);
  const kind = Object.prototype.toString.call(value).slice(8, -1);
  if (ArrayBuffer.isView(value)) return `${kind} of ${value.byteLength} bytes`;
  const type: unknown = value.constructor;
  return typeof type === "function" && type.name !== "" ? `a value of type ${clip(type.name)}` : `a value of type ${kind}`;
}

const longestText = 120;

function clip(text: string): string {
  return text.length > longestText ? `${text.slice(0, longestText - 1)}…` : text;
}

function messageOf(code: ErrorCode, { op, argument, expected, received, message }: ErrorDetails): string {
  const sections: string[] = [];
  if (op) sections.push(op);
  if (argument) sections.push(argument);
  const mismatch =
    expected && received ? `expected ${expected}, got ${received}`
    : expected ? `expected ${expected}`
    : received ? `got ${received}`
    : undefined;
  if (mismatch) sections.push(mismatch);
  if (message) sections.push(message);
  if (!mismatch && !message) sections.push(code);
  return sections.join(": ");
}
