/** A mixture of experts against float64, in models whose only other contribution is the embedding: the mixer's output is zero. */
import { afterAll, expect, test } from "bun:test";
import { LanguageModel } from "../../lib/model.ts";
import { relRms } from "../../lib/cli/verify/compare.ts";
import type { TensorToWrite } from "../../lib/checkpoint/safetensors.ts";
import { readModel, writeChanged } from "../support/changed-models.ts";
import { openDevice } from "../support/devices.ts";
import { eachExpert } from "../support/expert-forms.ts";
import { scratch } from "../support/files.ts";
import { tinyExperts } from "../support/model-folders.ts";
import type { TinyExperts } from "../support/model-folders.ts";
import { textOf, tinyFolder } from "../support/models.ts";

const device = openDevice(2);
afterAll(() => device.close());
const { newPath } = scratch();
const hidden = 40;

type Numbers = ArrayLike<number>;
const dot = (a: Numbers, b: Numbers, start = 0) => Array.from(a, (value, i) => value * b[start + i]!).reduce((sum, one) => sum + one, 0);
const product = (matrix: Numbers, x: Numbers, first: number, rows: number) => Array.from({ length: rows }, (_, row) => dot(x, matrix, (first + row) * x.length));
const silu = (x: number) => x / (1 + Math.exp(-x));
const normed = (x: Numbers, weight: Numbers) => {
  const scale = 1 / Math.sqrt(dot(x, x) / x.length + 1e-6);
  return Array.from(x, (value, i) => value * scale * (1 + weight[i]!));
};

/** The hidden state of a token after the final norm. */
function reference(weight: (name: string) => Float32Array, token: number, { count, perToken, intermediate: wide, shared, normalized }: TinyExperts): number[] {
  const x = weight("model.embed_tokens.weight").subarray(token * hidden, (token + 1) * hidden);
  const at = (name: string) => weight(`model.layers.0.${name}`);
  const n = normed(x, at("post_attention_layernorm.weight"));
  const mlp = (gate: number[], up: number[]) => gate.map((value, i) => silu(value) * up[i]!);
  const logits = product(at("mlp.gate.weight"), n, 0, count);
  const powers = logits.map((logit) => Math.exp(logit - Math.max(...logits)));
  const shares = powers.map((power) => power / powers.reduce((sum, one) => sum + one));
  const best = shares.map((share, expert) => ({ share, expert })).sort((a, b) => b.share - a.share).slice(0, perToken);
  const all = normalized ? best.reduce((sum, { share }) => sum + share, 0) : 1;
  const out = Array.from(x);
  for (const { share, expert } of best) {
    const gateUp = product(at("mlp.experts.gate_up_proj"), n, expert * 2 * wide, 2 * wide);
    const y = product(at("mlp.experts.down_proj"), mlp(gateUp.slice(0, wide), gateUp.slice(wide)), expert * hidden, hidden);
    for (const [i, value] of y.entries()) out[i]! += (share / all) * value;
  }
  const gate = product(at("mlp.shared_expert.gate_proj.weight"), n, 0, shared);
  const inner = mlp(gate, product(at("mlp.shared_expert.up_proj.weight"), n, 0, shared));
  const [factor = 0] = product(at("mlp.shared_expert_gate.weight"), n, 0, 1);
  for (const [i, value] of product(at("mlp.shared_expert.down_proj.weight"), inner, 0, hidden).entries()) out[i]! += value / (1 + Math.exp(-factor));
  return normed(out, weight("model.norm.weight"));
}

const floats = ({ data }: TensorToWrite) => new Float32Array((data as Uint8Array).slice().buffer);

test.each<[what: string, experts: TinyExperts]>([
  ["two of five, divided by their sum", { ...tinyExperts, dense: [] }],
  ["two of five, not divided", { ...tinyExperts, normalized: false, dense: [] }],
  ["one of three", { count: 3, perToken: 1, intermediate: 32, shared: 8, normalized: true, dense: [] }],
  ["all of seven", { count: 7, perToken: 7, intermediate: 8, shared: 64, normalized: false, dense: [] }],
  ["ten of 64", { count: 64, perToken: 10, intermediate: 16, shared: 17, normalized: true, dense: [] }],
])("%s", async (_, experts) => {
  const base = readModel(tinyFolder({ layers: "g", experts }));
  (base.tensors["model.layers.0.linear_attn.out_proj.weight"]!.data as Uint8Array).fill(0);
  const tokens = textOf(3, 21);
  const expected = tokens.flatMap((token) => reference((name) => floats(base.tensors[name]!), token, experts));
  for (const change of [() => {}, eachExpert]) {
    using model = await LanguageModel.load(device, writeChanged(newPath("model"), base, change), { states: 1, pages: 1 });
    using sequence = model.sequence();
    const [result] = await model.run([{ sequence, tokens, logits: "none", hidden: "all" }]);
    expect(relRms(result!.hidden, expected)).toBeLessThan(2e-6);
  }
});
