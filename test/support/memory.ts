/** Memory that is released in turns of its own. */

/**
 * A figure of memory once it is below a bound, or has had time to fall: finalizers and finished submissions let go of memory a moment
 * after the work that they belong to.
 */
export async function fallen(measure: () => number, bound: number): Promise<number> {
  for (let round = 0; round < 100 && measure() >= bound; round++) {
    await Bun.sleep(10);
    Bun.gc(true);
  }
  return measure();
}
