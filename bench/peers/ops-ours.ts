/** This library's operations as one of the programs that ops.ts compares: the protocol is that of ops_ggml.py; how: `exact` or `int8`. */
import { createInterface } from "node:readline";
import { causalConv1d, Device, gatedDelta, linear } from "../../lib/index.ts";
import type { Op } from "../../lib/index.ts";
import { convCalls } from "../cases/causal-conv1d.ts";
import { deltaCalls } from "../cases/gated-delta.ts";
import { linearFormCalls } from "../cases/linear.ts";
import type { LinearShape } from "../cases/linear.ts";
import type { Temperature } from "../operands.ts";
import { timesOf } from "./times.ts";

interface Case extends Disposable {
  call(): void;
}

const threads = Number(process.argv[2]);
const device = Device.open({ backend: "cpu", threads });

/** A call of each op in turn, after each has run once: memory is allocated at its first use. */
function caseOf(ops: readonly Op[], tensors: readonly Disposable[]): Case {
  let at = 0;
  const call = () => {
    device.run(ops[at]!);
    device.wait();
    at = (at + 1) % ops.length;
  };
  ops.forEach(call);
  return {
    call,
    [Symbol.dispose]() {
      for (const tensor of tensors) tensor[Symbol.dispose]();
    },
  };
}

/** The benchmark with a name such as `linear/q4_0/R8/1024x3584/t1/cold` or `gatedDelta/f32/B1/T512/Hv32/t1/hot`. */
function prepare(name: string, how: string): Case {
  const [what, form, ...rest] = name.split("/") as [string, string, ...string[]];
  const temperature = rest.at(-1) as Temperature;
  const sizes = rest.flatMap((part) => part.match(/\d+/g) ?? []).map(Number);
  if (what === "linear") {
    const [rows, inFeatures, outFeatures] = sizes as [number, number, number];
    const { calls, tensors } = linearFormCalls(device, { form: form as LinearShape["form"], rows, inFeatures, outFeatures, threads, temperature });
    return caseOf(calls.map((args) => linear(how === "int8" ? { ...args, activations: "int8" } : args)), tensors);
  }
  const [sequences, tokens, valueHeads] = sizes as [number, number, number];
  const shape = { dtype: "f32", sequences, tokens, valueHeads, threads, temperature } as const;
  if (what === "gatedDelta") {
    const { calls, tensors } = deltaCalls(device, shape);
    return caseOf(calls.map((args) => gatedDelta(args)), tensors);
  }
  const { calls, tensors } = convCalls(device, shape);
  return caseOf(calls.map((args) => causalConv1d(args)), tensors);
}

const cases = new Map<string, Case>();
let at = "";
console.log(JSON.stringify({ version: `this library, ${device.isa} kernels` }));
for await (const line of createInterface({ input: process.stdin })) {
  const [name, how, milliseconds] = line.split(" ") as [string, string, string];
  if (name !== at) {
    for (const old of cases.values()) old[Symbol.dispose]();
    cases.clear();
    at = name;
  }
  const { call } = cases.get(how) ?? cases.set(how, prepare(name, how)).get(how)!;
  console.log(JSON.stringify(timesOf(call, Number(milliseconds))));
}
