/**
 * The one way to construct what only the library makes. TypeScript's `private` stops no JavaScript caller, so such a
 * constructor takes {@link maker} first, which never leaves lib/:
 *
 *     private constructor(by: Maker, pool: StatePool) {
 *       expectMaker(by, "StateHandle", "pool.allocate()");
 */
import { GatedDeltaError } from "../errors.ts";

/** The type of {@link maker}. */
export type Maker = typeof maker;

/** First argument of constructors that are the library's own. */
export const maker: unique symbol = Symbol("maker");

/**
 * Refuses a caller's own `new`.
 *
 * @param className the class, as `op` of the error.
 * @param way the call that makes one, as `expected` of the error.
 * @throws {GatedDeltaError} of code `invalid-argument`.
 */
export function expectMaker(by: Maker, className: string, way: string): void {
  if (by !== maker) throw new GatedDeltaError("invalid-argument", { op: className, expected: way });
}
