/**
 * The ways in which a model can read the same tokens. Each returns the logits after every token of every case, which must be
 * the same to the bit. Prompts have the role of read tokens and later tokens that of generated ones, even when they are read
 * again; if bits depend on roles, a piece of both goes in two runs.
 */

import type { LanguageModel } from "../../model/language-model.ts";
import { memoryOf } from "../../model/model-memory.ts";
import type { BatchEntry } from "../../model/model-options.ts";
import type { Sequence } from "../../model/sequence.ts";
import { sequenceFrom, snapshotOf } from "../../model/snapshot.ts";
import { seededTokens, type ModelCase } from "./model-cases.ts";

/** A case with all tokens that are read: the prompt and every chosen token but the last. */
export interface Reading {
  readonly prompt: number;
  readonly tokens: Int32Array;
}

/** Logits of each case, `[tokens, vocab]`. */
export type Answers = readonly Float32Array[];

/** One way to read all cases. */
export interface Way {
  readonly way: string;
  read(model: LanguageModel, readings: readonly Reading[]): Promise<Answers>;
}

/** The tokens in `start..end − 1` of a case, which a sequence reads. */
interface Piece {
  readonly reading: number;
  readonly start: number;
  readonly end: number;
  readonly sequence: Sequence;
}

/** The most sequences of a way at a time, in addition to one for each case. */
export const mostStrangers = 3;

/** Other tokens for sequences that share batches with the cases, so that a mistaken state or page shows. */
const strangerTokens = 29;

/** Reads each case's prompt at once, then chooses tokens greedily, one sequence at a time. */
export async function readWhole(model: LanguageModel, cases: readonly ModelCase[]): Promise<{ readings: Reading[]; answers: Answers; greedy: Int32Array[] }> {
  const { vocabSize } = model.config;
  const readings: Reading[] = [];
  const answers: Float32Array[] = [];
  const greedy: Int32Array[] = [];
  for (const { prompt, steps } of cases) {
    using sequence = model.sequence();
    const chosen: number[] = [];
    const answer = new Float32Array((prompt.length + Math.max(steps, 1) - 1) * vocabSize);
    let [result] = await model.run([{ sequence, tokens: prompt, role: "read", logits: "all" }]);
    answer.set(result!.logits);
    let last = result!.logits.subarray(-vocabSize);
    while (chosen.length < steps) {
      chosen.push(largest(last));
      if (chosen.length === steps) break;
      [result] = await model.run([{ sequence, tokens: chosen.slice(-1), role: "generated" }]);
      last = result!.logits;
      answer.set(last, (prompt.length + chosen.length - 1) * vocabSize);
    }
    readings.push({ prompt: prompt.length, tokens: Int32Array.from([...prompt, ...chosen.slice(0, -1)]) });
    answers.push(answer);
    greedy.push(Int32Array.from(chosen));
  }
  return { readings, answers, greedy };
}

/** The index of the largest number; of several, the first. */
export function largest(logits: Float32Array): number {
  let at = 0;
  for (let i = 1; i < logits.length; i++) if (logits[i]! > logits[at]!) at = i;
  return at;
}

/** All ways but {@link readWhole}. */
export const otherWays: readonly Way[] = [
  { way: "all tokens in one run", read: (model, readings) => alone(model, readings, (length) => [length]) },
  { way: "split after 1", read: (model, readings) => alone(model, readings, (length) => [1, length - 1]) },
  { way: "split in pieces of 7", read: (model, readings) => alone(model, readings, (length) => Array<number>(Math.ceil(length / 7)).fill(7)) },
  { way: "token by token", read: (model, readings) => alone(model, readings, (length) => Array<number>(length).fill(1)) },
  { way: "batched", read: batched },
  { way: "forked", read: forked },
  { way: "restored", read: restored },
];

/** An entry, without logits, of as many of some tokens as a sequence has positions left; no entry if it has none. */
function others(sequence: Sequence, tokens: Int32Array): BatchEntry[] {
  const fitting = tokens.subarray(0, sequence.model.config.maxPositions - sequence.tokens);
  return fitting.length === 0 ? [] : [{ sequence, tokens: fitting, logits: "none" }];
}

class Reader {
  readonly answers: Float32Array[];
  readonly #model: LanguageModel;
  readonly #readings: readonly Reading[];

  constructor(model: LanguageModel, readings: readonly Reading[]) {
    this.#model = model;
    this.#readings = readings;
    this.answers = readings.map(({ tokens }) => new Float32Array(tokens.length * model.config.vocabSize));
  }

