/** For benchmarks that are run as tests: tensors' numbers for the reference, and the printed figure. */
import type { Tensor } from "../lib/index.ts";
import { reference } from "../test/reference/tensor.ts";
import type { Reference } from "../test/reference/tensor.ts";
import { quickBudget, time } from "./benchmark.ts";

/** A copy of a tensor's numbers. */
export function numbers(tensor: Tensor): Reference {
  return reference(tensor.shape, tensor.toFloat32());
}

/** Times a call with mitata, briefly, and prints the time. Asserts nothing. */
export async function printFigure(name: string, call: () => void): Promise<void> {
  const { us, usMin } = await time(call, quickBudget);
  console.log(`${name}: ${us.toFixed(2)} µs, at best ${usMin.toFixed(2)} µs`);
}
