import { Device, GatedDeltaNet, StatePool } from "gated-delta";

using device = Device.open("cpu");
using layer = GatedDeltaNet.load(device, process.argv[2] ?? "test/golden/layer-bf16.safetensors", { layer: 0 });
using pool = StatePool.create(device, { slots: 4, layers: 1, ...layer.stateShape });
const width = layer.config.hiddenSize;

const prompt = pool.allocate();
using text = device.tensor("f32", [16, width]);
text.data.forEach((_, i) => (text.data[i] = Math.sin(i)));
pool.run([prompt], (step) => layer.forward({ hidden: text, out: text, step }));

const ways = [prompt.fork(), prompt.fork(), prompt.fork()]; // nothing is copied
prompt.free();
using next = device.tensor("f32", [3, width]);
next.data.forEach((_, i) => (next.data[i] = Math.cos(i)));
using out = device.tensor("f32", [3, width]);
pool.run(ways, (step) => layer.decode({ hidden: next, out, step })); // three sequences, one batch
device.wait();
console.log(out.data.slice(0, 3));
