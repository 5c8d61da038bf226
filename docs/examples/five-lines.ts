import { Device, add } from "gated-delta";

using device = Device.open(); // the GPU of a Mac, else the CPU
const x = device.tensorFrom("f32", [2, 4], [1, 2, 3, 4, 5, 6, 7, 8]);
device.run(add({ a: x, b: x, out: x }));
device.wait();
console.log(x.data);
