/** Conversations of several turns, and their references. */
import { expect } from "bun:test";
import { bitsEqual } from "../../lib/cli/verify/compare.ts";
import type { Device } from "../../lib/index.ts";
import { LanguageModel } from "../../lib/model.ts";
import type { ChatMessage, ChatOptions, LoadModelOptions, Session } from "../../lib/model.ts";
import { scratch } from "./files.ts";
import { coldRun } from "./sessions.ts";
import { writeReciter } from "./reciter.ts";
import type { Recital } from "./reciter.ts";

const { newPath } = scratch();

/** Opens a model that recites. */
export function openReciter(device: Device, recital: Recital, options: Partial<LoadModelOptions> = {}): Promise<LanguageModel> {
  return LanguageModel.load(device, writeReciter(newPath("reciter"), recital), { states: 6, pages: { count: 256, tokens: 16 }, ...options });
}

export const user = (content: string): ChatMessage => ({ role: "user", content });
export const tool = (content: string): ChatMessage => ({ role: "tool", content });

/** A bias against every token that can begin a tag. */
export function noTags({ text: { tokenizer }, config: { vocabSize } }: LanguageModel): Record<string, number> {
  const ids = Array.from({ length: vocabSize }, (_, id) => id).filter((id) => tokenizer.decode([id], { specialTokens: true }).startsWith("<"));
  return Object.fromEntries(ids.map((id) => [id, -100]));
}

/** The text of a session's tokens, control tokens included. */
export const textOfSession = ({ model, tokens }: Session): string => model.text.tokenizer.decode(tokens, { specialTokens: true });

/** Compares a session, to the bit, with a new one of the same model that reads all its tokens at once. */
export async function expectFresh(session: Session): Promise<void> {
  const { logits } = await coldRun(session.model, [...session.tokens], 1);
  expect(bitsEqual(await session.logits(), logits[0]!)).toBe(true);
}

/** Compares a session, to the bit, with a new one that reads all its messages at once. */
export async function expectAllAtOnce(session: Session, options: ChatOptions = {}): Promise<void> {
  using fresh = session.model.session().chat(session.messages, options);
  expect([...session.tokens]).toEqual([...fresh.tokens]);
  expect(bitsEqual(await session.logits(), await fresh.logits())).toBe(true);
}
