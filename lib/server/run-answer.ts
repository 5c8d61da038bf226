/** Runs requests for answers on a model. */
import { unlessAborted } from "../arguments/signals.ts";
import { BoundsError } from "../errors.ts";
import type { LanguageModel } from "../model/language-model.ts";
import { longestOf } from "../model/session/capacity.ts";
import type { SessionCache } from "../model/session/prefix-cache.ts";
import type { Session } from "../model/session/session.ts";
import type { GenerateOptions, Piece } from "../model/session/session-options.ts";
import { anySeed } from "../model/sampling/philox.ts";
import { encodingAtMost } from "../model/text/tokenizer.ts";
import type { AnswerEnd, AnswerEvent, TokenChoice } from "./answer-event.ts";
import type { AnswerRequest, Prompt } from "./answer-request.ts";
import { merged } from "./merged.ts";
import { PartReader } from "./part-reader.ts";
import { Problem } from "./problem.ts";
import type { Prefixes } from "./store/prefixes.ts";
import { withSystem } from "./system-messages.ts";
import { tooLong } from "./too-long.ts";

/** The model, cache and salt with which a request runs. */
export interface RunContext {
  readonly model: LanguageModel;
  readonly cache: SessionCache | undefined;
  readonly salt: string;
  /** The prefixes that servers share, if any. */
  readonly prefixes: Prefixes | undefined;
  readonly signal: AbortSignal;
}

/**
 * Adds the tokens of a prompt to a session. In messages the texts of control tokens stay text, so that no message passes for another
 * speaker's. A text to be continued is the client's own, including control tokens.
 *
 * @throws {GatedDeltaError} for messages that the chat template refuses; {@link Problem} for more tokens than `most`.
 */
function prompted(session: Session, prompt: Prompt, most: number): Session {
  try {
    return encodingAtMost(session.model.text.tokenizer, most, () => withPrompt(session, prompt));
  } catch (cause) {
    if (!(cause instanceof BoundsError) || cause.argument?.endsWith("]") === true) throw cause;
    throw tooLong(session.model, cause);
  }
}

function withPrompt(session: Session, prompt: Prompt): Session {
  if (!("messages" in prompt)) return session.append(prompt.text);
  const { messages, tools, variables } = prompt;
  return session.chat(withSystem(messages, session.model.text.template), { specialTokens: "text", variables, ...(tools.length > 0 ? { tools } : {}) });
}

/** How many tokens a prompt has. */
export function tokensOf(model: LanguageModel, prompt: Prompt): number {
  using session = model.session();
  return prompted(session, prompt, model.config.maxPositions).length;
}

/**
 * The answers to a request, as they come. The prompt is read once. Leaving the generator ends the answers.
 *
 * @throws {Problem} for a prompt that leaves no room for an answer; {@link GatedDeltaError} as a session's `chat` and `generate`; the
 *   signal's reason.
 */
