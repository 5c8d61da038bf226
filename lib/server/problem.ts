/** Failures of requests, which each API reports in its own form. */
import { GatedDeltaError } from "../errors.ts";

/** The kind of a failure, and its HTTP status. */
export const statusOf = {
  invalid: 400,
  unsupported: 400,
  "too-long": 400,
  "wrong-key": 401,
  "not-found": 404,
  "wrong-method": 405,
  "too-large": 413,
  "wrong-encoding": 415,
  left: 499,
  internal: 500,
  "not-installed": 501,
  overloaded: 503,
  "out-of-time": 504,
} as const;

/** The kind of a failure. */
export type ProblemKind = keyof typeof statusOf;

/** Members of a problem in addition to its text. */
interface ProblemDetails {
  /** The member of the body at fault. */
  readonly member?: string | undefined;
  /** Seconds after which another try may succeed. */
  readonly retryAfter?: number | undefined;
  /** Further headers of the response. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** The reason, for the client's code, in Anthropic's form. */
  readonly details?: object | undefined;
  readonly cause?: unknown;
}

/** A failure of a request. Its message is for the client. */
export class Problem extends Error {
  readonly kind: ProblemKind;
  readonly member: string | undefined;
  readonly retryAfter: number | undefined;
  readonly headers: Readonly<Record<string, string>> | undefined;
  readonly details: object | undefined;

  constructor(kind: ProblemKind, message: string, { member, retryAfter, headers, details, cause }: ProblemDetails = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "Problem";
    this.kind = kind;
    this.member = member;
    this.retryAfter = retryAfter;
    this.headers = headers;
    this.details = details;
  }

  get status(): number {
    return statusOf[this.kind];
  }
}

/** The problem of a body's member that asks for a feature that is not available. */
export function unsupported(member: string, message: string): Problem {
  return new Problem("unsupported", `${member}: ${message}`, { member });
}

/** The reason with which a request ends when its client leaves. */
export function clientLeft(): Problem {
  return new Problem("left", "the client has left");
}

const callers: ReadonlySet<string> = new Set(["invalid-argument", "range", "shape", "unsupported"]);

/** Calls that read the request's own messages: exceeding their work limits is the client's fault. */
const readers: ReadonlySet<string | undefined> = new Set(["chat", "session.chat", "session.append", "tokenizer.encode"]);

/** Whether an error is about the model's own numbers: no member of a body gives them. */
function isOfModel({ op, argument = "" }: GatedDeltaError): boolean {
  return op === "sample" && /^logits\b/.test(argument);
}

/** An error about an argument, as a problem of the body's member that gave it. */
function aboutMember(error: GatedDeltaError, memberOf: (argument: string) => string): Problem {
  const text = error.op === undefined ? error.message : error.message.slice(`${error.op}: `.length);
  const { argument } = error;
  if (argument === undefined) return new Problem("invalid", text, { cause: error });
  // The argument is a path on the server.
  if (error.code === "file") return new Problem("invalid", text.slice(`${argument}: `.length), { cause: error });
  const member = memberOf(argument);
  return new Problem("invalid", member + text.slice(argument.length), { member, cause: error });
}

/**
 * Any failure as a problem. Failures that are not the client's fault reveal nothing about the server.
 *
 * @param memberOf the member of a body that an argument of the model's functions comes from.
 */
export function problemOf(error: unknown, memberOf = (argument: string): string => argument): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof GatedDeltaError) {
    if ((callers.has(error.code) && !isOfModel(error)) || (error.code === "file" && readers.has(error.op))) return aboutMember(error, memberOf);
    if (error.code === "out-of-memory") return new Problem("overloaded", "the model has no room for this request now", { retryAfter: 5, cause: error });
  }
  return new Problem("internal", "the server could not answer this request", { cause: error });
}
