/**
 * The ways in which sessions can read and generate the tokens of {@link readWhole}: each returns some tokens of every case and
 * the logits after them, which must be the same to the bit.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { reasonOf } from "../../checkpoint/regular-file.ts";
import { FileError } from "../../errors.ts";
import type { LanguageModel } from "../../model/language-model.ts";
import { Session } from "../../model/session/session.ts";
import type { GenerateOptions } from "../../model/session/session-options.ts";
import { seededTokens, type ModelCase } from "./model-cases.ts";

/** A session's answer to a case. */
export interface SessionAnswer {
  /** The first tokens that were chosen after the prompt. */
  readonly tokens: Int32Array;
  /** `[vocab]`: the logits after the last of these tokens, or after the prompt if there are none. */
  readonly logits: Float32Array;
}

/** One way to run all cases. */
export interface SessionWay {
  readonly way: string;
  run(model: LanguageModel, cases: readonly ModelCase[]): Promise<SessionAnswer[]>;
}

/** Number of tokens that a session generates for each case: few, because steps of emulated Metal take long. */
const mostTokens = 5;

/** Number of cases that are run at the same time: with two states for each, the least that models have. */
const atOnce = 3;

/** All ways of sessions, by their names in reports. */
export const sessionWays: readonly SessionWay[] = [
  { way: "sessions, among strangers", run: amongStrangers },
  { way: "sessions, cold and warm cache", run: warm },
  { way: "sessions, drafts", run: (model, cases) => inGroups(cases, (one) => alone(model, one, { drafts: { tokens: 3, shortest: 1 } })) },
  { way: "sessions, forked", run: (model, cases) => inGroups(cases, (one) => forked(model, one)) },
  { way: "sessions, restored from files", run: restored },
  { way: "sessions, read again", run: (model, cases) => inGroups(cases, (one) => readAgain(model, one)) },
];

/** Number of tokens that a session generates, after which the logits are also known. */
export function tokensGiven({ steps }: ModelCase): number {
  return Math.min(mostTokens, Math.max(0, steps - 1));
}

async function inGroups(cases: readonly ModelCase[], run: (one: ModelCase) => Promise<SessionAnswer>): Promise<SessionAnswer[]> {
  const answers: SessionAnswer[] = [];
  for (let at = 0; at < cases.length; at += atOnce) answers.push(...(await Promise.all(cases.slice(at, at + atOnce).map(run))));
  return answers;
}

/** Generates some tokens. */
async function give(session: Session, count: number, options: GenerateOptions = {}): Promise<number[]> {
  const tokens: number[] = [];
  if (count === 0) return tokens;
  for await (const { token } of session.generate({ ...options, ignoreModelStops: true, maxTokens: count })) tokens.push(token);
  return tokens;
}

async function answer(session: Session, tokens: readonly number[]): Promise<SessionAnswer> {
  return { tokens: Int32Array.from(tokens), logits: await session.logits() };
}

async function alone(model: LanguageModel, one: ModelCase, options: GenerateOptions = {}): Promise<SessionAnswer> {
  using session = model.session().append(one.prompt);
  return await answer(session, await give(session, tokensGiven(one), options));
}

/** All cases at the same time, with another session that reads other tokens. */
async function amongStrangers(model: LanguageModel, cases: readonly ModelCase[]): Promise<SessionAnswer[]> {
  using stranger = model.session().append(seededTokens(80, Math.min(11, model.config.maxPositions - 1), model.config.vocabSize));
  const others = give(stranger, Math.min(mostTokens, model.config.maxPositions - stranger.length), { temperature: 1, seed: 1 });
  const answers = await inGroups(cases, (one) => alone(model, one));
  await others;
  return answers;
}

/** Sessions that read the prompts leave them in a cache; others continue from there. */
async function warm(model: LanguageModel, cases: readonly ModelCase[]): Promise<SessionAnswer[]> {
  using cache = model.cache({ bytes: Number.MAX_SAFE_INTEGER, step: 16 });
  return await inGroups(cases, async (one) => {
    {
      using cold = model.session({ cache }).append(one.prompt);
      await cold.logits();
    }
    using session = model.session({ cache }).append(one.prompt);
    return await answer(session, await give(session, tokensGiven(one)));
  });
}

/** A fork continues from half way, while the original session reads other tokens. */
async function forked(model: LanguageModel, one: ModelCase): Promise<SessionAnswer> {
  const count = tokensGiven(one);
  using first = model.session().append(one.prompt);
  const before = await give(first, count >> 1);
  using second = first.fork();
  first.append(seededTokens(81, Math.min(5, model.config.maxPositions - first.length), model.config.vocabSize));
  const [after] = await Promise.all([give(second, count - before.length), first.logits()]);
  return await answer(second, [...before, ...after]);
}

/** Half way everything is read again, each token in its role: sessions keep no hidden states. */
async function readAgain(model: LanguageModel, one: ModelCase): Promise<SessionAnswer> {
  const count = tokensGiven(one);
  using session = model.session().append(one.prompt);
  const before = await give(session, count >> 1);
  await session.logits();
  await session.hidden();
  return await answer(session, [...before, ...(await give(session, count - before.length))]);
}

/** A folder for the sessions' files. */
function newFolder(): string {
  try {
    return mkdtempSync(join(tmpdir(), "gated-delta-verify-"));
  } catch (cause) {
    throw new FileError(tmpdir(), { op: "verify", expected: "a folder for temporary files", received: reasonOf(cause), cause });
  }
}

/** Each session is saved half way and continues from the file. */
async function restored(model: LanguageModel, cases: readonly ModelCase[]): Promise<SessionAnswer[]> {
  const folder = newFolder();
  try {
    return await inGroups(cases, async (one) => {
      const count = tokensGiven(one);
      const path = join(folder, `${one.index}.safetensors`);
      let before: number[];
      {
        using first = model.session().append(one.prompt);
        before = await give(first, count >> 1);
        await first.save(path);
      }
      using second = await Session.load(model, path);
      return await answer(second, [...before, ...(await give(second, count - before.length))]);
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
