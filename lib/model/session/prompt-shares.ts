/**
 * How many tokens each prompt reads in a step. Each prompt gets half of the tokens that earlier prompts left over, and the
 * last prompt gets all the rest; tokens that a prompt does not need go to the others, starting with the first. So an earlier
 * prompt never gets less because of a later one, and later prompts still make progress.
 *
 * @param wanted tokens that each prompt still has to read, in order of arrival.
 * @param room tokens for prompts in the step.
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
