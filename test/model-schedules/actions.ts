/** The actions of schedules. */
import type { ErrorCode } from "../../lib/index.ts";
import type { BatchEntry, WantedLogits } from "../../lib/model.ts";
import type { Random } from "../support/random.ts";
import { expectCode, expectRejection } from "./codes.ts";
import { longestText } from "./fixtures.ts";
import { Difference } from "../support/schedules.ts";
import type { Planned, Reader, Schedule } from "./schedule.ts";
import { verify } from "./verify.ts";

/** One kind of action; it does nothing if the schedule lacks something that it needs. */
export type Action = (schedule: Schedule, random: Random) => Promise<void> | void;

const create: Action = (schedule) => {
  const { model } = schedule.fixture;
  if (model.freeStates === 0) return expectCode(() => model.sequence(), "out-of-memory");
  const { id } = schedule.add(model.sequence(), [], new Map());
  schedule.lines.push(`s${id} = model.sequence()`);
};

const fork: Action = (schedule, random) => {
  if (schedule.readers.length === 0) return;
  const reader = random.pick(schedule.readers);
  if (schedule.fixture.model.freeStates === 0) return expectCode(() => reader.sequence.fork(), "out-of-memory");
  const { id } = schedule.fork(reader);
  schedule.lines.push(`s${id} = s${reader.id}.fork()`);
  schedule.count("forks");
};

const end: Action = async (schedule, random) => {
  if (schedule.readers.length === 0) return;
  const reader = random.pick(schedule.readers);
  schedule.lines.push(`s${reader.id} ends`);
  await schedule.end(reader);
};

/** How many tokens an entry gets: most often one. */
function lengthOf(random: Random, long: boolean): number {
  const kind = random.below(20);
  if (kind < 10) return 1;
  if (kind < 15) return 2 + random.below(8);
  if (kind < 19 || !long) return 5 + random.below(40);
  return 200 + random.below(500);
}

function entryOf(schedule: Schedule, random: Random, reader: Reader, long: boolean, logits?: WantedLogits): BatchEntry | undefined {
  const count = Math.min(lengthOf(random, long), longestText - reader.tokens.length);
  if (count < 1) return undefined;
  const tokens = schedule.text(random, count);
  const wanted = logits ?? random.pick(["last", "last", "all", "none"] as const);
  const form = random.below(3);
  return { sequence: reader.sequence, tokens: form === 0 ? Int32Array.from(tokens) : form === 1 ? Uint32Array.from(tokens) : tokens, logits: wanted, role: schedule.role(random) };
}

/** Chooses a batch of up to `most` sequences. */
function plan(schedule: Schedule, random: Random, most: number, logits?: WantedLogits): Planned {
  const single = random.below(3) === 0;
  const long = schedule.fixture.long && random.below(4) === 0;
  const chosen = random.distinct(Math.min(1 + random.below(most), schedule.readers.length), schedule.readers.length).map((i) => schedule.readers[i]!);
  const readers: Reader[] = [];
  const entries: BatchEntry[] = [];
  for (const reader of chosen) {
    const entry = single
      ? reader.tokens.length < longestText ? { sequence: reader.sequence, tokens: schedule.text(random, 1), logits: logits ?? "last", role: schedule.role(random) } as const : undefined
      : entryOf(schedule, random, reader, long, logits);
    if (entry === undefined) continue;
    readers.push(reader);
    entries.push(entry);
  }
  return { entries, readers };
}

function told({ entries, readers }: Planned): string {
  return entries.map(({ tokens, logits, role }, i) => `s${readers[i]!.id} + ${tokens.length > 12 ? `${tokens.length} tokens` : `[${[...tokens].join()}]`} ${role} ${logits}`).join(", ");
}

/** Whether a batch may run out of pages: it cannot if each of its sequences could have one page too many. */
function mayRunOut(schedule: Schedule, { entries, readers }: Planned): boolean {
  const { model } = schedule.fixture;
  const pagesOf = (tokens: number) => Math.ceil(tokens / model.pageTokens);
  const most = entries.reduce((sum, { tokens }, i) => {
    const had = readers[i]!.tokens.length;
    return sum + pagesOf(had + tokens.length) - pagesOf(had) + 1;
  }, 0);
  return most > model.freePages;
}

/** Notes that a batch was refused, which must have changed nothing. */
async function refused(schedule: Schedule, planned: Planned, promise: Promise<unknown>): Promise<void> {
  if (!mayRunOut(schedule, planned)) {
    await promise; // throws
    throw new Difference("a batch was refused for no reason");
  }
  await expectRejection(promise, "out-of-memory");
  schedule.committed({ entries: [], readers: [] });
  schedule.count("batches without enough pages");
}

