/** `npm run verify` on files, `gated-delta verify` on mixers: passes, failures and refusals. */
import { describe, expect, test } from "bun:test";
import { copyFileSync, cpSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import manifest from "../package.json" with { type: "json" };
import type { Row } from "../lib/cli/verify/report.ts";
import { openSafetensors, writeSafetensors } from "../lib/checkpoint/safetensors.ts";
import type { TensorToWrite } from "../lib/checkpoint/safetensors.ts";
import { gatedDelta, npmRunVerify, rowsOf } from "./support/command.ts";
import { scratch } from "./support/files.ts";
import { writeCausalConv, writeGatedDelta, writeGatedRmsNorm, writeLayerCase } from "./support/golden-writer.ts";
import type { Change } from "./support/golden-writer.ts";
import { goldenFiles } from "./support/golden.ts";
import { smallConfig } from "./support/layers.ts";

const { newPath } = scratch();
const mixers = ["bailing_hybrid", "glm5_next", "kimi_linear", "olmo_hybrid"].map((name) => join(import.meta.dir, "golden", "mixers", name));
const golden = (["gated-delta", "causal-conv", "gated-rmsnorm", "layer"] as const).flatMap(goldenFiles);

function verify(files: readonly string[], ...options: string[]) {
  const result = npmRunVerify(["--backend", "cpu", "--json", ...options, ...files]);
  return { ...result, rows: rowsOf(result) };
}

const waysOf = (rows: readonly Row[], prefix: string) =>
  new Set(rows.filter(({ file }) => basename(file).startsWith(prefix)).map(({ way }) => way));

describe("the golden files", () => {
  const { status, rows, errors } = verify(golden);

  test("pass, in rows of the documented form", () => {
    expect([status, errors]).toEqual([0, ""]);
    expect(new Set(rows.map(({ file }) => file))).toEqual(new Set(golden));
    for (const row of rows) {
      const { file, op, backend, way, tensor, relRms, maxAbs, tolerance, pass, ...rest } = row;
      expect(rest).toEqual({});
      expect([file, op, way, tensor].every((text) => typeof text === "string" && text !== "")).toBe(true);
      expect([backend, pass]).toEqual(["cpu", true]);
      expect([relRms, maxAbs, tolerance].every((value) => Number.isFinite(value) && value >= 0)).toBe(true);
      expect(relRms).toBeLessThanOrEqual(tolerance);
    }
  });

  test("run every way", () => {
    const ragged = ["token by token", "one sequence at a time", "uneven batch", "other slots", "split after 1"];
    for (const way of ragged) expect(waysOf(rows, "gated-delta-rect")).toContain(way);
    const delta = ["whole", "algorithm auto", "packed query, key and value"];
    for (const way of delta) expect(waysOf(rows, "gated-delta")).toContain(way);
    for (const way of ragged) expect(waysOf(rows, "causal-conv-f32")).toContain(way);
    expect(waysOf(rows, "causal-conv-bf16")).toContain("whole, float32 output");
    expect(waysOf(rows, "gated-rmsnorm-bf16")).toEqual(
      new Set(["whole", "whole, float32 output", "rows as heads of one token", "split in half", "row by row"]),
    );
    const decoded = ["prefill and fused decode", "prefill and unfused decode", "prefill in chunks and fused decode"];
    const layer = ["one prefill", ...decoded, "token by token"];
    for (const way of layer) expect(waysOf(rows, "layer-")).toContain(way);
  });

  test("are compared with transformers' float32 and between ways", () => {
    const peers = rows.filter(({ tensor }) => tensor === "output vs transformers f32");
    expect(peers.map(({ file }) => file)).toEqual(goldenFiles("gated-delta"));
    for (const path of golden) {
      const bits = rows.filter(({ file, tensor }) => file === path && tensor.includes("bits of"));
      expect(new Set(bits.map(({ tolerance }) => tolerance))).toEqual(new Set([0]));
    }
  });

  test("give the same numbers with one thread", () => {
    const one = verify(golden, "--threads", "1");
    expect(one.rows).toEqual(rows);
  });

  test("take one line each without --json", () => {
    const { status, out, errors } = npmRunVerify(["--backend", "cpu", ...golden]);
    expect([status, errors]).toEqual([0, ""]);
    const [device, ...lines] = out.trimEnd().split("\n");
    expect(device).toStartWith("on cpu: ");
    expect(lines).toHaveLength(golden.length);
    lines.forEach((line, i) => {
      expect(line).toMatch(new RegExp(`^ok +${RegExp.escape(golden[i]!)}: \\d+ ways, \\d+ checks; worst `));
    });
  });
});

describe("files of other shapes and dtypes", () => {
  const files: [name: string, path: string][] = [
    ["gated delta, ratio 3", writeGatedDelta({})],
    ["gated delta, one token, many sequences", writeGatedDelta({ b: 5, t: 1 })],
    ["gated delta, no tokens", writeGatedDelta({ t: 0 })],
    ["gated delta, bf16", writeGatedDelta({ t: 40, dtype: "bf16" })],
    ["gated delta, f16, no norm", writeGatedDelta({ t: 19, dtype: "f16", norm: false })],
    ["gated delta, largest heads", writeGatedDelta({ b: 1, t: 3, hk: 1, hv: 1, dk: 256, dv: 256 })],
    ["gated delta, smallest heads", writeGatedDelta({ hk: 3, hv: 3, dk: 8, dv: 8 })],
    ...[2, 3, 5, 9].map((k): [string, string] => [`conv, ${k} taps`, writeCausalConv({ k })]),
    ["conv, fewer tokens than taps", writeCausalConv({ t: 2, k: 9 })],
    ["conv, no tokens", writeCausalConv({ t: 0 })],
    ["conv, one channel", writeCausalConv({ c: 1 })],
    ["conv, bf16 with bias", writeCausalConv({ dtype: "bf16", bias: true, c: 200 })],
    ["conv, f16 without activation", writeCausalConv({ dtype: "f16", silu: false, c: 200 })],
    ["norm of 100", writeGatedRmsNorm({})],
    ["norm of 1", writeGatedRmsNorm({ n: 1 })],
    ["norm of one row, sigmoid, wide eps", writeGatedRmsNorm({ rows: 1, activation: "sigmoid", eps: 0.01 })],
    ["norm, bf16", writeGatedRmsNorm({ rows: 40, dtype: "bf16" })],
    ["norm, f16", writeGatedRmsNorm({ rows: 40, dtype: "f16" })],
    ["norm of seven numbers, which lose more than 2e-3 by being bf16", writeGatedRmsNorm({ rows: 1, n: 7, dtype: "bf16" })],
    ["layer, ratio 3", writeLayerCase(smallConfig, {})],
    ["layer, vision prefix, sigmoid, bf16", writeLayerCase(
      { ...smallConfig, output_gate_type: "sigmoid", linear_conv_kernel_dim: 3 },
      { dtype: "bf16", prefix: "model.language_model.layers.7.linear_attn." },
    )],
    ["layer, decode only", writeLayerCase(smallConfig, { prefill: 0, steps: 4, b: 1, dtype: "f16" })],
    ["layer, prefill only", writeLayerCase(smallConfig, { prefill: 33, steps: 0 })],
  ];
  const { status, rows, errors } = verify(files.map(([, path]) => path));

  test.each(files)("%s", (_, path) => {
    const own = rows.filter(({ file }) => file === path);
    expect(own.length).toBeGreaterThan(1);
    expect(own.filter(({ pass }) => !pass)).toEqual([]);
  });

  test("all in all", () => {
    expect([status, errors]).toEqual([0, ""]);
  });
});

describe("wrong references and inputs", () => {
  /** Changes one number of a tensor. */
  const nudge = (name: string, by: number): Change => (tensors) => {
    const { data } = tensors[name]!;
    const array = data as Float32Array;
    array[3] = (array[3] ?? 0) + by;
  };
  const exactPeer: Change = (tensors) => {
    const { shape, data } = tensors["output_f64"]!;
    tensors["output_recurrent_f32"] = { dtype: "F64", shape, data };
  };
  const cases: [what: string, path: string, tensor: string][] = [
    ["an output", writeGatedDelta({}, nudge("output_f64", 0.01)), "output"],
    ["a state", writeGatedDelta({}, nudge("state_out_f64", 0.01)), "state"],
    ["an input that is not a number", writeGatedDelta({}, nudge("q", NaN)), "output"],
    ["a reference that is not a number", writeGatedDelta({}, nudge("output_f64", NaN)), "output"],
    ["a better peer", writeGatedDelta({}, exactPeer), "output vs transformers f32"],
    ["zeros expected", writeGatedDelta({}, (tensors) => (tensors["output_f64"]!.data as Float64Array).fill(0)), "output"],
    ["another norm", writeGatedDelta({}, (_, metadata) => (metadata["qk_l2norm"] = "False")), "output"],
    ["another head map", writeGatedDelta({}, (_, metadata) => (metadata["heads"] = "k_head = v_head % Hk")), "output"],
    ["another scale", writeGatedDelta({}, (_, metadata) => (metadata["q_scale"] = "1")), "output"],
    ["a conv output", writeCausalConv({}, nudge("y_f64", 0.01)), "output"],
    ["one bit of a conv state", writeCausalConv({}, nudge("state_out", 1e-7)), "state"],
    ["a zero's sign in a conv state", writeCausalConv({}, (tensors) => {
      (tensors["state_in"]!.data as Float32Array).fill(0);
      (tensors["x"]!.data as Float32Array).fill(0);
      (tensors["y_f64"]!.data as Float64Array).fill(0);
      (tensors["state_out"]!.data as Float32Array).fill(-0);
    }), "state"],
    ["a norm", writeGatedRmsNorm({}, nudge("out_f64", 0.01)), "output"],
    ["a norm of seven numbers in bf16", writeGatedRmsNorm({ rows: 1, n: 7, dtype: "bf16" }, nudge("out_f64", 0.02)), "output"],
    ["another eps", writeGatedRmsNorm({}, (_, metadata) => (metadata["eps"] = "0.1")), "output"],
    ["a layer", writeLayerCase(smallConfig, {}, nudge("output_f32", 0.01)), "output"],
  ];
  const { status, rows } = verify(cases.map(([, path]) => path));

  test.each(cases)("%s", (_, path, tensor) => {
    const failed = rows.filter(({ file, pass }) => file === path && !pass);
    expect(failed.map((row) => row.tensor)).toContain(tensor);
  });

  test("give exit status 1, and one line", () => {
    expect(status).toBe(1);
    const [, path] = cases[0]!;
    const text = npmRunVerify([path]);
    expect(text.status).toBe(1);
    expect(text.out).toContain(`FAIL ${path}: `);
  });
});

describe("bad files", () => {
  const good = writeGatedRmsNorm({});
  const copy = (change: (path: string) => void, name = "gated-rmsnorm-x.safetensors"): string => {
    const path = join(dirname(writeGatedRmsNorm({})), name);
    copyFileSync(good, path);
    change(path);
    return path;
  };
  const drop = (name: string): Change => (tensors) => void delete tensors[name];
  const reshape = (name: string, shape: readonly number[]): Change => (tensors) => {
    const size = shape.includes(0) ? 0 : shape.reduce((a, b) => a * b, 1);
    tensors[name] = { dtype: "F32", shape, data: new Float32Array(size) };
  };
  const narrowConfig = { ...smallConfig, hidden_size: 40 };
  const say = (key: string, value: string): Change => (_, metadata) => void (metadata[key] = value);
  const cases: [what: string, path: string, mention: string][] = [
    ["nothing there", newPath("gated-delta-none.safetensors"), "no such file"],
    ["a directory", dirname(good), "directory"],
    ["an unknown kind", copy(() => {}, "mystery.safetensors"), "gated-delta-"],
    ["cut short", copy((path) => truncateSync(path, 1000)), "bytes"],
    ["empty", copy((path) => truncateSync(path, 0)), "an empty file"],
    ["a header of 2^62 bytes", copy((path) => {
      const bytes = readFileSync(path);
      bytes.writeBigUInt64LE(1n << 62n, 0);
      writeFileSync(path, bytes);
    }), "header"],
    ["a tensor missing", writeGatedDelta({}, drop("beta")), '"beta"'],
    ["references missing", writeCausalConv({}, drop("y_f64")), '"y_f64"'],
    ["sizes that disagree", writeGatedDelta({}, reshape("v", [2, 8, 6, 24])), "T = 9"],
    ["another rank", writeGatedDelta({}, reshape("g", [2, 9])), '"g"'],
    ["a state of another width", writeCausalConv({}, reshape("state_out", [2, 37, 4])), "K"],
    ["heads that do not divide", writeGatedDelta({ hk: 4, hv: 4 }, (tensors) => {
      for (const name of ["q", "k"]) reshape(name, [2, 9, 3, 16])(tensors, {});
    }), "key heads"],
    ["sequences without end, of nothing", writeGatedDelta({}, (tensors) => {
      for (const name of ["q", "k", "v"]) reshape(name, [2 ** 40, 0, 0, 8])(tensors, {});
      for (const name of ["g", "beta"]) reshape(name, [2 ** 40, 0, 0])(tensors, {});
      for (const name of ["state_in", "state_out_f64", "output_f64"]) reshape(name, [2 ** 40, 0, 8, 8])(tensors, {});
    }), "B in 1..65536"],
    ["a head dimension that no kernel has", writeGatedDelta({ dk: 12 }), "multiple of 8"],
    ["too many taps", writeCausalConv({ k: 10 }), "2..9"],
    ["float64 inputs", writeGatedDelta({}, (tensors) => {
      tensors["q"] = { ...tensors["output_f64"]!, shape: [2, 9, 2, 72] };
    }), "q"],
    ["an unknown gate", writeGatedDelta({}, say("gate", "decay = g")), "gate"],
    ["an unknown head map", writeGatedDelta({}, say("heads", "random")), "heads"],
    ["a flag that is none", writeGatedDelta({}, say("qk_l2norm", "maybe")), "qk_l2norm"],
    ["an eps that is none", writeGatedRmsNorm({}, say("eps", "small")), "eps"],
    ["a negative eps", writeGatedRmsNorm({}, say("eps", "-1")), "eps"],
    ["an unknown formula", writeGatedRmsNorm({}, say("formula", "w * y")), "formula"],
    ["a config that is no JSON", writeLayerCase(smallConfig, {}, say("config", "{")), "JSON"],
    ["a config of another layer", writeLayerCase(smallConfig, {}, say("config", JSON.stringify(narrowConfig))), "shape"],
    ["steps that do not add up", writeLayerCase(smallConfig, {}, say("decode_steps", "1")), "decode_steps"],
    ["steps that are none", writeLayerCase(smallConfig, {}, say("prefill_tokens", "0x6")), "prefill_tokens"],
    ["no layer", writeLayerCase(smallConfig, {}, drop("model.layers.0.linear_attn.A_log")), "layer"],
    ["two layers", writeLayerCase(smallConfig, {}, (tensors) => {
      tensors["model.layers.1.linear_attn.A_log"] = tensors["model.layers.0.linear_attn.A_log"]!;
    }), "several"],
  ];
  const { status, rows, errors } = verify([...cases.map(([, path]) => path), good]);

  test.each(cases)("%s", (_, path, mention) => {
    const lines = errors.split("\n").filter((line) => line.startsWith(`bad  ${path}: `));
    expect(lines).toHaveLength(1);
    expect(lines[0]!.slice(path.length)).toContain(mention);
    expect(lines[0]).not.toMatch(/TypeError|RangeError|undefined/);
  });

  test("do not keep the others from being checked, and the exit status is 2", () => {
    expect(status).toBe(2);
    expect(new Set(rows.map(({ file }) => file))).toEqual(new Set([good]));
    expect(errors.trimEnd().split("\n")).toHaveLength(cases.length);
  });

  test("a failure and a bad file are a failure", () => {
    const failing = writeGatedRmsNorm({}, (tensors) => (tensors["out_f64"]!.data as Float64Array).fill(1));
    expect(verify([cases[0]![1], failing]).status).toBe(1);
  });
});

describe("gated-delta verify", () => {
  test("names the program that checks golden files of operations, before it opens a device", () => {
    for (const path of [goldenFiles("gated-delta")[0]!, goldenFiles("fused-conv")[0]!, writeGatedRmsNorm({}), import.meta.path]) {
      const { status, out, errors } = gatedDelta(["verify", ...mixers, path], { GATED_DELTA_LIBRARY: newPath("none.so") });
      expect([status, out]).toEqual([2, ""]);
      expect(errors).toStartWith(`gated-delta verify: ${path}: expected the directory of a model or of mixers`);
      expect(errors).toContain("`npm run verify` in a clone");
      expect(errors.trimEnd().split("\n")).toHaveLength(1);
    }
    expect((manifest as { scripts: Record<string, string> }).scripts["verify"]).toBe("node test/verify/run.mjs");
  });

  test("gives the rows of npm run verify for layers and mixers", () => {
    const paths = [writeLayerCase(smallConfig, {}), mixers[0]!];
    const { status, rows } = verify(paths);
    const shipped = gatedDelta(["verify", "--backend", "cpu", "--json", ...paths]);
    expect([status, shipped.status, shipped.errors]).toEqual([0, 0, ""]);
    expect(rowsOf(shipped)).toEqual(rows);
    expect(new Set(rows.map(({ file }) => file))).toEqual(new Set(paths));
  });

  test("refuses files that are missing, or no layer", () => {
    const missing = newPath("gated-delta-none.safetensors");
    const wrong = writeLayerCase(smallConfig, {}, (_, metadata) => void (metadata["decode_steps"] = "1"));
    const { status, errors } = gatedDelta(["verify", "--backend", "cpu", missing, wrong]);
    expect(status).toBe(2);
    expect(errors).toMatch(new RegExp(`^bad  ${RegExp.escape(missing)}: .*no such file.*\n^bad  ${RegExp.escape(wrong)}: .*decode_steps`, "m"));
  });
});

describe("directories", () => {
  const verify = (folders: readonly string[], ...options: string[]) => {
    const result = gatedDelta(["verify", "--backend", "cpu", "--json", ...options, ...folders]);
    return { ...result, rows: rowsOf(result) };
  };
  const kimi = mixers[2]!;
  /** A changed copy of a mixer. */
  const copyOf = (change: (folder: string) => void): string => {
    const folder = newPath("mixer");
    cpSync(kimi, folder, { recursive: true });
    change(folder);
    return folder;
  };
  const expectedOf = (folder: string, change: (output: Float32Array, metadata: Record<string, string>) => void) => {
    const path = join(folder, "expected.safetensors");
    using file = openSafetensors(path);
    const { shape } = file.info("output");
    const [hidden, output] = [file.float32("hidden"), file.float32("output")];
    const metadata = Object.fromEntries(file.metadata);
    change(output, metadata);
    rmSync(path);
    writeSafetensors(path, { hidden: { dtype: "F32", shape, data: hidden }, output: { dtype: "F32", shape, data: output } }, metadata);
  };

  test("of mixers pass in every way, under the path as given", () => {
    const { status, rows, errors } = verify(mixers);
    expect([status, errors]).toEqual([0, ""]);
    expect(new Set(rows.map(({ file }) => file))).toEqual(new Set(mixers));
    const ways = ["one prefill", "prefill and fused decode", "split after 37", "uneven batch", "one sequence at a time", "forked half-way", "restored half-way"];
    for (const mixer of mixers) {
      const own = rows.filter(({ file }) => file === mixer);
      for (const way of ways) expect(own.map((row) => row.way)).toContain(way);
      for (const row of own.filter(({ tensor }) => tensor.includes("bits of"))) expect([row.relRms, row.tolerance]).toEqual([0, 0]);
    }
  });

  test.each(["f16", "bf16"])("run with activations of %s, too", (dtype) => {
    const { status, rows } = verify(mixers, "--dtype", dtype);
    expect(status).toBe(0);
    expect(Math.max(...rows.map(({ relRms }) => relRms))).toBeGreaterThan(1e-4);
  });

  test("without references are compared with themselves", () => {
    const folder = copyOf((path) => rmSync(join(path, "expected.safetensors")));
    const { status, rows } = verify([folder]);
    expect(status).toBe(0);
    expect(rows.length).toBeGreaterThan(20);
    expect(rows.every(({ tensor }) => /^layer 1: .*bits of one prefill$/.test(tensor))).toBe(true);
  });

  test("of whole models of which there are mixers only", () => {
    const folder = copyOf((path) => {
      const model = join(path, "model.safetensors");
      const tensors = new Map<string, TensorToWrite>([["model.embed_tokens.weight", { dtype: "F32", shape: [1, 1], data: new Float32Array(1) }]]);
      {
        using file = openSafetensors(model);
        for (const name of file.names) tensors.set(name, { ...file.info(name), data: file.read(name) });
      }
      rmSync(model);
      writeSafetensors(model, tensors);
    });
    const { status, rows, errors } = verify([folder]);
    expect([status, errors]).toEqual([0, ""]);
    expect(new Set(rows.map(({ op }) => op))).toEqual(new Set(["GatedDeltaNet"]));
  });

  test("that are not what they say fail, or are bad", () => {
    const other = copyOf((path) => expectedOf(path, (output) => (output[3] = (output[3] ?? 0) + 0.01)));
    const gate = copyOf((path) => {
      const config = JSON.parse(readFileSync(join(path, "config.json"), "utf8"));
      writeFileSync(join(path, "config.json"), JSON.stringify({ ...config, rms_norm_eps: 0.1 }));
    });
    const bad: [path: string, mention: string][] = [
      [copyOf((path) => rmSync(join(path, "config.json"))), "config.json"],
      [copyOf((path) => rmSync(join(path, "model.safetensors"))), "a checkpoint of another kind"],
      [copyOf((path) => truncateSync(join(path, "model.safetensors"), 5000)), "bytes"],
      [copyOf((path) => expectedOf(path, (_, metadata) => (metadata["layer"] = "0"))), "layers 1"],
      [copyOf((path) => expectedOf(path, (_, metadata) => (metadata["layer"] = "0.5"))), "whole number"],
      [copyOf((path) => expectedOf(path, (_, metadata) => (metadata["decode_steps"] = "1"))), "decode_steps"],
      [copyOf((path) => writeFileSync(join(path, "config.json"), "{")), "JSON"],
    ];
    const { status, rows, errors } = verify([other, gate, ...bad.map(([path]) => path)]);
    expect(status).toBe(1);
    for (const path of [other, gate]) {
      const failed = rows.filter(({ file, pass }) => file === path && !pass);
      expect(failed.map(({ tensor }) => tensor)).toContain("output");
    }
    for (const [path, mention] of bad) {
      expect(errors.split("\n").find((line) => line.startsWith(`bad  ${path}: `))).toContain(mention);
    }
    expect(errors).not.toMatch(/TypeError|RangeError|undefined/);
    expect(verify(bad.map(([path]) => path)).status).toBe(2);
  }, 60_000);
});
