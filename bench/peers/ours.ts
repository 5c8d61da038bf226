/** This library as one of the programs that main.ts compares: see peers.py for the protocol. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Device, gatedDelta } from "../../lib/index.ts";
import { timesOf } from "./times.ts";

const [algorithm, threads, folder] = process.argv.slice(2) as ["recurrent" | "chunked", string, string];
const [keyHeads, valueHeads, dim] = [16, 32, 128];
const device = Device.open({ backend: "cpu", threads: Number(threads) });
const read = (name: string) => {
  const bytes = readFileSync(join(folder, `${name}.f32`));
  return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
};
const inputs = Object.fromEntries(["query", "key", "value", "gate", "beta", "state"].map((name) => [name, read(name)]));
const state = device.tensor("f32", [1, valueHeads, dim, dim]);

/** The op over the first `tokens` tokens. */
function prepare(tokens: number) {
  const of = (name: string, ...shape: number[]) =>
    device.tensorFrom("f32", shape, inputs[name]!.subarray(0, shape.reduce((a, b) => a * b, 1)));
  const out = device.tensor("f32", [tokens, valueHeads, dim]);
  const op = gatedDelta({
    query: of("query", tokens, keyHeads, dim),
    key: of("key", tokens, keyHeads, dim),
    value: of("value", tokens, valueHeads, dim),
    gate: of("gate", tokens, valueHeads),
    beta: of("beta", tokens, valueHeads),
    out,
    state,
    gateForm: "log",
    headMap: "tiled",
    cuSeqlens: [0, tokens],
    algorithm,
  });
  return { op, out };
}

const ops = new Map<number, ReturnType<typeof prepare>>();
console.log(JSON.stringify({ version: `this library, ${device.isa} kernels, ${algorithm}` }));
for await (const line of createInterface({ input: process.stdin })) {
  const [tokens, milliseconds, file] = line.split(" ") as [string, string, string?];
  let made = ops.get(Number(tokens));
  if (made === undefined) ops.set(Number(tokens), (made = prepare(Number(tokens))));
  const call = () => {
    device.run(made.op);
    device.wait();
  };
  if (file !== undefined) {
    state.data.set(inputs["state"]!);
    call();
    writeFileSync(file, made.out.toFloat32());
    console.log("[]");
    continue;
  }
  console.log(JSON.stringify(timesOf(call, Number(milliseconds))));
}
