/**
 * Tokens by their roles. Where kernels are chosen by a token's role, results depend on the role: then tokens of different roles are
 * not read in one entry, and a cache does not confuse them.
 */
import type { TokenRole } from "../model-options.ts";
import type { TokenRanges } from "./token-ranges.ts";

/** Added to a generated token's id, which is smaller, in a key. */
const generatedMark = 2 ** 31;

/**
 * The key of the first `length` tokens in a cache.
 *
 * @param generated the tokens that were generated; undefined if results do not depend on roles, so that prompts that contain an
 *   answer find it again.
 */
export function keyOf(tokens: readonly number[], length: number, generated: TokenRanges | undefined): Uint32Array {
  const key = Uint32Array.from(tokens.slice(0, Math.max(0, length)));
  if (generated === undefined) return key;
  const bounds = generated.bounds;
  for (let i = 0; i < bounds.length; i += 2) for (let at = bounds[i]!; at < Math.min(bounds[i + 1]!, key.length); at++) key[at]! += generatedMark;
  return key;
}

/** The role of the token at a position, and the first later position with another role. */
export function roleAt(generated: TokenRanges, position: number): { readonly role: TokenRole; readonly end: number } {
  return { role: generated.has(position) ? "generated" : "read", end: generated.next(position) };
}
