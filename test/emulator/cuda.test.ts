/** The CUDA back end, as far as it can be tested without a card: its output is C++ that compiles, with a manifest. */
import { expect, setDefaultTimeout } from "bun:test";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { writeCuda } from "./build.ts";
import { choose, chooseForms, packReplay, receipt, withoutRecord } from "./cuda/replay.ts";
import { emitCuda } from "./emit/cuda.ts";
import { parseUnit } from "./frontend/unit.ts";
import { openSource } from "./harness.ts";
import { clang } from "./toolchain.ts";
import { describe, onLinux, test } from "./linux.ts";

// A first run compiles the runtime, which can take a while on a busy machine.
setDefaultTimeout(300_000);

const root = join(import.meta.dirname, "..", "..");
const shaders = join(root, "shaders");

/** The messages about translated code, all entries at once, from the host's C++ compiler instead of NVRTC. */
function problems(code: string): string {
  const text = `#include "${join(import.meta.dirname, "cuda", "host.h")}"\n${code.replace(/^#if EMU_ENTRY == \d+$/gm, "#if 1")}`;
  const flags = [
    "--no-default-config",
    "-x",
    "c++",
    "-std=c++17",
    "-fsyntax-only",
    "-nostdinc",
    "-Wno-everything",
    "-ferror-limit=5",
    "-",
  ];
  return spawnSync(clang(), flags, { input: text, encoding: "utf8" }).stderr;
}

describe("this project's kernels", () => {
  const folder = mkdtempSync(join(tmpdir(), "gated-delta-cuda-"));
  const files = readdirSync(shaders).filter((f) => f.endsWith(".metal"));
  const names = !onLinux
    ? []
    : writeCuda(
        files.map((f) => join("shaders", f)),
        folder,
        root,
      );
  for (const name of names) {
    test(`${name} is C++`, () => {
      expect(problems(readFileSync(join(folder, `${name}.cu`), "utf8"))).toBe("");
    });
  }
  test("the folder is whole", () => {
    expect(readdirSync(folder).sort()).toEqual(
      [...names.flatMap((n) => [`${n}.cu`, `${n}.kernels`]), "compile.h", "record_file.h", "runner.cpp"].sort(),
    );
    rmSync(folder, { recursive: true });
  });
});

describe("translation", () => {
  const source = `using namespace metal;
constant bool FLAG [[function_constant(0)]];
constant int N [[function_constant(1)]];
constant int DOUBLE = N * 2;
struct Params { uint count; float xy; };
template <typename T> kernel void k(device const T* in [[buffer(0)]], device float4* out [[buffer(2)]], constant Params& p [[buffer(5)]],
                                    threadgroup float* t [[threadgroup(0)]], uint3 g [[threadgroup_position_in_grid]], ushort lane [[thread_index_in_simdgroup]]) {
  threadgroup vec<T, 4> tile[DOUBLE > 2 ? 8 : 4];
  float4 v = float4(float(in[lane]), p.xy, float2(1.0f, 2.0f));
  tile[lane % 4] = vec<T, 4>(v.wzyx);
  t[lane] = simd_sum(v.x) + dot(v.xyz, v.bgr) + (is_function_constant_defined(N) ? 1.0f : 0.0f);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  half h = 1.0h + half(v.x);
  if (FLAG) out[g.x] = fma(v, 2.0f * v, float4(tile[0])) + float(h) * bfloat(1.5f);
}
template [[host_name("k_half")]] kernel decltype(k<half>) k<half>;
template [[host_name("k_float")]] kernel decltype(k<float>) k<float>;
`;
  const { code, manifest } = emitCuda(parseUnit(source, "k.metal"));

  test("compiles", () => expect(problems(code)).toBe(""));

  test("the manifest names entries, arguments and constants", () => {
    expect(manifest).toBe(
      ["k_half emu_entry_0 0", "k_float emu_entry_1 1"]
        .map(
          (head) =>
            `kernel ${head}\nbuffer 0 in\nbuffer 2 out\nvalue 5 p 0\nthreadgroup 0 t\nconstant FLAG bool\nconstant N int\n`,
        )
        .join(""),
    );
  });

  test("a swizzle that is assigned to is refused with its place", () => {
    const wrong =
      "using namespace metal;\nkernel void k(device float4* out [[buffer(0)]]) {\n  float4 v = out[0];\n  v.xy = v.zw;\n  out[0] = v;\n}\n";
    expect(() => emitCuda(parseUnit(wrong, "s.metal"))).toThrow(/^s\.metal:4: assignment to the swizzle \.xy/);
  });
});

