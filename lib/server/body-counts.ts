/** How many messages, tools and so on a body may have. They are counted before its members are checked, because each check takes time. */
import { isRecord } from "../checkpoint/json.ts";
import type { Served } from "./api.ts";
import { Problem } from "./problem.ts";

/** Arrays of bodies that are counted together. A name ends in `[]` if each element of the array has the next member. */
export interface Counted {
  /** The elements, in the plural. */
  readonly what: string;
  readonly most: number;
  readonly arrays: readonly string[];
}

/** Messages, their parts and calls. */
export const mostMessages = 16384;
/** Tools. */
export const mostTools = 4096;

/**
 * Checks how many elements a body has: at most as many as the model has positions, because each element becomes tokens.
 *
 * @throws {Problem} that names the array that exceeds the limit.
 */
export function expectCounts(body: unknown, { model }: Pick<Served, "model">, counted: readonly Counted[]): void {
  for (const { what, most, arrays } of counted) {
    const limit = Math.min(most, model.config.maxPositions);
    let count = 0;
    for (const name of arrays) {
      for (const { length, member } of arraysAt(body, name.split("."), "")) {
        count += length;
        if (count > limit) throw new Problem("invalid", `${member}: expected at most ${limit} ${what} in all, got ${count === length ? length : `${count} up to these`}`, { member });
      }
    }
  }
}

/**
 * Checks that there are no more biases than the model has tokens.
 *
 * @throws {Problem} for more.
 */
export function expectBiases(body: unknown, { model: { config } }: Pick<Served, "model">): void {
  const biases = isRecord(body) ? body["logit_bias"] : undefined;
  if (!isRecord(biases)) return;
  const { length } = Object.keys(biases);
  if (length > config.vocabSize) throw new Problem("invalid", `logit_bias: expected at most ${config.vocabSize} token ids, as many as the model has, got ${length}`, { member: "logit_bias" });
}

/** The lengths of the arrays at a path. Values of other types are left for the body's schema. */
function* arraysAt(value: unknown, [name, ...rest]: readonly string[], before: string): Generator<{ readonly length: number; readonly member: string }, void, void> {
  if (typeof value !== "object" || value === null || name === undefined) return;
  const each = name.endsWith("[]");
  const key = each ? name.slice(0, -2) : name;
  const member = `${before}${key}`;
  const found: unknown = Object.hasOwn(value, key) ? (value as Readonly<Record<string, unknown>>)[key] : undefined;
  if (!Array.isArray(found)) return;
  if (!each) return yield { length: found.length, member };
  for (const [i, one] of found.entries()) yield* arraysAt(one, rest, `${member}[${i}].`);
}
