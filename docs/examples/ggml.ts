import { Device } from "gated-delta";
import { gatedDeltaNetInplaceIds, ssmConvUpdateInplaceIds } from "gated-delta/ggml";

const [sequences, cells, heads, size, taps] = [2, 4, 2, 64, 4];
const channels = 3 * heads * size;
using device = Device.open("cpu");
const random = (...shape: number[]) => device.tensorFrom("f32", shape, Array.from({ length: shape.reduce((a, b) => a * b) }, (_, i) => Math.sin(i) / 4));

// Caches laid out as in llama.cpp: one cell for each sequence.
const convCache = random(cells, channels, taps - 1);
const cache = random(cells, heads, size, size);
const ids = [3, 0]; // the cells that the two sequences read; they write cells rsHead and rsHead + 1
const rsHead = 1;

const convolved = device.tensor("f32", [sequences, channels]);
const part = (i: number) => convolved.view({ offset: i * heads * size, shape: [sequences, 1, heads, size], strides: [channels, channels, size, 1] });
const out = device.tensor("f32", [sequences, 1, heads, size]);
const gate = device.tensorFrom("f32", [sequences, 1, heads], [-0.1, -0.2, -0.3, -0.4]); // logarithms of the decays
const beta = device.tensorFrom("f32", [sequences, 1, heads], [0.9, 0.8, 0.7, 0.6]);

device.run(
  ssmConvUpdateInplaceIds({ convCache, ids, rsHead, weight: random(channels, taps), x: random(sequences, channels), silu: true, out: convolved }),
  gatedDeltaNetInplaceIds({ q: part(0), k: part(1), v: part(2), gate, beta, cache, ids, rsHead, out }),
);
device.wait();
console.log(out.shape, out.data.every(Number.isFinite));
