import { Device, GatedDeltaNet, StatePool } from "gated-delta";

using device = Device.open();
const layers = GatedDeltaNet.loadAll(device, process.argv[2] ?? "test/golden/layer-bf16.safetensors");
using pool = StatePool.create(device, { slots: 4, layers: layers.length, ...layers[0]!.stateShape });
using a = pool.allocate();
using b = pool.allocate();

using hidden = device.tensor("f32", [2, layers[0]!.config.hiddenSize]); // a row for each sequence
const placeholder = pool.placeholder(2);
using plan = device.plan((pass) => {
  for (const layer of layers) {
    for (const op of layer.decode({ hidden, out: hidden, step: placeholder })) pass.encode(op); // a model adds residuals and MLPs
  }
});
for (let token = 0; token < 3; token++) pool.run([a, b], plan);
await device.finish();
console.log(`${layers.length} layers, 3 tokens of 2 sequences`);
for (const layer of layers) layer[Symbol.dispose]();
