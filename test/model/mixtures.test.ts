/** Mixtures of experts at work: what decides their numbers, and that decoding is one recorded plan. `verify` tests their numbers. */
import { afterAll, describe, expect, spyOn, test } from "bun:test";
import { join } from "node:path";
import { LanguageModel, Session } from "../../lib/model.ts";
import { speedsOf } from "../../lib/cli/generate-speeds.ts";
import { ModelGraph } from "../../lib/model/graph.ts";
import { memoryOf } from "../../lib/model/model-memory.ts";
import { readModel, writeChanged, zeros } from "../support/changed-models.ts";
import type { ModelParts } from "../support/changed-models.ts";
import { openDevice } from "../support/devices.ts";
import { eachExpert, stackedExperts } from "../support/expert-forms.ts";
import { scratch } from "../support/files.ts";
import { tinyExperts } from "../support/model-folders.ts";
import { coldLogits, openTiny, rejection, textOf } from "../support/models.ts";
import { collect } from "../support/sessions.ts";

const device = openDevice(2);
afterAll(() => device.close());
const files = scratch();
const golden = (name: string) => readModel(join(import.meta.dir, "../golden/models", name));
const moe = golden("qwen3_5_moe");
const next = golden("qwen3_next");
const text = [5, 17, 400, 3, 3, 250, 99, 12, 511, 4];

type Change = (parts: ModelParts) => void;
const open = (change: Change = () => {}, base = next) => LanguageModel.load(device, writeChanged(files.newPath("model"), base, change), { states: 3, pages: { count: 12, tokens: 8 } });
const logits = async (change?: Change, base?: ModelParts) => {
  using model = await open(change, base);
  return [...(await coldLogits(model, text))];
};

test("the logits are the same in each form of the experts", async () => {
  const expected = await logits(undefined, moe);
  expect(await logits(eachExpert, moe)).toEqual(expected);
  expect(await logits(stackedExperts, moe)).toEqual(expected);
});

describe("of the settings", () => {
  const routed = (change: Record<string, unknown>): Change => ({ config }) => void Object.assign(config, change);

  test.each<[what: string, change: Record<string, unknown>]>([
    ["the number of a token's experts", { num_experts_per_tok: 3 }],
    ["one expert", { num_experts_per_tok: 1 }],
    ["all experts", { num_experts_per_tok: 8 }],
    ["weights that are not divided by their sum", { norm_topk_prob: false }],
  ])("%s counts, in the logits and in the identity", async (_, change) => {
    expect(await logits(routed(change))).not.toEqual(await logits());
    using one = await open();
    using other = await open(routed(change));
    expect(await other.identity()).not.toBe(await one.identity());
  });

  test("the division does not where a token has all experts, but for rounding", async () => {
    const all = { num_experts_per_tok: 8 };
    const [divided, plain] = [await logits(routed(all)), await logits(routed({ ...all, norm_topk_prob: false }))];
    for (const [i, value] of divided.entries()) expect(plain[i]).toBeCloseTo(value, 4);
  });

  test("a gate of minus infinity leaves out the shared expert", async () => {
    const gates = (value: number): Change => ({ tensors }) => {
      for (const layer of [0, 1, 2, 3]) {
        const data = new Uint16Array(128).fill(value);
        tensors[`model.layers.${layer}.mlp.shared_expert_gate.weight`] = { dtype: "BF16", shape: [1, 128], data };
      }
    };
    const zeroed: Change = ({ tensors }) => {
      for (const layer of [0, 1, 2, 3]) tensors[`model.layers.${layer}.mlp.shared_expert.down_proj.weight`] = zeros("BF16", [128, 64]);
    };
    const half = await logits(gates(0)); // sigmoid(0) = 1/2
    const none = await logits(zeroed);
    expect(half).not.toEqual(none);
    expect(await logits((parts) => [gates(0), zeroed].forEach((change) => change(parts)))).toEqual(none);
  });
});

describe("decoding", () => {
  test("records a plan once, and replays it for every token", async () => {
    using model = await openTiny(device, {}, { experts: tinyExperts });
    using made = spyOn(ModelGraph.prototype, "ops");
    using sequence = model.sequence();
    await model.run([{ sequence, tokens: textOf(1, 9) }]);
    for (let token = 0; token < 6; token++) await model.run([{ sequence, tokens: [token] }]);
    expect(made.mock.calls.length).toBe(2);
  });

  test("answers as a session, with drafts and from a file", async () => {
    using model = await openTiny(device, {}, { experts: tinyExperts });
    const options = { maxTokens: 24, ignoreModelStops: true } as const;
    const tokens = async (session: Session, drafts: boolean) => (await collect(session.generate({ ...options, drafts }))).map(({ token }) => token);
    using plain = model.session().append(textOf(2, 12));
    using drafting = plain.fork();
    using saved = plain.fork();
    const path = files.newPath("session");
    await saved.save(path);
    using loaded = await Session.load(model, path);
    const expected = await tokens(plain, false);
    expect(expected.length).toBe(24);
    expect(await tokens(drafting, true)).toEqual(expected);
    expect(await tokens(loaded, false)).toEqual(expected);
    using other = await openTiny(device, {}, { experts: { ...tinyExperts, normalized: false } });
    expect((await rejection(Session.load(other, path))).expected).toBe("a session of this model");
  });

  test("needs no memory for dense MLPs that there are not", async () => {
    using all = await openTiny(device, {}, { experts: { ...tinyExperts, dense: [] } });
    expect(all.config.intermediateSize).toBe(0);
    expect(memoryOf(all).weights.layers.every(({ weights: { mlp } }) => mlp.kind === "experts")).toBe(true);
    const model = await coldLogits(all, textOf(3, 5));
    expect(model.every(Number.isFinite)).toBe(true);
  });
});

test("of experts the speed of an answer counts those that a token goes through", async () => {
  using model = await openTiny(device, {}, { layers: "ga", experts: { ...tinyExperts, dense: [] } });
  const { answer } = await speedsOf(device, model, 1e6, { prompt: { tokens: 1, read: 1, seconds: 1 }, answer: { tokens: 2, seconds: 1, steps: 1 } });
  const { vocabSize, hiddenSize } = model.config;
  const experts = 2 * tinyExperts.count * 3 * tinyExperts.intermediate * hiddenSize;
  const unread = 4 * (vocabSize * hiddenSize + experts * (1 - tinyExperts.perToken / tinyExperts.count));
  expect(answer.ofLimit! * answer.bytes).toBeCloseTo(1e6 - unread, 3);
});

test("a router of zeros takes the first experts, in equal parts", async () => {
  const first: Change = ({ tensors }) => {
    for (const layer of [0, 1, 2, 3]) tensors[`model.layers.${layer}.mlp.gate.weight`] = zeros("BF16", [8, 128]);
  };
  const exchanged = (a: number, b: number): Change => (parts) => {
    first(parts);
    const { tensors } = parts;
    for (const layer of [0, 1, 2, 3]) {
      for (const part of ["gate", "up", "down"]) {
        const names = [a, b].map((expert) => `model.layers.${layer}.mlp.experts.${expert}.${part}_proj.weight`) as [string, string];
        [tensors[names[0]], tensors[names[1]]] = [tensors[names[1]]!, tensors[names[0]]!];
      }
    }
  };
  const expected = await logits(first);
  expect(await logits(exchanged(2, 7))).toEqual(expected);
  expect(await logits(exchanged(1, 2))).not.toEqual(expected);
});
