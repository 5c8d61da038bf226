/** The interface of an API: how it reads bodies and writes answers and failures. */
import type { LanguageModel } from "../model/language-model.ts";
import type { AnswerEvent, WholeAnswers } from "./answer-event.ts";
import type { AnswerRequest } from "./answer-request.ts";
import type { Problem } from "./problem.ts";

/** The served model, and its limits. */
export interface Served {
  readonly model: LanguageModel;
  readonly name: string;
  /** When serving began, in seconds since 1970. */
  readonly since: number;
  readonly answerTokens: number;
  readonly answers: number;
}

/** A request for answers, and how they are written. */
export interface Asked {
  readonly request: AnswerRequest;
  /** Whether the answers are streamed. */
  readonly stream: boolean;
  /** {@link Api.memberOf}, if it depends on the body. */
  readonly memberOf?: (argument: string) => string;
  /** The body of a response with whole answers. */
  whole(answers: WholeAnswers): object;
  /** The text of a stream for the next event; may be empty. Called for every event in order. */
  next(event: AnswerEvent): string;
  /** The last text of a stream that fails, if it is not {@link FailureForm.last}. */
  failed?(problem: Problem): string;
}

/** The form of failures, which the paths of one vendor share. */
export interface FailureForm {
  /** The HTTP status of a problem, if it is not {@link Problem.status}. */
  status(problem: Problem): number;
  /** The body of a failed response. */
  body(problem: Problem): object;
  /** The last text of a stream that fails. */
  last(problem: Problem): string;
}

interface Path {
  readonly path: string;
  readonly failures: FailureForm;
  /** The member of a body that an argument of a session's functions comes from. */
  readonly memberOf: (argument: string) => string;
}

/** An API whose requests ask for answers. */
export interface AnsweringApi extends Path {
  /**
   * Reads a body.
   *
   * @throws {Problem} for anything wrong or not supported.
   */
  read(body: unknown, served: Served): Asked;
}

/** An API whose requests are answered at once, without the model's work. */
export interface ReplyingApi extends Path {
  /**
   * The body of the response.
   *
   * @throws {Problem} for anything wrong or not supported.
   */
  reply(body: unknown, served: Served): object;
}

export type Api = AnsweringApi | ReplyingApi;
