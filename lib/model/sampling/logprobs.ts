/** Logarithms of the model's own probabilities, before temperature, penalties and other settings. */
import { largestIds } from "./candidates.ts";
import { largestOf } from "./sampler.ts";

/** A token and the logarithm of its probability. */
export interface TokenLogprob {
  /** The token's id. */
  readonly token: number;
  /** The natural logarithm of the token's probability in the model, as {@link Piece.logprob}. */
  readonly logprob: number;
}

/**
 * The logarithm of a token's softmax probability, and the `count` most likely tokens with theirs, in descending order, of equal
 * ones the lowest id first.
 */
export function logprobsOf(logits: Float32Array, token: number, count: number): { readonly logprob: number; readonly top: readonly TokenLogprob[] } {
  const { most } = largestOf(logits);
  let sum = 0;
  for (const logit of logits) sum += Math.exp(logit - most);
  const scale = Math.log(sum);
  const of = (id: number): number => logits[id]! - most - scale;
  const ids = count === 0 ? [] : [...largestIds(logits, Math.min(count, logits.length))].sort((a, b) => logits[b]! - logits[a]! || a - b);
  return { logprob: of(token), top: ids.map((id) => ({ token: id, logprob: of(id) })) };
}
