import { Device, GatedDeltaNet, StatePool } from "gated-delta";

using device = Device.open();
using layer = GatedDeltaNet.load(device, process.argv[2] ?? "test/golden/layer-bf16.safetensors", { layer: 0 });
using pool = StatePool.create(device, { slots: 1, layers: 1, ...layer.stateShape });
using state = pool.allocate();

using hidden = device.tensor("f32", [40, layer.config.hiddenSize]); // a prompt's hidden states: fill hidden.data
using out = device.tensor("f32", [40, layer.config.hiddenSize]);
pool.run([state], (step) => layer.forward({ hidden, out, step }));
pool.run([state], (step) => layer.decode({ hidden: hidden.slice(0, 1), out: out.slice(0, 1), step }));
device.wait();
console.log(layer.config);
