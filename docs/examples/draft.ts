import { Device, GatedDeltaNet, StatePool } from "gated-delta";

using device = Device.open("cpu");
using layer = GatedDeltaNet.load(device, process.argv[2] ?? "test/golden/layer-bf16.safetensors", { layer: 0 });
using pool = StatePool.create(device, { slots: 2, layers: 1, ...layer.stateShape });
using state = pool.allocate();

using drafted = device.tensor("f32", [5, layer.config.hiddenSize]); // hidden states of five drafted tokens
drafted.data.forEach((_, i) => (drafted.data[i] = Math.sin(i)));
using out = device.tensor("f32", [5, layer.config.hiddenSize]);
using draft = pool.draft([state], [5]);
draft.run(() => layer.forward({ hidden: drafted, out, draft }));
device.wait(); // a model compares its choices with the drafted tokens here
draft.commit([3]); // the first three were right
console.log("three of five tokens are in the state");
