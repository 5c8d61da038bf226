import { Device, rmsNorm } from "gated-delta";

using device = Device.open(); // Metal where there is one, else the CPU
const x = device.tensor("f32", [2, 4]);
x.data.set([1, 2, 3, 4, 5, 6, 7, 8]);
const weight = device.tensor("f32", [4]);
weight.data.fill(1);
const out = device.tensor("f32", [2, 4]);
device.run(rmsNorm({ x, weight, out }));
device.wait();
console.log(out.data);
