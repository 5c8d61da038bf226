/** The forms in which checkpoints hold experts, made from the released one: `experts.gate_up_proj` and `experts.down_proj`. */
import type { TensorToWrite } from "../../lib/checkpoint/safetensors.ts";
import type { ModelParts } from "./changed-models.ts";

/** The parts of each expert of a layer: the prefix of the layer's MLP, and rows of gate, up and down, one expert after another. */
function* expertsIn(tensors: Record<string, TensorToWrite>): Generator<{ at: string; gate: TensorToWrite[]; up: TensorToWrite[]; down: TensorToWrite[] }> {
  for (const name of Object.keys(tensors)) {
    const [, at] = /^(.*\.mlp\.)experts\.gate_up_proj$/.exec(name) ?? [];
    if (at === undefined) continue;
    const halves = partsOf(tensors[name]!, 2);
    const down = partsOf(tensors[`${at}experts.down_proj`]!, 1);
    delete tensors[name];
    delete tensors[`${at}experts.down_proj`];
    yield { at, gate: halves.filter((_, i) => i % 2 === 0), up: halves.filter((_, i) => i % 2 === 1), down };
  }
}

/** Each expert's matrix, or the parts of its rows. */
function partsOf({ dtype, shape: [count = 0, rows = 0, columns = 0], data }: TensorToWrite, each: number): TensorToWrite[] {
  const bytes = data as Uint8Array;
  const length = bytes.length / (count * each);
  return Array.from({ length: count * each }, (_, i) => ({ dtype, shape: [rows / each, columns], data: bytes.slice(i * length, (i + 1) * length) }));
}

/** One matrix per expert and projection, as transformers saves them. */
export function eachExpert({ tensors }: ModelParts): void {
  for (const { at, ...parts } of expertsIn(tensors)) {
    for (const [part, matrices] of Object.entries(parts)) {
      for (const [i, matrix] of matrices.entries()) tensors[`${at}experts.${i}.${part}_proj.weight`] = matrix;
    }
  }
}

/** Three tensors, each with all experts, under mlx-lm's names. */
export function stackedExperts({ tensors }: ModelParts): void {
  for (const { at, ...parts } of expertsIn(tensors)) {
    for (const [part, matrices] of Object.entries(parts)) {
      const [{ dtype, shape }] = matrices as [TensorToWrite];
      tensors[`${at}switch_mlp.${part}_proj.weight`] = { dtype, shape: [matrices.length, ...shape], data: new Uint8Array(Buffer.concat(matrices.map(({ data }) => data as Uint8Array))) };
    }
  }
}
