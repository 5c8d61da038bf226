/**
 * The positions of a prompt whose states a cache keeps. A state can't be cut shorter, so a prompt that shares n tokens with
 * an earlier one continues from the last kept position that is at most n.
 */

/** Default of {@link PositionOptions.first}. */
export const defaultFirst = 64;

/** How positions are chosen. */
export interface PositionOptions {
  /** Distance of the first position from the beginning of a message, and least distance of two positions, in tokens. @default 64 */
  readonly first?: number | undefined;
  /** The factor between the distances of two successive positions from the beginning of a message. @default 2 */
  readonly ratio?: number | undefined;
}

/** A position whose state is kept. */
export interface CheckpointPosition {
  readonly position: number;
  /** How likely the position is to be used, relative to the end of a message. */
  readonly likely: number;
}

/**
 * How likely positions are to be used, relative to the ends of messages and answers: a position within a message if the message
 * is edited there, the end of a prompt if its answer is generated again. With these values and the store's half-life, replays
 * of agents' traces (test/support/traces.ts) read no more tokens than with eviction by age, with budgets of 8 to 160 states.
 */
const likelyWithin = 1 / 32;
export const likelyEnd = 1 / 4;

/**
 * The positions to keep between two positions of a sequence, ascending: the ends of messages, and within each message the
 * positions first · ratio^i tokens after its beginning. A position less than `first` tokens after the previous one is left
 * out, unless it is `to`. So if a message is edited after its first k tokens, at most the larger of 2 first and
 * first + k (ratio − 1) / ratio + 1 of the tokens before the edit are read again.
 *
 * @param from the position of the kept state from which the sequence continues.
 * @param to the last position; always kept.
 * @param messageEnds ascending positions after the last token of each message.
 */
export function checkpointPositions(
  from: number,
  to: number,
  messageEnds: readonly number[],
  { first = defaultFirst, ratio = 2 }: PositionOptions = {},
): CheckpointPosition[] {
  const found: CheckpointPosition[] = [];
  let last = from;
  const keep = (position: number, likely: number): void => {
    if (position <= last || position >= to || position - last < first) return;
    found.push({ position, likely });
    last = position;
  };
  let start = 0;
  for (const end of [...messageEnds.filter((end) => end < to), to]) {
    for (let step = first; start + step < end; step *= ratio) keep(start + Math.floor(step), likelyWithin);
    keep(end, 1);
    start = end;
  }
  if (to > from) found.push({ position: to, likely: likelyEnd });
  return found;
}
