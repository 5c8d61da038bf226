/** Experts' products on a GPU: for one token and for a prompt, next to `linear` with as many bytes, or with as many rows per matrix. */
import { expertLinear, linear } from "../../lib/index.ts";
import type { Device } from "../../lib/index.ts";
import type { Case } from "./cases.ts";

/** Weights of 4 bits in groups of 64 with scales and biases in bf16, as in Qwen3.5-35B-A3B: gate and up of each expert. */
const [experts, k, inputs, outputs, bits, group] = [256, 8, 2048, 1024, 4, 64];

const bytes = (matrices: number, rows: number): number => (matrices * inputs * outputs * (bits + 32 / group)) / 8 + 2 * rows * (inputs + outputs);

const matrix = (device: Device, shape: readonly number[]) => ({
  weight: device.tensor("u32", [...shape, (inputs * bits) / 32]),
  scales: device.tensor("bf16", [...shape, inputs / group]),
  biases: device.tensor("bf16", [...shape, inputs / group]),
});

function expertCase(tokens: number): Case {
  const rows = tokens * k;
  return {
    name: `experts/q4/T${tokens}`,
    group: `experts/q4/T${tokens}`,
    bytes: bytes(Math.min(rows, experts), rows),
    rotate: tokens === 1 ? ["weight", "scales", "biases"] : [],
    ops: (device) => {
      const ids = device.tensor("id32", [tokens, k]);
      // An odd step visits all experts equally often.
      for (let i = 0; i < rows; i += 1) ids.data[i] = (i * 77) % experts;
      return [expertLinear({ x: device.tensor("bf16", [tokens, inputs]), ...matrix(device, [experts, outputs]), ids, out: device.tensor("bf16", [tokens, k, outputs]) })];
    },
  };
}

/** One row by the outputs of as many matrices as a token uses. */
const sameBytes: Case = {
  name: "experts/q4/T1/linear",
  group: "experts/q4/T1",
  bytes: bytes(k, k),
  rotate: ["weight", "scales", "biases"],
  ops: (device) => [linear({ x: device.tensor("bf16", [1, inputs]), ...matrix(device, [k * outputs]), out: device.tensor("bf16", [1, k * outputs]) })],
};

/** As many rows as 512 tokens give each matrix, by the outputs of all matrices. */
const sameRows: Case = {
  name: "experts/q4/T512/linear",
  group: "experts/q4/T512",
  bytes: bytes(experts, 512 * k),
  rotate: [],
  ops: (device) => {
    const rows = (512 * k) / experts;
    return [linear({ x: device.tensor("bf16", [rows, inputs]), ...matrix(device, [experts * outputs]), out: device.tensor("bf16", [rows, experts * outputs]) })];
  },
};

export const expertCases: readonly Case[] = [expertCase(1), sameBytes, expertCase(512), sameRows];
