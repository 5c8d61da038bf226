import { rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Device, GatedDeltaNet, StatePool } from "gated-delta";
import type { StateHandle } from "gated-delta";

using device = Device.open("cpu");
using layer = GatedDeltaNet.load(device, "test/golden/layer-bf16.safetensors", { layer: 0 });
using pool = StatePool.create(device, { slots: 9, layers: 1, ...layer.stateShape });
const width = layer.config.hiddenSize;

/** Takes tokens of several sequences through the model; returns each sequence's last output row. */
function forward(states: readonly StateHandle[], lists: readonly (readonly number[])[]): Float32Array[] {
  const tokens = lists.flat();
  const cuSeqlens = [0];
  for (const list of lists) cuSeqlens.push(cuSeqlens.at(-1)! + list.length);
  using hidden = device.tensor("f32", [tokens.length, width]); // a real model looks its embeddings up
  tokens.forEach((token, t) => hidden.slice(t, t + 1).copyFrom(Array.from({ length: width }, (_, i) => Math.sin(token * 7 + i))));
  using out = device.tensor("f32", [tokens.length, width]);
  pool.run(states, (step) => layer.forward({ hidden, out, cuSeqlens, step }));
  device.wait();
  return lists.map((_, s) => out.data.slice((cuSeqlens[s + 1]! - 1) * width, cuSeqlens[s + 1]! * width));
}
const next = (row: Float32Array) => row.indexOf(Math.max(...row)); // a real model has a head and a sampler here

if (process.argv[2] === undefined) {
  const prompt = pool.allocate();
  const [start] = forward([prompt], [[3, 1, 4, 1, 5, 9, 2, 6]]);
  const branches = Array.from({ length: 8 }, () => prompt.fork());
  prompt.free();
  let tokens = branches.map((_, i) => next(start!) + i);
  const scores = branches.map(() => 0);
  for (let round = 0; round < 4; round++) {
    const rows = forward(branches, tokens.map((token) => [token])); // eight sequences, one batch
    rows.forEach((row, i) => void (scores[i]! += Math.max(...row)));
    tokens = rows.map(next);
  }
  const best = scores.indexOf(Math.max(...scores));
  const path = join(tmpdir(), `gated-delta-agent-${process.pid}.safetensors`);
  pool.save([branches[best]!], path);
  const [row] = forward([branches[best]!], [[tokens[best]!]]);
  console.log(`branch ${best}, here: token ${next(row!)}`, row!.slice(0, 3).join(" "));
  const resumed = Bun.spawnSync([process.execPath, import.meta.path, path, `${tokens[best]}`]);
  console.log(resumed.stdout.toString().trim());
  rmSync(path);
} else {
  const [state] = pool.load(process.argv[2]);
  const [row] = forward([state!], [[Number(process.argv[3])]]);
  console.log(`loaded, elsewhere: token ${next(row!)}`, row!.slice(0, 3).join(" "));
}
