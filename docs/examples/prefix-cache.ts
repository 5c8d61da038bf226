import { Device, GatedDeltaNet, PrefixCache, StatePool } from "gated-delta";

using device = Device.open("cpu");
using layer = GatedDeltaNet.load(device, process.argv[2] ?? "test/golden/layer-bf16.safetensors", { layer: 0 });
using pool = StatePool.create(device, { slots: 8, layers: 1, ...layer.stateShape });
using cache = new PrefixCache(pool, { bytes: 2 ** 28 });

/** Reads a prompt's tokens, from where a known prefix of it ends; says how many were read. */
function read(tokens: readonly number[]): number {
  const hit = cache.lookup(tokens);
  const known = hit?.length ?? 0;
  using state = hit?.state ?? pool.allocate(); // a fork that we may run
  using hidden = device.tensor("f32", [tokens.length - known, layer.config.hiddenSize]);
  hidden.data.forEach((_, i) => (hidden.data[i] = Math.sin(tokens[known + Math.floor(i / layer.config.hiddenSize)]! + i)));
  pool.run([state], (step) => layer.forward({ hidden, out: hidden, step }));
  cache.insert(tokens, state);
  return tokens.length - known;
}

const system = Array.from({ length: 40 }, (_, i) => i);
console.log(read(system), read([...system, 7, 8, 9]), read([...system, 7, 8, 9, 10]));
device.wait();
