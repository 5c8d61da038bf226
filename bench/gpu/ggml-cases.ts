/** One row by matrices in ggml's blocks, next to MLX's forms with as many bits: activations in bf16, and the shape of `project`. */
import { linear } from "../../lib/index.ts";
import type { Device } from "../../lib/index.ts";
import type { Case } from "./cases.ts";

const [inputs, outputs, group] = [2048, 12288, 64];

/** The elements and bytes of each kind of block. */
const blocks = { q4_k: [256, 144], q5_k: [256, 176], q6_k: [256, 210], q8_0: [32, 34] } as const;

/** MLX's form: scales and biases in bf16 for each group. */
const packed = (bits: number) => (device: Device) => ({
  weight: device.tensor("u32", [outputs, (inputs * bits) / 32]),
  scales: device.tensor("bf16", [outputs, inputs / group]),
  biases: device.tensor("bf16", [outputs, inputs / group]),
});

const blocked = (format: keyof typeof blocks) => (device: Device) => ({
  weight: device.tensor("u8", [outputs, (inputs / blocks[format][0]) * blocks[format][1]]),
  weightFormat: format,
});

type Weight = Pick<Parameters<typeof linear>[0], "weight" | "scales" | "biases" | "weightFormat">;

function rowCase(name: string, pair: string, bytesOfRow: number, weight: (device: Device) => Weight): Case {
  return {
    name: `ggml/${name}`,
    group: `ggml/${pair}`,
    bytes: outputs * bytesOfRow + 2 * (inputs + outputs),
    rotate: ["weight", "scales", "biases"],
    ops: (device) => [linear({ x: device.tensor("bf16", [1, inputs]), ...weight(device), out: device.tensor("bf16", [1, outputs]) })],
  };
}

/** MLX's form comes first: the copy moves its bytes. */
const pairOf = (bits: number, format: keyof typeof blocks): Case[] => [
  rowCase(`${format}/affine${bits}`, format, (inputs * (bits + 32 / group)) / 8, packed(bits)),
  rowCase(format, format, (inputs / blocks[format][0]) * blocks[format][1], blocked(format)),
];

export const ggmlCases: readonly Case[] = [...pairOf(4, "q4_k"), ...pairOf(5, "q5_k"), ...pairOf(6, "q6_k"), ...pairOf(8, "q8_0")];
