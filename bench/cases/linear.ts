/** Projections of one row, bound by the weights' bytes, and of many, bound by multiply-adds; every form of weight. */
import { linear } from "../../lib/index.ts";
import type { Device, LinearArguments, Tensor } from "../../lib/index.ts";
import { Random } from "../../test/support/random.ts";
import type { Benchmark } from "../benchmark.ts";
import { bytesOf, bytesWork, copiesOf, filled, opBenchmark } from "../operands.ts";
import type { Calls, Temperature } from "../operands.ts";

/** Columns that share a scale: mlx-lm's default. */
const group = 64;

/** A projection to measure. form: the weight's dtype, or q and the bits of MLX's affine form with bf16 scales. */
export interface LinearShape {
  readonly form: "f32" | "bf16" | "q8" | "q6" | "q5" | "q4" | "q3" | "q2";
  readonly rows: number;
  readonly inFeatures: number;
  readonly outFeatures: number;
  readonly threads: number;
  readonly temperature: Temperature;
}

/** Such as `linear/q4/R1/1024x3584/t1/cold`: rows, in by out features, threads. */
export function linearName({ form, rows, inFeatures, outFeatures, threads, temperature }: LinearShape): string {
  return `linear/${form}/R${rows}/${inFeatures}x${outFeatures}/t${threads}/${temperature}`;
}

/** Bits of an element, scales and biases included. */
function bitsOf(form: LinearShape["form"]): number {
  return form === "f32" || form === "bf16" ? 8 * bytesOf[form] : Number(form.slice(1)) + 32 / group;
}

/** Words of any bits. */
export function words(device: Device, shape: readonly [number, number]): Tensor {
  const tensor = device.tensor("u32", shape);
  const data = tensor.data as Uint32Array;
  const random = new Random(data.length);
  for (let i = 0; i < Math.min(data.length, 8191); i++) data[i] = random.below(2 ** 32);
  for (let done = 8191; done < data.length; done *= 2) data.copyWithin(done, 0, Math.min(done, data.length - done));
  return tensor;
}

export function linearFormCalls(device: Device, shape: LinearShape): Calls<LinearArguments> {
  const { form, rows, inFeatures, outFeatures, temperature } = shape;
  const copies = copiesOf(temperature, (outFeatures * inFeatures * bitsOf(form)) / 8);
  const all = copies * outFeatures;
  const x = filled(device, "f32", [rows, inFeatures]);
  const out = filled(device, "f32", [rows, outFeatures]);
  const size = 1 / Math.sqrt(inFeatures);
  const matrix: Record<string, Tensor> =
    form === "f32" || form === "bf16"
      ? { weight: filled(device, form, [all, inFeatures], -size, size) }
      : {
          weight: words(device, [all, (inFeatures * Number(form.slice(1))) / 32]),
          scales: filled(device, "bf16", [all, inFeatures / group], 0, size / 2 ** Number(form.slice(1))),
          biases: filled(device, "bf16", [all, inFeatures / group], -size, 0),
        };
  const calls = Array.from({ length: copies }, (_, i) => ({
    x,
    ...(Object.fromEntries(
      Object.entries(matrix).map(([name, tensor]) => [name, tensor.slice(i * outFeatures, (i + 1) * outFeatures)]),
    ) as { weight: Tensor }),
    out,
  }));
  return { calls, tensors: [x, out, ...Object.values(matrix)] };
}

export function linearFormBenchmark(shape: LinearShape, device: () => Device): Benchmark {
  const { form, rows, inFeatures, outFeatures } = shape;
  const bytes = (outFeatures * inFeatures * bitsOf(form)) / 8;
  const work =
    rows === 1
      ? bytesWork(shape.temperature, bytes, "read", bytes)
      : ({ kind: "multiply-adds", count: rows * inFeatures * outFeatures } as const);
  return opBenchmark(linearName(shape), device, shape.threads, work, (opened) => {
    const { calls, tensors } = linearFormCalls(opened, shape);
    return { calls: calls.map((args) => [linear(args)]), tensors };
  });
}

/** The projections of a model of 0.8 billion weights: its MLP, both ways. */
export function linearShapes(threads: readonly number[]): LinearShape[] {
  const one = (["f32", "bf16", "q8", "q6", "q5", "q4", "q3", "q2"] as const).flatMap((form) =>
    threads.map((count) => ({ form, rows: 1, inFeatures: 1024, outFeatures: 3584, threads: count, temperature: "cold" as const })),
  );
  const many = (["f32", "bf16", "q8", "q4"] as const).flatMap((form) =>
    ([[1024, 3584], [3584, 1024]] as const).map(([inFeatures, outFeatures]) => ({
      form, rows: 512, inFeatures, outFeatures, threads: 1, temperature: "hot" as const,
    })),
  );
  return [...one, ...many];
}
