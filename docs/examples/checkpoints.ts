import { Device, GatedDeltaNet, StatePool, type PoolStep } from "gated-delta";

using device = Device.open("cpu");
using layer = GatedDeltaNet.load(device, process.argv[2] ?? "test/golden/layer-bf16.safetensors", { layer: 0 });
using pool = StatePool.create(device, { slots: 4, layers: 1, ...layer.stateShape });
using state = pool.allocate();

using hidden = device.tensor("f32", [48, layer.config.hiddenSize]);
hidden.data.forEach((_, i) => (hidden.data[i] = Math.sin(i)));
let pass!: PoolStep;
const positions = [[16, 32]]; // of the only sequence: after 16 and after 32 of its 48 tokens
pool.run([state], (step) => layer.forward({ hidden, out: hidden, step: (pass = step) }), { checkpoints: positions });
const [[after16, after32]] = pass.saved as [[typeof state, typeof state]]; // handles like any other
console.log(`${pool.free} of ${pool.capacity} slots are free`);
after16.free();
after32.free();
device.wait();
