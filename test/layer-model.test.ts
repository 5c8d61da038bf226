/** All layers of a checkpoint at once. */
import { afterAll, describe, expect, spyOn, test } from "bun:test";
import { mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Device, GatedDeltaNet, StatePool } from "../lib/index.ts";
import { writeSafetensors } from "../lib/checkpoint/safetensors.ts";
import type { TensorToWrite } from "../lib/checkpoint/safetensors.ts";
import { thrownBy } from "./support/devices.ts";
import { scratch } from "./support/files.ts";
import { loadingOn, prefixOf, randomWeights, smallConfig, tensorsOf } from "./support/layers.ts";
import { Random } from "./support/random.ts";

const { folder, newPath } = scratch();
const device = Device.open();
afterAll(() => device[Symbol.dispose]());
const { outputOf } = loadingOn(device);

describe("all layers of a model", () => {
  const model = new Map([0, 1, 3].map((layer) => [layer, randomWeights(new Random(30 + layer), smallConfig, "f32")]));
  const shardOf = (layer: number) => `model-0000${layer < 2 ? 1 : 2}-of-00002.safetensors`;
  /** Writes layers 0, 1 and 3 of four; `change` changes the tensors of each. */
  function writeModel(change = (_layer: number, tensors: Record<string, TensorToWrite>) => tensors): string {
    const at = mkdtempSync(join(folder, "checkpoint-"));
    const shards = new Map<string, Record<string, TensorToWrite>>();
    const map: Record<string, string> = { "model.layers.2.self_attn.q_proj.weight": shardOf(2) };
    for (const [layer, weights] of model) {
      const tensors = change(layer, tensorsOf(weights, "f32", prefixOf(layer)));
      for (const name of Object.keys(tensors)) map[name] = shardOf(layer);
      shards.set(shardOf(layer), { ...shards.get(shardOf(layer)), ...tensors });
    }
    for (const [shard, tensors] of shards) writeSafetensors(join(at, shard), tensors);
    writeFileSync(join(at, "model.safetensors.index.json"), JSON.stringify({ weight_map: map }));
    writeFileSync(join(at, "config.json"), JSON.stringify({ ...smallConfig, num_hidden_layers: 4 }));
    return at;
  }

  test("load by one parse of the index and of each header, and give what each gives alone", () => {
    const at = writeModel();
    const parse = spyOn(JSON, "parse");
    const layers = GatedDeltaNet.loadAll(device, at);
    const parsed = parse.mock.calls.map(([text]) => text);
    parse.mockRestore();
    expect(parsed.filter((text) => text.includes("weight_map"))).toHaveLength(1);
    expect(parsed.filter((text) => text.includes("data_offsets"))).toHaveLength(2);
    expect(parsed.filter((text) => text.includes("hidden_size"))).toHaveLength(1);
    expect(layers.map(({ layer, poolLayer }) => [layer, poolLayer])).toEqual([[0, 0], [1, 1], [3, 2]]);
    using pool = StatePool.create(device, { slots: 1, layers: layers.length, ...layers[0]!.stateShape });
    using handle = pool.allocate();
    using hidden = device.tensorFrom("f32", [1, 48], Array.from({ length: 48 }, (_, i) => Math.sin(i)));
    const outs = layers.map(() => device.tensor("f32", [1, 48]));
    pool.run([handle], (step) => layers.flatMap((layer, i) => layer.decode({ hidden, out: outs[i]!, step })));
    device.wait();
    expect(outs.map(({ data }) => data)).toEqual(layers.map(({ layer }) => outputOf(at, { layer })));
    for (const one of [...layers, ...outs]) one[Symbol.dispose]();
  });

  test("a checkpoint without any, and one with a layer at fault", () => {
    const plain = newPath();
    writeSafetensors(plain, { x: { dtype: "F32", shape: [1], data: new Float32Array(1) } });
    const at = writeModel((layer, tensors) => {
      if (layer === 3) delete tensors[`${prefixOf(3)}dt_bias`];
      return tensors;
    });
    for (const [files, says] of [[plain, "Gated DeltaNet layers"], [at, "dt_bias"]] as const) {
      const error = thrownBy(() => GatedDeltaNet.loadAll(device, files));
      expect([error.code, error.message.includes(says)]).toEqual(["file", true]);
    }
  });
});
