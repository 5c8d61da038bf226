/** Reads the biases of logits that a caller passed. */
import { BoundsError } from "../../errors.ts";
import { invalid } from "../../arguments/checks.ts";
import { reading } from "../../arguments/reading.ts";
import type { SamplingOptions } from "./settings.ts";

/** Accepted values, in words. */
export const biasText = "an object or a map of token ids and numbers";

/** The largest finite bias. */
const most = 100;

/** Whether a value is a plain object, from a literal or JSON: others, such as a Set, have entries that are not properties. */
function isPlain(value: unknown): value is object {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/**
 * The biases of an object or a map.
 *
 * @throws {GatedDeltaError} that names the entry, for ids outside the vocabulary and numbers that are neither in −100 .. 100 nor infinite.
 */
export function readLogitBias(op: string, value: SamplingOptions["logitBias"], vocabSize: number): ReadonlyMap<number, number> {
  const found = new Map<number, number>();
  if (value === undefined) return found;
  reading(op, "logitBias", () => {
    const isMap = value instanceof Map;
    if (!isMap && (!isPlain(value) || Object.getOwnPropertySymbols(value).length > 0)) throw invalid(op, "logitBias", biasText, value);
    const entries: Iterable<readonly [unknown, unknown]> = isMap ? Map.prototype.entries.call(value) : Object.entries(value);
    for (const [key, bias] of entries) {
      const id: unknown = !isMap && /^(?:0|[1-9]\d{0,9})$/.test(key as string) ? Number(key) : key;
      if (typeof id !== "number" || !Number.isInteger(id) || id < 0) throw invalid(op, "logitBias", `token ids in 0..${vocabSize - 1}${isMap ? "" : " as names"}`, key);
      if (id >= vocabSize) throw new BoundsError({ op, argument: "logitBias", expected: `token ids in 0..${vocabSize - 1}`, received: `${id}` });
      if (typeof bias !== "number" || !(Math.abs(bias) <= most || Math.abs(bias) === Infinity)) {
        throw invalid(op, `logitBias[${id}]`, `a number in ${-most}..${most}, -Infinity or Infinity`, bias);
      }
      found.set(id, bias);
    }
  });
  return found;
}
