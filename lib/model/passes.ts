/**
 * Cuts a batch that has more tokens than go through the layers at a time. An entry is cut after every `most` of its own
 * tokens, independent of the rest of the batch, so that a 16-bit state, which is rounded once per pass, has the same bits
 * in every batch. Each pass takes one piece of an entry, in order.
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