describe("replay", () => {
  test("records, what the emulator makes of them, and a receipt", async () => {
    const folder = mkdtempSync(join(tmpdir(), "gated-delta-replay-"));
    const records = join(folder, "made");
    mkdirSync(records);
    const source =
      "#include <metal_stdlib>\nusing namespace metal;\nkernel void twice(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] *= 2.0f; }\n";
    writeFileSync(join(folder, "twice.metal"), source);
    const library = await openSource("twice.metal", source);
    process.env["GATED_DELTA_EMULATOR_RECORD"] = records;
    process.env["GATED_DELTA_EMULATOR_RECORD_LIMIT"] = "3";
    library.runAll(
      [64, 32, 96, 128, 160].map((n) => ({
        kernel: "twice",
        buffers: { 0: new Float32Array(n).fill(n) },
        grid: [n],
        threads: [32],
      })),
    );
    delete process.env["GATED_DELTA_EMULATOR_RECORD"];
    delete process.env["GATED_DELTA_EMULATOR_RECORD_LIMIT"];
    expect(readdirSync(records).sort()).toEqual(["000000-twice.emurec", "000001-twice.emurec", "000002-twice.emurec"]);
    expect(choose(records, 2)).toEqual(["000001-twice.emurec", "000002-twice.emurec"]);
    // All have the same form, and the smallest has 32 numbers.
    expect(chooseForms(records, 2)).toEqual(["000001-twice.emurec"]);
    const output = join(folder, "out");
    expect(await packReplay([join(folder, "twice.metal")], records, library.path, output, 3)).toBe(3);
    expect(withoutRecord(output)).toEqual([]);
    rmSync(join(output, "records", "000001-twice.emurec"));
    expect(withoutRecord(output)).toEqual([]);
    for (const other of ["000000", "000002"]) rmSync(join(output, "records", `${other}-twice.emurec`));
    expect(withoutRecord(output)).toEqual(["twice"]);
    const expected = readFileSync(join(output, "records", "000001-twice.expected"));
    expect(Array.from(new Float32Array(new Uint8Array(expected.subarray(24)).buffer))).toEqual(new Array(32).fill(64));

    const lines = [
      { card: "a card", computeCapability: "9.0", cuda: 13020 },
      {
        record: "records/000001-twice.emurec",
        kernel: "twice",
        ran: true,
        sameBits: true,
        microseconds: 0,
        differences: [],
        error: "",
      },
      {
        record: "records/000002-twice.emurec",
        kernel: "twice",
        ran: true,
        sameBits: false,
        microseconds: 0,
        differences: [{ buffer: 0 }],
        error: "",
      },
    ];
    const times = [
      {
        record: "records/000001-twice.emurec",
        kernel: "twice",
        ran: true,
        sameBits: true,
        microseconds: 2.5,
        differences: [],
        error: "",
      },
      { case: "two", group: "one", microseconds: 3, error: "", kernels: [{ registers: 20, spilled: 0 }, { registers: 30, spilled: 8 }] },
      { case: "copy", group: "other", microseconds: 9, error: "", kernels: [] },
      { case: "copy", group: "one", microseconds: 2, error: "", kernels: [] },
      { case: "wrong", group: "one", microseconds: 0, error: "no such kernel", kernels: [] },
    ];
    writeFileSync(join(folder, "a.jsonl"), lines.map((l) => JSON.stringify(l)).join("\n"));
    writeFileSync(join(folder, "b.jsonl"), times.map((l) => JSON.stringify(l)).join("\n"));
    expect(receipt([join(folder, "a.jsonl"), join(folder, "b.jsonl")], "abc", "2030-01-02")).toEqual({
      card: "a card",
      computeCapability: "9.0",
      cudaDriver: "13.2",
      date: "2030-01-02",
      commit: "abc",
      dispatches: 2,
      sameBits: 1,
      problems: [{ record: "000002-twice.emurec", kernel: "twice", error: "", differences: [{ buffer: 0 }] }],
      kernels: { twice: { dispatches: 2, microseconds: [2.5] } },
      cases: [{ case: "two", microseconds: 3, copy: 2, registers: 30, spilled: 8 }],
    });
    rmSync(folder, { recursive: true });
  });
});
