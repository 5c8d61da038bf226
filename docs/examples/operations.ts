import { Device, StatePool, causalConv1d, gatedDelta, gatedDeltaStep, gatedRmsNorm } from "gated-delta";

const shape = { keyHeads: 2, valueHeads: 4, keyDim: 64, valueDim: 64, convWidth: 4 };
const { keyHeads, valueHeads, keyDim, valueDim } = shape;
const keys = keyHeads * keyDim;
const channels = 2 * keys + valueHeads * valueDim;

using device = Device.open();
using pool = StatePool.create(device, { slots: 4, layers: 1, ...shape });

// Made-up weights and activations. A model's projections would write directly into tensors like these.
const random = (...dims: number[]) => {
  const tensor = device.tensor("f32", dims);
  tensor.data.forEach((_, i) => (tensor.data[i] = Math.sin(12.9898 * i + dims.length) / 2)); // in place: this is the memory
  return tensor;
};
const convWeight = random(channels, 4);
const normWeight = random(valueDim);
const aLog = random(valueHeads);
const dtBias = random(valueHeads);
const gates = { aLog, dtBias, gateForm: "raw", betaForm: "sigmoid", qkNorm: "l2" } as const;

// Prefill: 5 tokens of one conversation and 2 of another, in consecutive rows.
const tokens = 7;
const cuSeqlens = [0, 5, 7];
const conv = device.tensor("f32", [tokens, channels]);
const heads = (offset: number, count: number, dim: number) =>
  conv.view({ offset, shape: [tokens, count, dim], strides: [channels, dim, 1] });
const core = device.tensor("f32", [tokens, valueHeads, valueDim]);
const out = device.tensor("f32", [tokens, valueHeads, valueDim]);
const first = pool.allocate();
const second = pool.allocate();
pool.run([first, second], (step) => {
  const states = step.layer(0); // of the model's only layer
  return [
    causalConv1d({ x: random(tokens, channels), weight: convWeight, out: conv, cuSeqlens, states }),
    gatedDelta({
      query: heads(0, keyHeads, keyDim), key: heads(keys, keyHeads, keyDim), value: heads(2 * keys, valueHeads, valueDim),
      gate: random(tokens, valueHeads), beta: random(tokens, valueHeads), out: core, cuSeqlens, states, ...gates,
    }),
    gatedRmsNorm({ x: core, z: random(tokens, valueHeads, valueDim), weight: normWeight, out }),
  ];
});

// Decode: the first conversation continues in two ways, the second in one. The fork copies nothing.
const other = first.fork();
const next = device.tensor("f32", [3, valueHeads, valueDim]);
pool.run([first, other, second], (step) => [
  gatedDeltaStep({
    x: random(3, channels), keyHeads, convWeight, gate: random(3, valueHeads), beta: random(3, valueHeads),
    z: random(3, valueHeads, valueDim), normWeight, out: next, states: step.layer(0), ...gates,
  }),
]);

await device.finish(); // the event loop stays free; device.wait() blocks
console.log(`${device.backend}, ${device.name}: prefilled ${out.shape[0]} tokens, decoded ${next.shape[0]}`);
console.log("first numbers:", [...next.data.subarray(0, 4)].map((x) => x.toFixed(4)).join(" "));
