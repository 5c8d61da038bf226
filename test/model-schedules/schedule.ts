/** One schedule: its sequences, the tokens that each has read, and their logits. */
import { expectCode } from "./codes.ts";
import type { BatchEntry, RunResult, Sequence, TokenRole } from "../../lib/model.ts";
import { bitsEqual } from "../../lib/cli/verify/compare.ts";
import { firstDifference } from "../support/difference.ts";
import { sequenceFrom, snapshotOf } from "../../lib/model/snapshot.ts";
import type { SequenceSnapshot } from "../../lib/model/snapshot.ts";
import { memoryOf } from "../../lib/model/model-memory.ts";
import { ofRole, runsOf } from "../support/roles.ts";
import type { Random } from "../support/random.ts";
import { Difference } from "../support/schedules.ts";
import type { Counts } from "../support/schedules.ts";
import type { Fixture } from "./fixtures.ts";

/** A sequence with its history. */
export interface Reader {
  readonly id: number;
  readonly sequence: Sequence;
  /** All tokens that the sequence has read, by {@link ofRole}. */
  readonly tokens: number[];
  /** Logits after some of them, by the number of tokens read. Shared with its parent up to the fork. */
  readonly answers: Map<number, Float32Array>;
}

/** A committed batch. */
export interface Planned {
  readonly entries: BatchEntry[];
  readonly readers: readonly Reader[];
}

export class Schedule implements Disposable {
  readonly fixture: Fixture;
  readonly lines: string[] = [];
  readonly readers: Reader[] = [];
  readonly #counts: Counts;
  #made = 0;

  constructor(fixture: Fixture, counts: Counts) {
    this.fixture = fixture;
    this.#counts = counts;
    this.lines.push(`a model of ${fixture.name}`);
  }

  count(what: string, by = 1): void {
    this.#counts.add(what, by);
  }

  add(sequence: Sequence, tokens: readonly number[], answers: ReadonlyMap<number, Float32Array>): Reader {
    const reader = { id: this.#made++, sequence, tokens: [...tokens], answers: new Map(answers) };
    this.readers.push(reader);
    return reader;
  }

  /** Ends a sequence and compares its logits. */
  async end(reader: Reader): Promise<void> {
    this.readers.splice(this.readers.indexOf(reader), 1);
    reader.sequence[Symbol.dispose]();
    await this.compare(reader);
  }

  /** Notes that a batch was committed. */
  committed({ entries, readers }: Planned): void {
    for (const [i, reader] of readers.entries()) {
      const { tokens, role = "read" } = entries[i]!;
      reader.tokens.push(...ofRole(this.fixture.model, role, [...tokens]));
    }
    for (const { sequence, tokens, id } of this.readers) {
      if (sequence.tokens !== tokens.length) throw new Difference(`s${id} says it has ${sequence.tokens} tokens, not ${tokens.length}`);
    }
  }

  /** Keeps the results of the last committed batch. */
  keep({ entries, readers }: Planned, results: readonly RunResult[]): void {
    if (results.length !== entries.length) throw new Difference(`${results.length} results for ${entries.length} entries`);
    const { vocabSize } = this.fixture.model.config;
    for (const [i, reader] of readers.entries()) {
      const { logits = "last", tokens, sequence } = entries[i]!;
      const result = results[i]!;
      if (result.sequence !== sequence) throw new Difference("a result of another sequence");
      const rows = logits === "none" ? 0 : logits === "last" ? 1 : tokens.length;
      if (result.rows !== rows) throw new Difference(`${result.rows} rows of logits, not ${rows}`);
      if (rows === 0) {
        expectCode(() => result.logits, "state");
        continue;
      }
      const all = result.logits.slice();
      for (let row = 0; row < rows; row++) {
        reader.answers.set(reader.tokens.length - rows + 1 + row, all.subarray(row * vocabSize, (row + 1) * vocabSize));
      }
    }
  }

  /** Compares a sequence's logits with those of a cold sequence that reads its tokens. */
  async compare({ id, tokens, answers }: Reader): Promise<void> {
    if (answers.size === 0) return;
    const { cold } = this.fixture;
    const { vocabSize } = cold.config;
    using sequence = cold.sequence();
    const logits = new Float32Array(tokens.length * vocabSize);
    for (const { role, tokens: some } of runsOf(tokens)) {
      const before = sequence.tokens * vocabSize;
      const [result] = await cold.run([{ sequence, tokens: some, role, logits: "all" }]);
      logits.set(result!.logits, before);
    }
    for (const [count, answer] of answers) {
      const row = logits.subarray((count - 1) * vocabSize, count * vocabSize);
      this.count("rows compared");
      if (bitsEqual(answer, row)) continue;
      const at = firstDifference(answer, row)! >> 2;
      throw new Difference(`s${id} after ${count} of ${tokens.length} tokens: logit ${at} is ${answer[at]!}, and ${row[at]!} cold`);
    }
  }

  /** Compares the remaining sequences, and ends them. */
  async finish(): Promise<void> {
    while (this.readers.length > 0) await this.end(this.readers[0]!);
    const { model } = this.fixture;
    if (model.freeStates !== model.states || model.freePages !== model.pages) {
      throw new Difference(`${model.freeStates} of ${model.states} states and ${model.freePages} of ${model.pages} pages are free at the end`);
    }
  }

  fork(reader: Reader): Reader {
    return this.add(reader.sequence.fork(), reader.tokens, reader.answers);
  }

  snapshot(reader: Reader): SequenceSnapshot {
    return snapshotOf(reader.sequence);
  }

  restore(snapshot: SequenceSnapshot, { tokens, answers }: Reader): Reader {
    return this.add(sequenceFrom(this.fixture.model, snapshot), tokens, answers);
  }

  /** A random role where bits depend on it. */
  role(random: Random): TokenRole {
    return memoryOf(this.fixture.model).byRole ? random.pick(["read", "generated"]) : "read";
  }

  /** Tokens of a random text. */
  text(random: Random, count: number): number[] {
    return Array.from({ length: count }, () => random.below(this.fixture.model.config.vocabSize));
  }

  [Symbol.dispose](): void {
    for (const { sequence } of this.readers) sequence[Symbol.dispose]();
    this.readers.length = 0;
  }
}
