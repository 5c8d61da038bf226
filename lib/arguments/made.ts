/**
 * Keeps constructors to the library. TypeScript's `private` does not stop JavaScript callers, so the constructor of such a
 * class takes {@link maker} first, which never leaves lib/:
 *
 *     private constructor(by: Maker, pool: StatePool) {
 *       expectMaker(by, "StateHandle", "pool.allocate()");
 */
import { GatedDeltaError } from "../errors.ts";

/** The type of {@link maker}. */
export type Maker = typeof maker;

/** The first argument of constructors that only the library calls. */
export const maker: unique symbol = Symbol("maker");

/**
 * Refuses calls from outside the library.
 *
 * @param className the class, as `op` of the error.
 * @param way the public call to use, as `expected` of the error.
 * @throws {GatedDeltaError} of code `invalid-argument`.
 */
export function expectMaker(by: Maker, className: string, way: string): void {
  if (by !== maker) throw new GatedDeltaError("invalid-argument", { op: className, expected: way });
}