const run: Action = async (schedule, random) => {
  const planned = plan(schedule, random, 5);
  if (planned.entries.length === 0) return;
  schedule.lines.push(`run ${told(planned)}`);
  const before = planned.readers.map(({ sequence }) => sequence.tokens);
  const promise = handled(schedule.fixture.model.run(planned.entries));
  // A batch is refused at once; otherwise its tokens are counted at once.
  const accepted = planned.readers.some(({ sequence }, i) => sequence.tokens !== before[i]);
  if (!accepted) return await refused(schedule, planned, promise);
  schedule.committed(planned);
  schedule.keep(planned, await promise);
  schedule.count("runs");
  schedule.count("tokens", planned.entries.reduce((sum, { tokens }) => sum + tokens.length, 0));
  if (planned.entries.length > 1) schedule.count("batches of several");
};

/** A promise that is awaited later, unless something else throws before. */
function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  return promise;
}

/** Runs without logits follow each other without waiting; a run with logits ends the series, and refuses others meanwhile. */
const overlap: Action = async (schedule, random) => {
  if (schedule.readers.length === 0) return;
  const { model } = schedule.fixture;
  const pending: Promise<unknown>[] = [];
  for (let i = 0; i < 3; i++) {
    const planned = plan(schedule, random, 3, "none");
    if (planned.entries.length === 0 || mayRunOut(schedule, planned)) continue;
    schedule.lines.push(`run, not awaited, ${told(planned)}`);
    pending.push(handled(model.run(planned.entries)));
    schedule.committed(planned);
  }
  const planned = plan(schedule, random, 3, "all");
  if (planned.entries.length > 0 && !mayRunOut(schedule, planned)) {
    schedule.lines.push(`run ${told(planned)}`);
    const last = handled(model.run(planned.entries));
    schedule.committed(planned);
    const [{ sequence }] = planned.entries as [BatchEntry];
    await expectRejection(model.run([{ sequence, tokens: [0] }]), "state");
    schedule.keep(planned, await last);
  }
  await Promise.all(pending);
  schedule.count("runs side by side");
};

const restore: Action = (schedule, random) => {
  if (schedule.readers.length === 0) return;
  const { model } = schedule.fixture;
  const reader = random.pick(schedule.readers);
  const snapshot = schedule.snapshot(reader);
  const needed = Math.ceil(reader.tokens.length / model.pageTokens);
  const ends = random.below(2) === 0;
  if (ends) {
    schedule.readers.splice(schedule.readers.indexOf(reader), 1);
    reader.sequence[Symbol.dispose]();
  }
  if (model.freeStates === 0 || (needed > model.freePages && model.pages > 0)) {
    expectCode(() => schedule.restore(snapshot, reader), "out-of-memory");
    return;
  }
  const { id } = schedule.restore(snapshot, reader);
  schedule.lines.push(`s${id} = s${reader.id}, restored${ends ? "; that one ends" : ""}`);
  schedule.count("restored");
};

/** Batches that must be refused, whatever else is in them. */
const misuse: Action = async (schedule, random) => {
  if (schedule.readers.length === 0) return;
  const { model, cold } = schedule.fixture;
  const { vocabSize, maxPositions } = model.config;
  const { entries } = plan(schedule, random, 3);
  const { sequence } = random.pick(schedule.readers);
  using disposed = model.freeStates > 0 ? model.sequence() : cold.sequence();
  using foreign = disposed.model === cold ? undefined : cold.sequence();
  disposed[Symbol.dispose]();
  const wrong: [BatchEntry, ...ErrorCode[]][] = [
    [{ sequence, tokens: [] }, "range"],
    [{ sequence, tokens: [vocabSize] }, "range"],
    [{ sequence, tokens: [-1] }, "range"],
    [{ sequence, tokens: [0.5] }, "invalid-argument"],
    [{ sequence, tokens: new Int32Array(maxPositions + 1) }, "range"],
    [{ sequence: disposed, tokens: [0] }, "disposed", "invalid-argument"],
  ];
  if (foreign !== undefined) wrong.push([{ sequence: foreign, tokens: [0] }, "invalid-argument"]);
  const [entry, ...codes] = random.pick(wrong);
  await expectRejection(model.run([...entries.filter((each) => each.sequence !== sequence), entry]), ...codes);
  await expectRejection(model.run([...entries.slice(0, 1), ...entries.slice(0, 1), { sequence, tokens: [0] }, { sequence, tokens: [0] }]), "invalid-argument", "shape");
  schedule.committed({ entries: [], readers: [] });
  schedule.count("batches refused");
};

export const actions = { create, fork, end, run, overlap, restore, misuse, verify } satisfies Record<string, Action>;

/** How often each kind of action comes. */
export const weights: Readonly<Record<keyof typeof actions, number>> = { create: 4, fork: 3, end: 2, run: 16, overlap: 1, restore: 1, misuse: 1, verify: 5 };
