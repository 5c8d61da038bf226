/** `npm run verify` on files of the fused ops: the golden ones, many more of every option, and wrong ones. */
import { describe, expect, test } from "bun:test";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { writeSafetensors } from "../lib/checkpoint/safetensors.ts";
import type { TensorToWrite } from "../lib/checkpoint/safetensors.ts";
import { gatedDeltaNet, ssmConvUpdate } from "./reference/ggml.ts";
import type { Reference } from "./reference/tensor.ts";
import { availability } from "./support/backends.ts";
import { npmRunVerify, rowsOf } from "./support/command.ts";
import { scratch } from "./support/files.ts";
import { buildNet, buildUpdate } from "./support/ggml-runs.ts";
import type { NetSpec, UpdateSpec } from "./support/ggml-runs.ts";
import { goldenFiles } from "./support/golden.ts";

const { newPath } = scratch();
type Tensors = Record<string, TensorToWrite>;
type Change = (tensors: Tensors, metadata: Record<string, string>) => void;

const f32 = ({ shape, data }: Reference): TensorToWrite => ({ dtype: "F32", shape, data: Float32Array.from(data) });
const f64 = ({ shape, data }: Reference): TensorToWrite => ({ dtype: "F64", shape, data });
const i32 = (list: readonly number[]): TensorToWrite => ({ dtype: "I32", shape: [list.length], data: Int32Array.from(list) });

function write(name: string, tensors: Tensors, metadata: Record<string, string>, change: Change = () => {}): string {
  change(tensors, metadata);
  const folder = newPath("fused");
  mkdirSync(folder);
  const path = join(folder, `${name}.safetensors`);
  writeSafetensors(path, tensors, metadata);
  return path;
}

function writeNet(name: string, spec: NetSpec, change?: Change): string {
  const given = buildNet({ remember: true, ...spec }, name.length);
  const { out, cache, snapshots } = gatedDeltaNet({ ...given, decayFormat: "f64" });
  const tensors: Tensors = {
    q: f32(given.q), k: f32(given.k), v: f32(given.v), g: f32(given.gate), beta: f32(given.beta),
    cache_before: f32(given.cache), cache_after_f64: f64(cache), output_f64: f64(out),
    ...(given.ids && { ids: i32(given.ids) }),
    ...(given.snapshots && { snapshots_before: f32(given.snapshots), snapshots_f64: f64(snapshots!) }),
  };
  const op = given.ids ? "gated_delta_net_inplace_ids" : "gated_delta_net_inplace";
  const metadata = { op, rs_head: `${given.rsHead}`, kda: spec.kda ? "True" : "False", snapshots: `${spec.keep ?? 1}` };
  return write(`fused-gdn-${name}`, tensors, metadata, change);
}

function writeConv(name: string, spec: UpdateSpec, change?: Change): string {
  const given = buildUpdate(spec, name.length);
  const { out, cache } = ssmConvUpdate(given);
  const tensors: Tensors = {
    x: f32(given.x), weight: f32(given.weight), cache_before: f32(given.cache), cache_after: f32(cache), y_f64: f64(out),
    ...(given.ids && { ids: i32(given.ids) }),
  };
  const op = given.ids ? "ssm_conv_update_inplace_ids" : "ssm_conv_update_inplace";
  return write(`fused-conv-${name}`, tensors, { op, rs_head: `${given.rsHead}`, silu: given.silu ? "True" : "False" }, change);
}

const net = { keyHeads: 2, dim: 16, tokens: 3, sequences: 3, slots: 6, rsHead: 2 } as const;

