/**
 * Splits a batch with more tokens than can go through the layers at a time. An entry is split after every `most` of its own
 * tokens, regardless of the rest of the batch, so that a 16-bit state, which is rounded once per pass, has the same bits in
 * every batch. Each pass takes one piece of an entry, in order.
 */

/** The tokens `start..end − 1` of one entry. */
export interface Piece {
  /** Index of the entry in the batch. */
  readonly entry: number;
  readonly start: number;
  readonly end: number;
}

/**
 * Splits a batch into passes of at most `most` tokens.
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
