/** Projections of one row, bound by the weights' bytes, and of many, bound by multiply-adds, with every form of weight. */
import { linear } from "../../lib/index.ts";
import type { Device, LinearArguments, Tensor, WeightFormat } from "../../lib/index.ts";
import { weightLayouts } from "../../lib/native/weight-formats.ts";
import { Random } from "../../test/support/random.ts";
import type { Benchmark } from "../benchmark.ts";
import { bytesWork, copiesOf, filled, opBenchmark } from "../operands.ts";
import type { Calls, Temperature } from "../operands.ts";

/** Columns that share a scale: mlx-lm's default. */
const group = 64;

/** MLX's affine forms with bf16 scales, by their bits. */
const affineForms = { q8: "affine8-g64", q6: "affine6-g64", q5: "affine5-g64", q4: "affine4-g64", q3: "affine3-g64", q2: "affine2-g64" } as const;

/** Types of ggml, and MLX's micro-scaled forms. */
const otherForms = [
  "q8_0", "q6_k", "q5_k", "q4_k", "q3_k", "q2_k", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl", "iq4_xs", "gguf-mxfp4", "mxfp4", "mxfp8", "nvfp4",
] as const satisfies readonly WeightFormat[];

/** A projection to measure. form: the weight's dtype, q and the bits of MLX's affine form with bf16 scales, or another weight format. */
export interface LinearShape {
  readonly form: "f32" | "bf16" | keyof typeof affineForms | (typeof otherForms)[number];
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

const formatOf = (form: LinearShape["form"]): WeightFormat => (form in affineForms ? affineForms[form as keyof typeof affineForms] : (form as WeightFormat));

/** Bits per element, including scales and biases. */
function bitsOf(form: LinearShape["form"]): number {
  const { elements, bytes, scales } = weightLayouts[formatOf(form)];
  return (8 * (bytes + (scales === "float" ? 4 : scales === undefined ? 0 : 1))) / elements;
}

/** Words with random bits. */
export function words(device: Device, shape: readonly [number, number]): Tensor {
  const tensor = device.tensor("u32", shape);
  const data = tensor.data as Uint32Array;
  const random = new Random(data.length);
  for (let i = 0; i < Math.min(data.length, 8191); i++) data[i] = random.below(2 ** 32);
  for (let done = 8191; done < data.length; done *= 2) data.copyWithin(done, 0, Math.min(done, data.length - done));
  return tensor;
}

/** The places of the 16-bit numbers in a block of each ggml type, which must be finite. */
const halvesOf: Readonly<Partial<Record<WeightFormat, readonly number[]>>> = {
  q4_1: [0, 2], q5_1: [0, 2], q2_k: [80, 82], q3_k: [108], q4_k: [0, 2], q5_k: [0, 2], q6_k: [208],
};

/** A matrix in another weight format, of small numbers. */
function otherMatrix(device: Device, form: (typeof otherForms)[number], rows: number, columns: number): { readonly weight: Tensor; readonly scales?: Tensor } {
  const { elements, bytes, dtype, scales } = weightLayouts[form];
  const blocks = columns / elements;
  const bytesTensor = (width: number, next: (random: Random) => number): Tensor => {
    const tensor = device.tensor("u8", [rows, width]);
    const random = new Random(width);
    const data = tensor.data as Uint8Array;
    for (let i = 0; i < width; i++) data[i] = next(random);
    for (let done = width; done < data.length; done *= 2) data.copyWithin(done, 0, Math.min(done, data.length - done));
    return tensor;
  };
  if (dtype === "u32") {
    const weight = words(device, [rows, (blocks * bytes) / 4]);
    if (form === "mxfp8") (weight.data as Uint32Array).forEach((word, i, all) => (all[i] = word & 0x77777777)); // no NaN
    return { weight, ...(scales && { scales: bytesTensor(blocks, (random) => (form === "nvfp4" ? 8 : 112) + random.below(4)) }) };
  }
  let at = 0;
  const weight = bytesTensor(blocks * bytes, (random) => {
    const place = at++ % bytes;
    if (form === "gguf-mxfp4" && place === 0) return 112 + random.below(4);
    // The upper byte of a half float, whose exponent is about 2^-12.
    if ((halvesOf[form] ?? [0]).includes(place - 1)) return 12 + random.below(4);
    return random.below(256);
  });
  return { weight };
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
      : !(form in affineForms)
      ? { ...otherMatrix(device, form as (typeof otherForms)[number], all, inFeatures) }
      : {
          weight: words(device, [all, (inFeatures * Number(form.slice(1))) / 32]),
          scales: filled(device, "bf16", [all, inFeatures / group], 0, size / 2 ** Number(form.slice(1))),
          biases: filled(device, "bf16", [all, inFeatures / group], -0.75 * size, -0.25 * size),
        };
  const calls = Array.from({ length: copies }, (_, i) => ({
    x,
    weightFormat: formatOf(form),
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

/** The projections of a model with 0.8 billion weights: its MLP's, in both directions. */
export function linearShapes(threads: readonly number[]): LinearShape[] {
  const one = (["f32", "bf16", "q8", "q6", "q5", "q4", "q3", "q2", ...otherForms] as const).flatMap((form) =>
    threads.map((count) => ({ form, rows: 1, inFeatures: 1024, outFeatures: 3584, threads: count, temperature: "cold" as const })),
  );
  const many = (["f32", "bf16", "q8", "q4"] as const).flatMap((form) =>
    ([[1024, 3584], [3584, 1024]] as const).map(([inFeatures, outFeatures]) => ({
      form, rows: 512, inFeatures, outFeatures, threads: 1, temperature: "hot" as const,
    })),
  );
  return [...one, ...many];
}