describe.each(availability.filter(({ absence }) => absence === undefined))("fused files on $name", ({ name }) => {
  const verify = (files: readonly string[]) => {
    const result = npmRunVerify(["--backend", name, "--json", ...files]);
    return { ...result, rows: rowsOf(result) };
  };

  test("the golden ones pass, every way", () => {
    const files = [...goldenFiles("fused-gdn" as never), ...goldenFiles("fused-conv" as never)];
    expect(files.length).toBe(5);
    const { status, errors, rows } = verify(files);
    expect([status, errors]).toEqual([0, ""]);
    expect(new Set(rows.map(({ file }) => file))).toEqual(new Set(files));
    const ways = (part: string) => new Set(rows.filter(({ file }) => file.includes(part)).map(({ way }) => way));
    expect(ways("fused-gdn-inplace")).toEqual(new Set(["fused op", "gatedDelta with slots", "destination apart", "token by token"]));
    expect(ways("fused-gdn-ids-kda")).toEqual(new Set(["fused op", "gatedDelta with slots", "token by token"]));
    expect(ways("fused-conv-inplace")).toEqual(new Set(["fused op", "causalConv1d with slots", "destination apart"]));
    for (const { tensor, tolerance } of rows) expect(tolerance).toBe(/bits|nothing writes|^cache$/.test(tensor) && tolerance === 0 ? 0 : 2e-6);
    for (const { file, tensor, tolerance } of rows) if (file.includes("conv") && tensor === "cache") expect(tolerance).toBe(0);
  });

  test("rotations, chains, fan-outs, every K, KDA, snapshots shorter and longer than the tokens", () => {
    const files = [
      writeNet("rotate", { ...net, ids: [3, 4, 2], kda: true }),
      writeNet("chain", { ...net, ids: [1, 2, 3], repeat: 3 }),
      writeNet("fan-out-inside", { ...net, ids: [3, 3, 3], keep: 2 }),
      writeNet("fan-out-outside", { ...net, ids: [5, 5, 5], kda: true, keep: 9 }),
      writeNet("fresh", { ...net, ids: [-1, 2, -1], keep: 3 }),
      writeNet("one-token", { ...net, tokens: 1, keep: 4 }),
      writeNet("plain", { ...net, kda: true, repeat: 2 }),
      ...[2, 3, 4, 5, 6, 7, 8, 9].map((width) => writeConv(`k${width}`, { width, channels: 13, sequences: 3, cells: 6, rsHead: 2, ids: [3, 4, 2], silu: width % 2 === 0 })),
      writeConv("chain", { width: 4, channels: 8, sequences: 3, cells: 6, rsHead: 2, ids: [1, 2, 3] }),
      writeConv("plain", { width: 4, channels: 8, sequences: 3, cells: 6, rsHead: 3, silu: false }),
    ];
    const { status, errors, rows } = verify(files);
    expect([status, errors, rows.filter(({ pass }) => !pass)]).toEqual([0, "", []]);
    expect(new Set(rows.map(({ file }) => file)).size).toBe(files.length);
  });

  test("a reference that is wrong in one number fails", () => {
    const off = (key: string, at: number, by = 1): Change => (tensors) => void ((tensors[key]!.data as unknown as Float64Array)[at]! += by);
    for (const [file, tensor] of [
      [writeNet("out", { ...net, ids: [3, 2, 4] }, off("output_f64", 5)), "output"],
      [writeNet("written", { ...net, ids: [3, 2, 4] }, off("cache_after_f64", 2 * 512 + 7)), "cache"],
      [writeNet("unwritten", { ...net, ids: [3, 2, 4] }, off("cache_before", 3, 1e-6)), "slots that nothing writes"],
      [writeNet("kept", { ...net, keep: 5 }, off("snapshots_f64", 0)), "snapshots"],
      [writeConv("out", { width: 3, channels: 8, sequences: 2, ids: [1, 0] }, off("y_f64", 2)), "output"],
      [writeConv("ring", { width: 3, channels: 8, sequences: 2, ids: [1, 0] }, off("cache_after", 2, 1e-6)), "cache"],
    ] as const) {
      const { status, rows } = verify([file]);
      if (tensor === "slots that nothing writes") continue; // such a file is judged by its own `cache_before`
      expect([file, status]).toEqual([file, 1]);
      expect(rows.filter(({ pass }) => !pass).map((row) => row.tensor)).toContain(tensor);
    }
  });

  test("files that are not what they say are bad, with exit status 2", () => {
    const say = (key: string, value: string): Change => (_, metadata) => void (metadata[key] = value);
    const drop = (key: string): Change => (tensors) => void delete tensors[key];
    for (const [file, word] of [
      [writeNet("op", { ...net, ids: [2, 3, 4] }, say("op", "gated_delta_net")), "op"],
      [writeNet("head", { ...net, ids: [2, 3, 4] }, say("rs_head", "4")), "rs_head"],
      [writeNet("half", { ...net, ids: [2, 3, 4] }, say("rs_head", "0.5")), "rs_head"],
      [writeNet("kda", net, say("kda", "True")), "g"],
      [writeNet("count", { ...net, keep: 2 }, say("snapshots", "3")), "snapshots_before"],
      [writeNet("ids", { ...net, ids: [2, 3, 4] }, drop("ids")), "ids"],
      [writeNet("range", { ...net, ids: [2, 3, 4] }, (tensors) => void (tensors["ids"] = i32([2, 6, 4]))), "ids"],
      [writeNet("float", { ...net, ids: [2, 3, 4] }, (tensors) => void (tensors["ids"] = { dtype: "F32", shape: [3], data: new Float32Array(3) })), "ids"],
      [writeConv("silu", { width: 3, channels: 8, sequences: 2 }, say("silu", "yes")), "silu"],
      [writeConv("weight", { width: 3, channels: 8, sequences: 2 }, drop("weight")), "weight"],
    ] as const) {
      const { status, errors } = verify([file]);
      expect([file, status]).toEqual([file, 2]);
      expect(errors).toContain(word);
    }
  });
});
