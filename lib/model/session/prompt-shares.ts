/**
 * How many tokens each prompt reads in a step. Each gets half of what those before it have left, and the last one all of
 * it; what one has no use for goes to the others, from the first. So an earlier prompt never has less than a later one
 * because of that one, and the later ones still go on.
 *
 * @param wanted tokens that each prompt has left to read, in the order in which they came.
 * @param room tokens that the step has for prompts.
 */
export function promptShares(wanted: readonly number[], room: number): number[] {
  let left = room;
  const shares = wanted.map((want, i) => {
    const share = Math.min(want, i === wanted.length - 1 ? left : Math.ceil(left / 2));
    left -= share;
    return share;
  });
  for (let i = 0; left > 0 && i < shares.length; i++) {
    const more = Math.min(left, wanted[i]! - shares[i]!);
    shares[i]! += more;
    left -= more;
  }
  return shares;
}
