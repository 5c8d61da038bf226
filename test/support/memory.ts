/** Memory that is released some time after its last use. */

/**
 * A memory figure once it is below a bound, or has had time to fall: finalizers and finished submissions release memory a moment
 * after the work to which they belong.
 */
export async function fallen(measure: () => number, bound: number): Promise<number> {
  for (let round = 0; round < 100 && measure() >= bound; round++) {
    await Bun.sleep(10);
    Bun.gc(true);
  }
  return measure();
}
