/** A product on the CPU with several numbers of threads. */
import { Device, linear } from "../../lib/index.ts";
import type { LinearArguments } from "../../lib/index.ts";
import { randomQuantised } from "./quantised.ts";
import type { Random } from "./random.ts";

/** The products of random rows and a random 4-bit matrix with groups of 64, computed by 1, 2, 3 and 8 threads. */
export function linearByThreads(random: Random, { rows, columns, features }: Readonly<Record<"rows" | "columns" | "features", number>>, activations?: LinearArguments["activations"]): Float32Array[] {
  const x = Float32Array.from({ length: rows * columns }, () => random.normal());
  const { words, scales, biases } = randomQuantised(random, [features, columns], 4, 64, "f32");
  return [1, 2, 3, 8].map((threads) => {
    using device = Device.open({ backend: "cpu", threads });
    const out = device.tensor("f32", [rows, features]);
    const weight = device.tensor("u32", words.shape).copyFrom(words.data);
    const group = { scales: device.tensor("f32", scales.shape).copyFrom(scales.data), biases: device.tensor("f32", biases.shape).copyFrom(biases.data) };
    device.run(linear({ x: device.tensor("f32", [rows, columns]).copyFrom(x), weight, ...group, out, activations }));
    device.wait();
    return out.toFloat32();
  });
}