  /** Runs some pieces, and entries of other sequences, as one batch; as two if pieces have two roles that matter. */
  async read(pieces: readonly Piece[], strangers: readonly BatchEntry[] = []): Promise<void> {
    if (!memoryOf(this.#model).byRole) return await this.#run(pieces, strangers);
    const prompt = (piece: Piece) => Math.max(piece.start, this.#readings[piece.reading]!.prompt);
    await this.#run(pieces.map((piece) => ({ ...piece, end: Math.min(piece.end, prompt(piece)) })), strangers);
    await this.#run(pieces.map((piece) => ({ ...piece, start: prompt(piece) })));
  }

  async #run(pieces: readonly Piece[], strangers: readonly BatchEntry[] = []): Promise<void> {
    const given = pieces.filter(({ start, end }) => end > start);
    const entries = given.map(({ reading, start, end, sequence }) => {
      const { tokens, prompt } = this.#readings[reading]!;
      return { sequence, tokens: tokens.subarray(start, end), role: start < prompt ? "read" : "generated", logits: "all" } as const;
    });
    if (entries.length + strangers.length === 0) return;
    const results = await this.#model.run([...entries, ...strangers]);
    for (const [i, { reading, start }] of given.entries()) {
      this.answers[reading]!.set(results[i]!.logits, start * this.#model.config.vocabSize);
    }
  }
}

/** One sequence after another, split into pieces. */
async function alone(model: LanguageModel, readings: readonly Reading[], cut: (length: number) => number[]): Promise<Answers> {
  const reader = new Reader(model, readings);
  for (const [reading, { tokens }] of readings.entries()) {
    using sequence = model.sequence();
    let start = 0;
    for (const length of cut(tokens.length)) {
      const end = Math.min(tokens.length, start + length);
      if (end > start) await reader.read([{ reading, start, end, sequence }]);
      start = end;
    }
  }
  return reader.answers;
}

/** All cases together, each beginning one run later than the previous one, so that prompts share batches with single tokens. */
async function batched(model: LanguageModel, readings: readonly Reading[]): Promise<Answers> {
  const reader = new Reader(model, readings);
  const { vocabSize } = model.config;
  const sequences = readings.map(() => model.sequence());
  using stack = new DisposableStack();
  for (const sequence of sequences) stack.use(sequence);
  const stranger = stack.use(model.sequence());
  const strange = seededTokens(77, strangerTokens, vocabSize);
  const done = readings.map(() => 0);
  const unread = () => readings.some(({ tokens }, i) => done[i]! < tokens.length);
  for (let run = 0, told = 0; unread(); run++) {
    const pieces: Piece[] = [];
    for (const [reading, { prompt, tokens }] of readings.entries()) {
      const start = done[reading]!;
      if (reading > run || start === tokens.length) continue;
      const end = start === 0 ? prompt : start + 1;
      pieces.unshift({ reading, start, end, sequence: sequences[reading]! });
      done[reading] = end;
    }
    const more = told === 0 ? 5 : 1;
    await reader.read(pieces, others(stranger, strange.subarray(told, (told += more))));
  }
  return reader.answers;
}

/** Each case continues in a fork, while the original sequence reads other tokens; and again half way. */
async function forked(model: LanguageModel, readings: readonly Reading[]): Promise<Answers> {
  const reader = new Reader(model, readings);
  const strange = seededTokens(78, strangerTokens, model.config.vocabSize);
  for (const [reading, { prompt, tokens }] of readings.entries()) {
    using first = model.sequence();
    await reader.read([{ reading, start: 0, end: prompt, sequence: first }]);
    using second = first.fork();
    const middle = prompt + ((tokens.length - prompt) >> 1);
    for (let start = prompt; start < middle; start++) {
      // First one sequence writes the page that the two share, then the other.
      const strangers = start === prompt ? others(first, strange.subarray(0, 3)) : [];
      await reader.read([{ reading, start, end: start + 1, sequence: second }], strangers);
    }
    using third = second.fork();
    await model.run(others(second, strange.subarray(3, 20)));
    second[Symbol.dispose]();
    for (let start = middle; start < tokens.length; start++) await reader.read([{ reading, start, end: start + 1, sequence: third }]);
  }
  return reader.answers;
}

/** Each case is copied out half way and continues in a sequence made of the copy, with other states and pages. */
async function restored(model: LanguageModel, readings: readonly Reading[]): Promise<Answers> {
  const reader = new Reader(model, readings);
  const strange = seededTokens(79, strangerTokens, model.config.vocabSize);
  for (const [reading, { prompt, tokens }] of readings.entries()) {
    using first = model.sequence();
    const middle = prompt + ((tokens.length - prompt) >> 1);
    await reader.read([{ reading, start: 0, end: prompt, sequence: first }]);
    for (let start = prompt; start < middle; start++) await reader.read([{ reading, start, end: start + 1, sequence: first }]);
    const snapshot = snapshotOf(first);
    first[Symbol.dispose]();
    using stranger = model.sequence();
    await model.run(others(stranger, strange));
    using second = sequenceFrom(model, snapshot);
    for (let start = middle; start < tokens.length; start++) await reader.read([{ reading, start, end: start + 1, sequence: second }]);
  }
  return reader.answers;
}
