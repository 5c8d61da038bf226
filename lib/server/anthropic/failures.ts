/** Failures in the form of Anthropic's APIs. */
import type { FailureForm } from "../api.ts";
import { namedEvent } from "../event-stream.ts";
import type { Problem, ProblemKind } from "../problem.ts";

const types: Partial<Record<ProblemKind, string>> = {
  "wrong-key": "authentication_error",
  "not-found": "not_found_error",
  "too-large": "request_too_large",
  overloaded: "overloaded_error",
  "out-of-time": "timeout_error",
  internal: "api_error",
};

/** The status of an overloaded server. */
const overloaded = 529;

const body = ({ kind, message, details }: Problem) => ({ type: "error", error: { type: types[kind] ?? "invalid_request_error", message, ...(details === undefined ? {} : { details }) } });

export const anthropicFailures: FailureForm = {
  status: ({ kind, status }) => (kind === "overloaded" ? overloaded : status),
  body,
  last: (problem) => namedEvent(body(problem)),
};