export async function* answerEvents(request: AnswerRequest, { model, cache, salt, prefixes, signal }: RunContext): AsyncGenerator<AnswerEvent, void, void> {
  using all = new DisposableStack();
  const most = longestOf(model);
  // The error for a prompt that is slightly too long gives its length.
  const session = all.use(prompted(model.session({ cache, salt }), request.prompt, Math.min(2 * most, model.config.maxPositions)));
  const room = most - session.length;
  if (room < 1) throw new Problem("too-long", `the prompt is too long: it has ${session.length} tokens, and there is room for at most ${most - 1}, and an answer`);
  const { maxTokens = Infinity, minTokens = 0, seed = anySeed() } = request.options;
  // A model without thoughts keeps any limit on them.
  const thinks = "messages" in request.prompt && model.text.template.format().reasoning !== undefined;
  const maxReasoningTokens = thinks ? request.options.maxReasoningTokens : undefined;
  const options = { ...request.options, maxReasoningTokens, maxTokens: Math.min(maxTokens, room), minTokens: Math.min(minTokens, maxTokens, room), signal };
  // Otherwise wrong options would be found later, after asking the store or reading the prompt.
  if (request.answers > 1 || prefixes !== undefined) await expectOptions(session, options);
  const restored = prefixes === undefined ? 0 : await unlessAborted(prefixes.restore(session, salt), signal);
  let sessions = [session];
  if (request.answers > 1) {
    await session.logits({ signal });
    sessions = Array.from({ length: request.answers }, () => all.use(session.fork()));
  }
  const prompt = session.length;
  const counts = { prompt, cached: 0, restored, answer: 0, reasoning: 0 };
  const answers = sessions.map((one, i) => answerOf(i, one, request, { ...options, seed: (seed + i) % 2 ** 53 }, counts));
  let begun = false;
  try {
    for await (const event of merged(answers)) {
      if (!begun) {
        begun = true;
        counts.cached = Math.min(prompt, session.usage.cachedTokens);
        prefixes?.keepPrompt(session, salt);
        yield { type: "begin", counts };
      }
      yield event;
    }
  } finally {
    for (const one of sessions) prefixes?.keepAnswer(one, salt);
  }
  yield { type: "over", counts };
}

/**
 * Checks options with a session, without work of the model.
 *
 * @throws {GatedDeltaError} as a session's `generate`.
 */
async function expectOptions(session: Session, options: GenerateOptions): Promise<void> {
  // A generation checks its options before its signal.
  const aborted = AbortSignal.abort();
  try {
    await session.generate({ ...options, signal: aborted }).next();
  } catch (error) {
    if (error !== aborted.reason) throw error;
  }
}

/** One answer. It adds its tokens to the counts. */
async function* answerOf(
  answer: number,
  session: Session,
  { options: { stop = [] }, severalCalls }: AnswerRequest,
  options: Parameters<Session["generate"]>[0],
  counts: { answer: number; reasoning: number },
): AsyncGenerator<AnswerEvent, void, void> {
  const reader = new PartReader();
  const start = session.length;
  let thinking = true;
  let thought = false;
  // Tokens since the last part: those of a character belong to the part with its last one.
  let pending = 0;
  for await (const piece of session.generate(options)) {
    const parts = reader.read(piece.parts);
    if (piece.token >= 0) {
      counts.answer++;
      pending++;
    }
    thinking &&= parts.every(({ type }) => type === "reasoning");
    thought ||= thinking && parts.length > 0;
    if (parts.length > 0 || piece.end === "length") {
      if (thinking && thought) counts.reasoning += pending;
      pending = 0;
    }
    const choice = choiceOf(piece);
    if (parts.length > 0 || choice !== undefined) yield { type: "parts", answer, parts, choice };
    const enough = !severalCalls && reader.calls > 0;
    if (piece.end === undefined && !enough) continue;
    const end: AnswerEnd = {
      reason: piece.end === "length" && !enough ? "length" : reader.calls > 0 ? "calls" : "stop",
      stop: piece.end === "string" ? stopIn(session, start, typeof stop === "string" ? [stop] : stop) : undefined,
    };
    yield { type: "end", answer, end };
    return;
  }
}

/** A piece's token with its probability, unless it ends the answer and is not part of it. */
function choiceOf({ token, end, logprob, topLogprobs = [] }: Piece): TokenChoice | undefined {
  return logprob === undefined || token < 0 || end === "token" ? undefined : { token, logprob, top: topLogprobs };
}

/** The stop string at which an answer ended: the one that is completed first, of several the longest. */
function stopIn({ model, tokens }: Session, start: number, stops: readonly string[]): string | undefined {
  const text = model.text.tokenizer.decode(tokens.subarray(start));
  const ends = stops.flatMap((stop) => (text.includes(stop) ? [{ stop, at: text.indexOf(stop) + stop.length }] : []));
  return ends.sort((a, b) => a.at - b.at || b.stop.length - a.stop.length)[0]?.stop;
}
