/** Failures in the form of OpenAI's APIs. */
import type { FailureForm } from "../api.ts";
import { dataLine } from "../event-stream.ts";
import type { Problem, ProblemKind } from "../problem.ts";

const forms: Partial<Record<ProblemKind, readonly [type: string, code: string]>> = {
  unsupported: ["invalid_request_error", "unsupported_value"],
  "too-long": ["invalid_request_error", "context_length_exceeded"],
  "wrong-key": ["invalid_request_error", "invalid_api_key"],
  overloaded: ["server_error", "server_overloaded"],
  "out-of-time": ["server_error", "timeout"],
  internal: ["server_error", "server_error"],
  "not-installed": ["server_error", "not_installed"],
};

/** A failure's description. */
export function openaiError({ kind, message, member }: Problem) {
  const [type, code] = forms[kind] ?? ["invalid_request_error", null];
  return { message, type, param: member ?? null, code };
}

const body = (problem: Problem): object => ({ error: openaiError(problem) });

export const openaiFailures: FailureForm = {
  status: ({ status }) => status,
  body,
  last: (problem) => dataLine(body(problem)),
};
