/**
 * How a batch is cut where it has more tokens than go through the layers at a time. An entry is cut after every `most` of
 * its own tokens, whatever else is in the batch: a state of 16 bits, which is rounded once a pass, then has the same bits
 * in every batch. The pieces of one entry go through one pass each, in order.
 */

/** Tokens `start` up to, not including, `end` of one entry. */
export interface Piece {
  /** Which of the batch's entries. */
  readonly entry: number;
  readonly start: number;
  readonly end: number;
}

/**
 * Cuts a batch into passes of at most `most` tokens.
 *
 * @param lengths tokens of each entry.
 */
export function cutIntoPasses(lengths: readonly number[], most: number): Piece[][] {
  const passes: Piece[][] = [];
  const done = lengths.map(() => 0);
  for (let left = lengths.reduce((sum, length) => sum + length, 0); left > 0; ) {
    const pass: Piece[] = [];
    let room = most;
    for (let entry = 0; entry < lengths.length; entry++) {
      const start = done[entry]!;
      const end = Math.min(start + most, lengths[entry]!);
      if (end === start || end - start > room) continue;
      pass.push({ entry, start, end });
      room -= end - start;
      done[entry] = end;
    }
    left -= most - room;
    passes.push(pass);
  }
  return passes;
}
