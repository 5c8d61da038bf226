/** The golden GGUF models against float64, in every way that they can run, and forms of them that give the same bits. */
import { describe, expect, test } from "bun:test";
import { dirname } from "node:path";
import { checkFolder } from "../lib/cli/verify/folders.ts";
import { Device } from "../lib/index.ts";
import { openDevice } from "./support/devices.ts";
import { scratch } from "./support/files.ts";
import { ggufFiles, logitsOf } from "./support/gguf-cases.ts";
import { asFloats, ggufPath, partsOf } from "./support/gguf-models.ts";
import type { GgufTensorToWrite, GgufToWrite } from "./support/gguf-writer.ts";

const files = scratch();

describe("the golden models", () => {
  test.each(["qwen35-q4_k_m", "qwen35-q8_0", "qwen35moe-q4_k_m", "qwen35moe-joined", "qwen3next-bf16"])("%s", async (name) => {
    using device = openDevice(1);
    const rows = await checkFolder(dirname(ggufPath(name)), device, { dtype: "f32", activations: "exact", prompts: ["exact"] });
    expect(rows.filter(({ pass }) => !pass)).toEqual([]);
    expect(rows.length).toBeGreaterThan(50);
  }, 1_500_000);
});

describe("ggml's blocks have the bits of the floats that they stand for", () => {
  test.each(["qwen35-q4_k_m", "qwen35-q8_0", "qwen35moe-q4_k_m", "qwen35moe-joined"])("%s", async (name) => {
    using device = Device.open({ backend: "cpu" });
    const path = ggufFiles(files)(asFloats(partsOf(ggufPath(name))));
    expect(await logitsOf(device, path)).toEqual(await logitsOf(device, ggufPath(name)));
  });
});

describe("qwen3next in other forms has the same bits", () => {
  const base = partsOf(ggufPath("qwen3next-bf16"));
  const [keyHeads, keyDim, values, hidden, experts] = [2, 32, 64, 128, 8] as const;

  /** The bytes, one after the other. */
  const joined = (parts: readonly Uint8Array[]) => new Uint8Array(parts.flatMap((part) => [...part]));

  /** The model with two tensors of each block joined into one. */
  function merged(first: string, second: string, name: string, merge: (a: Uint8Array, b: Uint8Array) => Uint8Array<ArrayBuffer>, sizes: readonly number[]): GgufToWrite {
    const tensors = base.tensors.flatMap((tensor): GgufTensorToWrite[] => {
      if (tensor.name.endsWith(second)) return [];
      if (!tensor.name.endsWith(first)) return [tensor];
      const other = base.tensors.find((one) => one.name === tensor.name.replace(first, second))!;
      return [{ ...tensor, name: tensor.name.replace(first, name), sizes, data: merge(tensor.data, other.data) }];
    });
    expect(tensors.length).toBeLessThan(base.tensors.length);
    return { ...base, tensors };
  }

  const forms = {
    "an expert's gate and up in one tensor": () =>
      merged(".ffn_gate_exps.weight", ".ffn_up_exps.weight", ".ffn_gate_up_exps.weight", (gate, up) => {
        const each = gate.length / experts;
        return joined(Array.from({ length: experts }, (_, i) => [gate, up].map((part) => part.subarray(i * each, (i + 1) * each))).flat());
      }, [experts, 128, hidden]),
    "queries, keys, values and z interleaved by head": () =>
      merged(".attn_qkv.weight", ".attn_gate.weight", ".ssm_in.weight", (qkv, z) => {
        const row = 2 * hidden;
        const rows = (from: Uint8Array, start: number, count: number) => from.subarray(start * row, (start + count) * row);
        const ofHead = (head: number) => [
          rows(qkv, head * keyDim, keyDim),
          rows(qkv, (keyHeads + head) * keyDim, keyDim),
          rows(qkv, 2 * keyHeads * keyDim + head * values, values),
          rows(z, head * values, values),
        ];
        return joined(Array.from({ length: keyHeads }, (_, head) => ofHead(head)).flat());
      }, [384, hidden]),
  };

  test.each(Object.keys(forms) as (keyof typeof forms)[])("%s", async (name) => {
    using device = Device.open({ backend: "cpu" });
    const path = ggufFiles(files)(forms[name]());
    expect(await logitsOf(device, path)).toEqual(await logitsOf(device, ggufPath("qwen3next-bf16")));
  });
});
