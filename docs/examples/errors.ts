import { Device, GatedDeltaError, rmsNorm } from "gated-delta";

using device = Device.open("cpu");
const x = device.tensor("f32", [2, 8]);
const weight = device.tensor("f32", [4]); // of the wrong length
const out = device.tensor("f32", [2, 8]);
try {
  device.run(rmsNorm({ x, weight, out }));
} catch (error) {
  if (!(error instanceof GatedDeltaError)) throw error;
  const { code, op, argument, expected, received } = error;
  console.log({ code, op, argument, expected, received });
}
