/**
 * Reads the batch of {@link LanguageModel.run}. Each of the caller's objects is read once, before any lookup that getters
 * could affect.
 */
import { invalid } from "../arguments/checks.ts";
import { membersOf } from "../arguments/members.ts";
import { asArray } from "../arguments/reading.ts";
import { BoundsError, DisposedError, GatedDeltaError, describe } from "../errors.ts";
import type { LanguageModel } from "./language-model.ts";
import type { BatchEntry, TokenRole, WantedLogits } from "./model-options.ts";
import { expectValid, sequenceParts } from "./sequence.ts";
import type { Sequence, SequenceParts } from "./sequence.ts";
import { readTokenIds } from "./token-ids.ts";

/** One entry of a batch, checked. */
export interface Entry {
  readonly sequence: Sequence;
  readonly parts: SequenceParts;
  /** A copy. */
  readonly tokens: readonly number[];
  /** The role of the certain tokens; guesses are generated. Where bits do not depend on roles, later tokens may have another role. */
  readonly role: TokenRole;
  readonly logits: WantedLogits;
  readonly hidden: WantedLogits;
  /**
   * The number of guesses at the end of the tokens, which the run verifies. With guesses, logits and hidden states of `"last"` are
   * those of the last certain token and of each guess.
   */
  readonly drafts: number;
  /** How many of each row's largest logits are also needed; 0 for none. */
  readonly best: number;
  /** Whether the sequence most likely continues with the token of the largest logit, and another result like this one is then wanted. */
  readonly goesOn: boolean;
}

/** The argument of {@link entryOf}. */
export interface CheckedEntry extends BatchEntry {
  readonly tokens: readonly number[];
  readonly best?: number | undefined;
  readonly goesOn?: boolean | undefined;
}

/** The limits of a model. */
export interface BatchLimits {
  readonly model: LanguageModel;
  readonly vocabSize: number;
  readonly maxPositions: number;
  /** The most sequences. */
  readonly states: number;
}

/** Reads a batch. {@link expectRunnable} checks whether its sequences can be run. */
export function readBatch(op: string, batch: unknown, limits: BatchLimits): Entry[] {
  const given = asArray(op, "batch", "an array of { sequence, tokens, role?, logits?, hidden? }", batch, limits.states);
  return given.map((one, i) => readEntry(op, `batch[${i}]`, one, limits));
}

/** An entry of checked tokens that will not change; the last `drafts` of them are guesses. */
export function entryOf({ sequence, tokens, role = "read", logits = "last", hidden = "none", best = 0, goesOn = false }: CheckedEntry, drafts = 0): Entry {
  return { sequence, parts: sequenceParts(sequence)!, tokens, role, logits, hidden, drafts, best, goesOn };
}

/** Throws if a sequence of a batch can't be run, such as one of another model or one without room. */
export function expectRunnable(op: string, entries: readonly Entry[], limits: BatchLimits): void {
  for (let i = 0; i < entries.length; i++) expectUsable(op, entries, i, limits);
}

function readEntry(op: string, argument: string, value: unknown, limits: BatchLimits): Entry {
  const words = { argument, expected: "{ sequence, tokens, role?, logits?, hidden? }", kind: "", prefix: `${argument}.` };
  const members = membersOf(op, value as BatchEntry, ["sequence", "tokens", "role", "logits", "hidden"], words);
  const { sequence, tokens, role = "read", logits = "last", hidden = "none" } = members as BatchEntry;
  const parts = sequenceParts(sequence);
  if (parts === undefined) throw invalid(op, `${argument}.sequence`, "a Sequence of this model", sequence);
  if (role !== "read" && role !== "generated") throw invalid(op, `${argument}.role`, `"read" | "generated"`, role);
  expectWanted(op, `${argument}.logits`, logits);
  expectWanted(op, `${argument}.hidden`, hidden);
  return { sequence, parts, tokens: readTokens(op, `${argument}.tokens`, tokens, limits), role, logits, hidden, drafts: 0, best: 0, goesOn: false };
}

function expectWanted(op: string, argument: string, value: unknown): void {
  if (value !== "last" && value !== "all" && value !== "none") throw invalid(op, argument, `"last" | "all" | "none"`, value);
}

/** Token ids, copied. */
function readTokens(op: string, argument: string, value: unknown, { vocabSize, maxPositions }: BatchLimits): number[] {
  const expected = "an array of token ids, an Int32Array or a Uint32Array";
  const tooLong = (length: number) => tooMany(op, argument, maxPositions, 0, maxPositions, length);
  const ids = readTokenIds(op, argument, value, { expected, vocabSize, most: maxPositions, tooLong });
  if (ids.length === 0) throw new BoundsError({ op, argument, expected: "at least one token id", received: "none" });
  return ids;
}

function expectUsable(op: string, entries: readonly Entry[], i: number, { model, maxPositions }: BatchLimits): void {
  const { sequence, parts, tokens } = entries[i]!;
  const argument = `batch[${i}].sequence`;
  if (parts.model !== model) {
    const expected = "a Sequence of this model";
    throw new GatedDeltaError("invalid-argument", { op, argument, expected, received: "one of another model" });
  }
  if (sequence.disposed) {
    throw new DisposedError({ op, argument, expected: "a sequence that is not disposed" });
  }
  expectValid(op, parts, argument);
  for (let j = 0; j < i; j++) {
    if (entries[j]!.parts !== parts) continue;
    const expected = "each sequence once";
    throw new GatedDeltaError("invalid-argument", { op, argument, expected, received: `that of batch[${j}] again` });
  }
  const had = sequence.tokens;
  const room = maxPositions - had;
  if (tokens.length > room) throw tooMany(op, `batch[${i}].tokens`, room, had, maxPositions, tokens.length);
}

function tooMany(op: string, argument: string, room: number, had: number, positions: number, count: unknown): BoundsError {
  const expected = `at most ${room} tokens: the sequence has ${had} of the model's ${positions} positions`;
  return new BoundsError({ op, argument, expected, received: describe(count) });
}
