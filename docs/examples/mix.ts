import { Device, GatedDeltaNet, StatePool, linear } from "gated-delta";

using device = Device.open("cpu");
using layer = GatedDeltaNet.load(device, process.argv[2] ?? "test/golden/layer-bf16.safetensors", { layer: 0 });
using pool = StatePool.create(device, { slots: 1, layers: 1, ...layer.stateShape });
using state = pool.allocate();
const { hiddenSize, keyHeads, valueHeads, keyDim, valueDim } = layer.config;
const wide = valueHeads * valueDim;

/** Stands for your own matrix product, which fills a tensor. */
const random = (...shape: number[]) => device.tensorFrom("f32", shape, Array.from({ length: shape.reduce((a, b) => a * b) }, (_, i) => Math.sin(i) / 16));
const project = (x: ReturnType<typeof random>, features: number) => {
  const out = device.tensor("f32", [x.shape[0]!, features]);
  device.run(linear({ x, weight: random(features, hiddenSize), out }));
  return out;
};

/** The projections of some tokens, and where the layer's result goes. */
const parts = (tokens: number) => {
  const hidden = random(tokens, hiddenSize);
  const qkv = project(hidden, 2 * keyHeads * keyDim + wide); // query, key and value side by side
  return { qkv, z: project(hidden, wide), a: project(hidden, valueHeads), b: project(hidden, valueHeads), out: device.tensor("f32", [tokens, wide]) };
};

const prompt = parts(12);
pool.run([state], (step) => layer.mix({ ...prompt, step }));
const token = parts(1);
pool.run([state], (step) => layer.mixStep({ ...token, step }));
await device.finish();
console.log("apply your output projection to", prompt.out.shape, "and", token.out.shape);
