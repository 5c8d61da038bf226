/** How a model's identity is computed from the digests of its tensors. */
import { createHash } from "node:crypto";
import type { ActivationForm } from "../../native/options.ts";
import type { ModelConfig } from "../model-config.ts";
import type { StoredTensor } from "./stored-tensors.ts";

/** The algorithm's name. It changes when the computation or the meaning of a setting changes. */
export const algorithm = "gated-delta-identity-1";

/** The meaning of int8 activations: a number for each set of formats that are multiplied as integers, and each way to do so. */
const int8Meaning = 3;

/**
 * The SHA-256, in hexadecimal, of a JSON text without spaces: `[algorithm, configuration, [[name, dtype, shape, digest], …]]`,
 * with object keys and tensors in ascending order.
 *
 * The configuration is everything that the library reads from it, except for the end tokens, which change no result, and activations that
 * are not exact.
 *
 * @param digestOf the SHA-256 of the SHA-256s of a tensor's chunks.
 * @param activations a setting unless they are exact, because others change every state.
 */
export function identityOf(
  config: ModelConfig,
  tensors: readonly StoredTensor[],
  digestOf: (tensor: StoredTensor) => string,
  activations: ActivationForm = "exact",
): string {
  const { eosTokens: _, family, attention: { gated, norm, ...attention }, ...numeric } = config;
  // Newer settings are left out if they have the value of all older models, so that identities stay the same.
  const later = { ...(family !== "qwen3_5" && { family }), attention: { ...attention, ...(!gated && { gated }), ...(norm !== "head" && { norm }) }, ...(activations !== "exact" && { activations, int8Meaning }) };
  const list = tensors.map((tensor) => [tensor.name, tensor.dtype, tensor.shape, digestOf(tensor)]);
  return createHash("sha256").update(JSON.stringify([algorithm, inOrder({ ...numeric, ...later }), list])).digest("hex");
}

/** A copy with object keys in ascending order. */
function inOrder(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inOrder);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, member]) => [key, inOrder(member)]));
}
