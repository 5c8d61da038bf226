/**
 * Puts long runs of combining marks in canonical order. `String.prototype.normalize` moves each mark into its place step by step, which
 * takes minutes for a run of a hundred thousand.
 */

const longRuns = /\p{M}{33,}/gu;

/** A text that is canonically equivalent, so that it has the same normal forms, with its long runs of marks in order. */
export function withOrderedMarks(text: string): string {
  return text.replace(longRuns, ordered);
}

/** Orders a run as normalization does: by combining class, without reordering equal ones or moving any past a character of class 0. */
function ordered(run: string): string {
  const decomposed = new Map<string, readonly string[]>();
  for (const mark of new Set(run)) decomposed.set(mark, Array.from(mark.normalize("NFD")));
  const ranks = ranksOf(new Set([...decomposed.values()].flat()));
  const parts: string[] = [];
  let classes: string[][] = [];
  const flush = (): void => {
    for (const one of classes) if (one !== undefined) parts.push(one.join(""));
    classes = [];
  };
  for (const composed of run) {
    for (const mark of decomposed.get(composed)!) {
      const rank = ranks.get(mark);
      if (rank === undefined) {
        flush();
        parts.push(mark);
      } else (classes[rank] ??= []).push(mark);
    }
  }
  flush();
  return parts.join("");
}

const isOrdered = (first: string, second: string): boolean => (first + second).normalize("NFD") === first + second;

/** The order of marks by combining class, which JavaScript does not expose, so it is found from pairs in order. Class 0 has no order. */
function ranksOf(marks: ReadonlySet<string>): ReadonlyMap<string, number> {
  // These marks have the lowest and the highest class. A mark that changes places with neither is of class 0.
  const [lowest, highest] = ["\u0334", "\u0345"];
  const moving = [...marks].filter((mark) => !isOrdered(mark, lowest) || !isOrdered(highest, mark));
  moving.sort((a, b) => (isOrdered(a, b) ? (isOrdered(b, a) ? 0 : -1) : 1));
  const ranks = new Map<string, number>();
  let rank = 0;
  for (const [i, mark] of moving.entries()) {
    if (i > 0 && !isOrdered(mark, moving[i - 1]!)) rank++;
    ranks.set(mark, rank);
  }
  return ranks;
}
