/**
 * At which positions of a prompt its state is kept. A state can't be cut shorter, so a prompt that shares n tokens with an
 * earlier one goes on from the last kept position that is at most n.
 */

/** {@link LadderOptions.first} where it is left out. */
export const defaultStep = 64;

/** How positions are chosen. */
export interface LadderOptions {
  /** The first step within a message, and the least distance between two positions, in tokens. @default 64 */
  readonly first?: number | undefined;
  /** What each further step is longer by than the one before. @default 2 */
  readonly ratio?: number | undefined;
}

/** A position whose state is kept. */
export interface Rung {
  readonly position: number;
  /** How likely it is to be used, beside the end of a message. */
  readonly likely: number;
}

/**
 * How likely positions are to be used beside the ends of messages and of answers: a step within a message where that message is
 * changed there, the end of a prompt where another answer is asked for. With these and the store's half-life, replays of
 * agents' traces (test/support/traces.ts) read no more than with eviction by age, in budgets of 8 states to 160.
 */
const likelyStep = 1 / 32;
export const likelyEnd = 1 / 4;

/**
 * The positions to keep between two positions of a sequence, ascending: the ends of messages, and within a message of n
 * tokens those first · ratio^i tokens after its beginning. A position less than `first` tokens after the one before it is
 * left out, unless it is `to`. So of a message that was changed after k tokens, at most the larger of 2 first and
 * first + k (ratio − 1) / ratio + 1 tokens before the change are read again: {@link ladderStep}.
 *
 * @param from where the kept state begins that the sequence goes on from.
 * @param to the last position, which is one of them.
 * @param messageEnds ascending positions after the last token of each message.
 */
export function ladder(from: number, to: number, messageEnds: readonly number[], { first = defaultStep, ratio = 2 }: LadderOptions = {}): Rung[] {
  const found: Rung[] = [];
  let last = from;
  const keep = (position: number, likely: number): void => {
    if (position <= last || position >= to || position - last < first) return;
    found.push({ position, likely });
    last = position;
  };
  let start = 0;
  for (const end of [...messageEnds.filter((end) => end < to), to]) {
    for (let step = first; start + step < end; step *= ratio) keep(start + Math.floor(step), likelyStep);
    keep(end, 1);
    start = end;
  }
  if (to > from) found.push({ position: to, likely: likelyEnd });
  return found;
}

/** The most tokens before a change that are read again, where a message was changed after k tokens. */
export function ladderStep(k: number, { first = defaultStep, ratio = 2 }: LadderOptions = {}): number {
  return Math.max(2 * first, first + (k * (ratio - 1)) / ratio + 1);
}
